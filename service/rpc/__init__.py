"""Between the wire and the engine: checking what a call asks, and building what it gets."""
