"""A family of models that is nowhere but here: as if it were in `models/zoo`."""
