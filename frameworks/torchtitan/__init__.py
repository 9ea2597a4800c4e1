"""`torchtitan` on PyTorch: rules, TOML files of release 0.2, and Python configurations of main."""
