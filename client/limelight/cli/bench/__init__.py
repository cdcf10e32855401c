"""`limelight bench`: drives a running server and reports throughput, latency and errors.

`command` reads the options; a module for each protocol makes calls of them; `load` sends the calls in a closed or an
open loop, `ramp` at rising rates; `report` is the result, which `page` draws and `compare` sets beside another.
"""
