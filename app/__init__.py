"""The application: command line, REST API, database and workers. Only this package has side effects."""
