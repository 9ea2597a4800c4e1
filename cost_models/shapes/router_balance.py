"""What balances a router, by name."""

from __future__ import annotations

from enum import StrEnum


class RouterBalance(StrEnum):
    """What keeps the router from choosing the same experts always."""

    AUXILIARY_LOSS = "auxiliary-loss"
    SEQUENCE = "sequence"  # a loss over each sequence
    MICRO_BATCH = "micro-batch"  # a loss over each micro batch
    EP_GROUP = "ep-group"  # a loss over all tokens of an expert-parallel group [pangu-ultra-moe]
    LOSS_FREE = "loss-free"  # a bias on the choice, or a loss over the global batch [loss-free-balancing]
    GROUP = "group"  # each token chooses one expert of every group [pangu-pro-moe]
    FORCED = "forced"  # by the benchmark: every rank gets the mean
