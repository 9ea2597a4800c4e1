"""Hugging Face ``config.json`` files: what each family of models keeps in them."""
