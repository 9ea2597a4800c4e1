"""torchtitan on PyTorch."""
