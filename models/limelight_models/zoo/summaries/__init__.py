"""Models that write what a text says in fewer words."""
