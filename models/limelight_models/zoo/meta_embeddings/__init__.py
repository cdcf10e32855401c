"""Several embeddings of each word, and attention that chooses between them."""
