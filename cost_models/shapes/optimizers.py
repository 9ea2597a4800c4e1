"""Optimizers: the states of a parameter, and whether matrices are orthogonalised."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class TpMode(StrEnum):
    """How Newton-Schulz treats a matrix that tensor parallelism divides.

    Each rank takes its own part for a matrix, or gathers the whole one, or all share the products of one
    [emerging-optimizers, muon_utils.py].
    """

    BLOCKWISE = "blockwise"
    DUPLICATED = "duplicated"
    DISTRIBUTED = "distributed"


@dataclass(frozen=True)
class OptimizerRules:
    """States of an optimizer, each as large as the FP32 parameter, beside the master weight.

    ``moments`` of any parameter and ``matrix_moments`` of the matrices of layers differ where these are orthogonalised.
    ``is_sharded``: ranks usually share its states.
    """

    moments: int
    matrix_moments: int
    orthogonalises: bool = False
    is_sharded: bool = True


# Adam has two moments, SGD the momentum that is Megatron's default [megatron-0.12, arguments.py]. Muon has a momentum of
# matrices; embedding, head and vectors stay with Adam [megatron-0.19, emerging_optimizers.py]. Megatron's distributed optimizer
# takes no SGD [megatron-0.12, distrib_optimizer.py].
OPTIMIZERS = {
    "adam": OptimizerRules(moments=2, matrix_moments=2),
    "muon": OptimizerRules(moments=2, matrix_moments=1, orthogonalises=True),
    "sgd": OptimizerRules(moments=1, matrix_moments=1, is_sharded=False),
}
NS_STEPS = 5  # of Newton-Schulz, by default [megatron-0.19, optimizer_config.py]


@dataclass(frozen=True)
class Optimizer:
    """The optimizer of a job, by a name of ``OPTIMIZERS``. ``tp_mode`` and ``ns_steps`` belong to one that orthogonalises."""

    name: str = "adam"
    tp_mode: TpMode = TpMode.BLOCKWISE
    ns_steps: int = NS_STEPS

    @property
    def rules(self) -> OptimizerRules:
        """Its states."""
        return OPTIMIZERS[self.name]


ADAM = Optimizer()
