"""Pictures of which every cell gets a class."""
