"""Two sentences: what one says of the other, word by word."""
