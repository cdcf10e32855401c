"""Writers of pages that state facts about code (`python -m pages`), and of the small graphs of the server."""
