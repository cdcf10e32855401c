"""Files of a bundle: samples, large weights, library versions."""
