"""Training: `limelight train`, and the run folder that it leaves."""
