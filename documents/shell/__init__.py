"""Reads shell scripts without running anything: the commands that a script would start, each word with the place it comes from.

A library would not do this. bashlex is under the GPL; tree-sitter-bash and shfmt give a syntax tree, from which a
compiled dependency would still leave all that counts here to us: expansion, decidable conditions, and for each character of
an argument the place in the file where it can be changed.
"""
