"""The database: tables, transactions, backups and schema upgrades. No other room builds an engine."""
