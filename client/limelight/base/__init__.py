"""The parts of the client that Limelight's other packages use too; no public API."""
