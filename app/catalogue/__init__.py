"""Models and hardware that ship with the product, or are made from a user's own files."""
