"""Queries: their origin and their number (BF §3.3)."""
