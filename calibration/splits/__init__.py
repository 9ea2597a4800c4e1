"""What runs have in common, and which of them an honest split leaves out together."""
