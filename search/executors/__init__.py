"""Where parts of a search run: in this process, in other processes, or on a Dask cluster."""
