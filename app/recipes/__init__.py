"""Recipes of post-training frameworks: their files, read as jobs of post-training."""
