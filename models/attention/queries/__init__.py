"""Where queries come from, and how many there are (BF §3.3)."""
