"""Pictures of the dashboard, and the server that they are taken from."""
