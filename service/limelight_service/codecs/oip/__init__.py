"""The Open Inference Protocol over gRPC: a codec over the core, as `limelight_service.codecs.v1` is.

The protocol's code is generated into this package and not below `limelight`: it registers the names that Triton's
client registers too, and both in one process would collide.
"""
