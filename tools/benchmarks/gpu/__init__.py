"""The server on a GPU, proved and measured in stages; `python -m benchmarks.gpu --help`."""
