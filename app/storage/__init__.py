"""The database: tables, transactions, schema upgrades. The only package that builds an engine."""
