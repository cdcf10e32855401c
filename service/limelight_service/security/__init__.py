"""Access control: tokens, quotas, certificates."""
