"""The server: the application put together, its health, the dashboard's files, and the process that serves them."""
