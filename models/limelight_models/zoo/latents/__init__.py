"""A few latents between inputs and what is made of them: maps from inputs to latents, and back."""
