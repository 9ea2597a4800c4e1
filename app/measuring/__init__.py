"""Measuring at the user's site: the only code that knows PyTorch, which is no dependency of this project."""
