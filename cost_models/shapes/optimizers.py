"""Optimizers: the states of a parameter, and whether matrices are orthogonalised."""

from __future__ import annotations

from enum import StrEnum, unique

from documents.late_methods import dataclass


@unique
class TpMode(StrEnum):
    """How Newton-Schulz treats a matrix that tensor parallelism divides.

    Each rank takes its own part for a matrix, or gathers the whole one, or all share the products of one
    [emerging-optimizers, muon_utils.py].
    """

    BLOCKWISE = "blockwise"
    DUPLICATED = "duplicated"
    DISTRIBUTED = "distributed"


STATE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}  # of an element; scales are one a tensor
# A copy is written by the cast, read and written by the kernel, and read by the cast back. Those with a scale are read for their
# largest value too, and FP16 is multiplied by its scale apart, both ways [transformer-engine, fused_adam.py].
COPY_PASSES = {"bf16": 4, "fp8": 5, "fp16": 9}


@dataclass(frozen=True)
class StateTypes:
    """Types in which Transformer Engine's Adam keeps master weights and its moments, keys of ``STATE_BYTES``.

    Source: [megatron-0.19, optimizer_config.py; transformer-engine, fused_adam.py].
    """

    main_params: str = "fp32"
    exp_avg: str = "fp32"
    exp_avg_sq: str = "fp32"

    @property
    def moment_bytes(self) -> float:
        """Bytes of both moments of one parameter."""
        return STATE_BYTES[self.exp_avg] + STATE_BYTES[self.exp_avg_sq]

    @property
    def copied(self) -> tuple[str, ...]:
        """Types of the states that are copied to FP32 while the optimizer runs: of all but FP32, unless both moments are BF16."""
        moments = (self.exp_avg, self.exp_avg_sq)
        states = (self.main_params,) if moments == ("bf16", "bf16") else (self.main_params, *moments)
        return tuple(each for each in states if each != "fp32")

    @property
    def copy_passes(self) -> int:
        """Times that an FP32 element of these copies is read or written."""
        return sum(COPY_PASSES[each] for each in self.copied)


BF16_MOMENT_TYPES = StateTypes(exp_avg="bf16", exp_avg_sq="bf16")  # which the switch ``BF16_MOMENTS`` says, and no job's types


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
    """The optimizer of a job, by a name of ``OPTIMIZERS``. ``tp_mode`` and ``ns_steps`` belong to one that orthogonalises.

    ``state_types`` are those of Adam if it takes types (Megatron's precision-aware optimizer); else the states are in FP32, and
    ``BF16_MOMENTS`` halves the moments.
    """

    name: str = "adam"
    tp_mode: TpMode = TpMode.BLOCKWISE
    ns_steps: int = NS_STEPS
    state_types: StateTypes | None = None

    @property
    def rules(self) -> OptimizerRules:
        """Its states."""
        return OPTIMIZERS[self.name]


ADAM = Optimizer()
