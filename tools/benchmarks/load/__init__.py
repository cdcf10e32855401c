"""Load on a gRPC server: one generator for all servers that are measured, in a process of its own."""
