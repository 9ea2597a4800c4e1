"""Launch scripts of users: read back as a job, priced, and changed line by line."""
