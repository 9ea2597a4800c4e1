"""One training step of a framework with tensors that hold no data, for one rank of any world.

Runs in the user's Python, which has PyTorch and nothing of meshplan: no module here imports another package of meshplan, and none
of those imports this one.
"""
