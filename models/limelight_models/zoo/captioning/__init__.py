"""Sentences that are put out about pictures."""
