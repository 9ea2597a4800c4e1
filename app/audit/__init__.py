"""The log of what each API key did, for admins."""
