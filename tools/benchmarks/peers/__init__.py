"""The other servers of the comparison, each in a process of its own."""
