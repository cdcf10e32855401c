"""Measures of a served model's attention, computed over RPC.

`statistics`, `weights` and `flow` are arithmetic on arrays; `rows` reads data; `measures` has a module for each
measure; `running` asks the server and makes a `report`.
"""
