"""Import of checkpoints in the Hugging Face format."""
