"""JSON over HTTP: limelight.v1 as proto3 JSON, and the REST form of the Open Inference Protocol.

Both are forms of the messages that the gRPC services take and give: requests become those messages, answers are made
of them.
"""
