"""Where experts lie: loads over steps, what they will be, and which moves and copies pay."""
