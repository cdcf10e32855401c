"""The page that shows attention: its local server, and what a real Chromium makes of it."""
