"""gRPC as a transport: connections, how requests arrive, how answers leave, and the status of each call."""
