"""Hours of a server's life in minutes: good and hostile callers, models that come and go, restarts."""
