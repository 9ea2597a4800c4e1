"""What Python is answered in the same process."""
