"""Checks that a server keeps: histories of jobs, and the changes that moved them."""
