"""Attention that never forms its weights, in time that grows with the tokens; each says what weights it comes to."""
