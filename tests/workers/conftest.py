"""The databases that every test of this folder runs on."""

from tests.databases import database, database_url, empty_url, kind, postgresql, sqlite_template

__all__ = ["database", "database_url", "empty_url", "kind", "postgresql", "sqlite_template"]
