"""HTTP/1.1 beside gRPC: the port, what of a connection and of a request is bounded, and one exchange from its arrival
to its end. What is asked and answered is up to the codecs.
"""
