"""Rewriting of traced graphs: attention markers, token packing, optional maps, metadata."""
