"""Who may call, with what, and how much: tokens, quotas, certificates."""
