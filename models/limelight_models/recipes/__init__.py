"""What a published model says of its training: task, data, sizes and settings."""
