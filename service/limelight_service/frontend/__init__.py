"""The side that faces callers: protocols, admission, preprocessing, and assembly of answers from engines' results."""
