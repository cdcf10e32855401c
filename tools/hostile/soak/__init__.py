"""A server under good and hostile callers for hours, with models that are swapped and restarts."""
