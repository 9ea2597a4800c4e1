"""Asks training frameworks, by their own parsers and validators, whether they take what meshplan exports."""
