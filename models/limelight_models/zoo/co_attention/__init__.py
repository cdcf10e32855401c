"""Questions about pictures and films, answered by co-attention."""
