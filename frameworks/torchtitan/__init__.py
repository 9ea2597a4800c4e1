"""`torchtitan` on PyTorch: rules, and TOML files of release 0.2."""
