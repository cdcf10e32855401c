"""An engine with its models: loaded, checked and kept, and asked in this process or by another."""
