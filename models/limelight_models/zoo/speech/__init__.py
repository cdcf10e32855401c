"""Sound that is written down, letter by letter."""
