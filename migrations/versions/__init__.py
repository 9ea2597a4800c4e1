"""One module a version, numbered."""
