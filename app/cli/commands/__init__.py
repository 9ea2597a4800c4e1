"""The commands: parse flags, call, print, return an exit code. Each imports what it needs when it runs."""
