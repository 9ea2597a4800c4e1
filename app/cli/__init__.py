"""The command line: flags are parsed, the answer is printed, and an exit code is returned."""
