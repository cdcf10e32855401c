"""The small models in which mechanisms are compared and served."""
