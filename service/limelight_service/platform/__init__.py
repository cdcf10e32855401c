"""The operating system: what this process may use of it, and how it is told apart, stopped and kept small."""
