"""The pictures of the dashboard, and a server of its own that shows it."""
