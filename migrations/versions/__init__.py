"""Versions of the database schema, one file each."""
