"""Output: documents as JSON, quantities as text, and tables on a terminal."""
