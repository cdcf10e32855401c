"""The parent process: starts, watches and restarts frontends and engines, and owns which models are to be loaded."""
