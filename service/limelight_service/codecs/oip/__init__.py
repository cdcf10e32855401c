"""The Open Inference Protocol over gRPC: a codec over the core, as `limelight_service.codecs.v1` is."""
