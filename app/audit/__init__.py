"""The log of the actions of API keys, for admins."""
