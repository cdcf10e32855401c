"""Programs that attack a server for minutes or hours, and what they recorded."""
