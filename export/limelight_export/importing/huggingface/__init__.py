"""Import of checkpoints in the Hugging Face format: the library's own modules, with their attention marked."""
