"""Explanations: what of its input an answer depends on. Rows with changes and erasures, made and batched here."""
