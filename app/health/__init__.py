"""Whether the server lives, whether it can serve, and what it measures."""
