"""What speaks to callers: protocols, admission, preprocessing, and answers put together from what engines compute."""
