"""What keys did, for admins to read."""
