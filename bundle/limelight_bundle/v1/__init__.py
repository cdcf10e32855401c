"""Code of the bundle's format, generated from proto/limelight/bundle/v1 when the package is built."""
