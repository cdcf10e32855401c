"""`limelight evaluate`."""
