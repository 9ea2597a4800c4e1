"""Everything with side effects, a folder a resource: command line, REST, database, workers."""
