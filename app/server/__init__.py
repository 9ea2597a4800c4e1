"""The server process: the application with all endpoints, its health, and the dashboard's files."""
