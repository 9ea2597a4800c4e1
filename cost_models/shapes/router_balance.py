"""Methods that balance a router, by name."""

from __future__ import annotations

from enum import StrEnum


class RouterBalance(StrEnum):
    """The method that keeps a router from always choosing the same experts."""

    AUXILIARY_LOSS = "auxiliary-loss"
    SEQUENCE = "sequence"  # a loss over each sequence
    MICRO_BATCH = "micro-batch"  # a loss over each micro batch
    EP_GROUP = "ep-group"  # a loss over all tokens of an expert-parallel group [pangu-ultra-moe]
    LOSS_FREE = "loss-free"  # a bias on the choice, or a loss over the global batch [loss-free-balancing]
    GROUP = "group"  # each token chooses one expert of every group [pangu-pro-moe]
    FORCED = "forced"  # a benchmark gives every rank the mean
