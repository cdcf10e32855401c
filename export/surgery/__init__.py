"""Rewrites traced graphs: attention markers, token packing, optional maps, metadata."""
