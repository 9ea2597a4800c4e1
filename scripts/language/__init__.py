"""The catalogues of Chinese translations."""
