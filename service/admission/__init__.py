"""What is taken on, and in which order: bounds that hold before anything of a call is read."""
