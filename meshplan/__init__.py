"""Plans how to lay a large-model training job over an Ascend or GPU cluster."""

__version__ = "0.1.0"
