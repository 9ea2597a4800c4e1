"""Inputs of the cost model: the model, the job, the strategy with its switches, the placement of layers, and layer keys."""
