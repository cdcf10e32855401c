"""Which rows run next and together, and the worker threads that run them."""
