"""A check of exported launch files with the frameworks' own parsers and validators."""
