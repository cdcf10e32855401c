"""Protocol code generated from proto/limelight/v1 when the package is built."""
