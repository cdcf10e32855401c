"""What Limelight is measured beside: other servers, each in a process of its own."""
