"""Functions behind `meshplan.search`, `meshplan.estimate` and the others that answer Python without a server."""
