"""What readers get: documents as JSON, quantities as people read them, tables on a terminal."""
