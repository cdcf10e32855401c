"""Conversion of verified float32 graphs to float16, int8, or float16 storage of weights."""
