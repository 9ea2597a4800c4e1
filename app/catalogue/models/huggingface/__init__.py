"""Hugging Face ``config.json`` files: the fields of each model family."""
