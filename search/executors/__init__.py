"""Executors for parts of a search: this process, other processes, or a Dask cluster."""
