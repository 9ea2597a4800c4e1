"""Models: presets with their sources, and shapes read from jobs and Hugging Face config files."""
