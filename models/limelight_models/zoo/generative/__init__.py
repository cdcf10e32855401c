"""Pictures that are drawn from noise."""
