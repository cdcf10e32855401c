"""Generated code of the Open Inference Protocol.

It stands here and not below `limelight`: it registers the names that Triton's client registers too, and both in one
process would collide.
"""
