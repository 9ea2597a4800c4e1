"""Reads shell scripts without running them: the commands that a script would start, each word with its place in the files.

No library fits. bashlex is under the GPL. tree-sitter-bash and shfmt give a syntax tree and add a compiled dependency, but
leave the hard parts to us: expansion, decidable conditions, and the place in the file of each character of an argument.
"""
