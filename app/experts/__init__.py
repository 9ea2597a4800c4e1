"""Plans for experts: load logs and placement maps are read, and the best moves and copies are answered."""
