"""Between frontends and engines: what passes the boundary, and how it travels between processes."""
