"""A family of models that is nowhere but here: as if it were in `models/limelight_models/zoo`."""
