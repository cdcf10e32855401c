"""The protocol `limelight.v1` over gRPC."""
