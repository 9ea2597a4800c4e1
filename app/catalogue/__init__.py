"""Models and hardware that ship with the product, and those made from a user's files."""
