"""A world of handwritten digits among clutter, of which it is known where everything is."""
