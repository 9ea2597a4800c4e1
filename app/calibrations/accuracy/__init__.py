"""How far predictions are from published runs, and what the shipped constants rest on."""
