"""What a job trains: all weights or adapters, how frozen weights are stored, and whether a reference model runs beside it."""

from __future__ import annotations

from enum import StrEnum, unique

from documents.late_methods import dataclass


@unique
class Task(StrEnum):
    """Tasks by their names in a job."""

    PRETRAIN = "pretrain"
    SFT = "sft"
    LORA = "lora"
    QLORA = "qlora"
    DPO = "dpo"


@unique
class BasePrecision(StrEnum):
    """How frozen weights of linear layers are stored. Embedding, head, norms and router keep 16 bits."""

    BF16 = "bf16"
    NF4 = "nf4"
    FP8 = "fp8"


@unique
class Reference(StrEnum):
    """Where the log-probabilities of the reference model come from: a forward in every step, or a file made beforehand."""

    MODEL = "model"
    PRECOMPUTED = "precomputed"


@unique
class Target(StrEnum):
    """The places of a layer where linear layers can have adapters; experts and shared experts count as MLPs."""

    QKV = "attention_input"
    PROJ = "attention_output"
    FC1 = "mlp_input"
    FC2 = "mlp_output"


# Linear layers that can have an adapter: Megatron's, which join queries, keys and values, and gate and up projection, and those
# of Hugging Face's models. ``linear_qkv`` of latent attention is its down-projection; its up-projections get no adapter.
MEGATRON_MODULES = {
    "linear_qkv": Target.QKV,
    "linear_proj": Target.PROJ,
    "linear_fc1": Target.FC1,
    "linear_fc2": Target.FC2,
}
HUGGINGFACE_MODULES = {
    "q_proj": Target.QKV,
    "k_proj": Target.QKV,
    "v_proj": Target.QKV,
    "o_proj": Target.PROJ,
    "gate_proj": Target.FC1,
    "up_proj": Target.FC1,
    "down_proj": Target.FC2,
}
ADAPTED_MODULES = MEGATRON_MODULES | HUGGINGFACE_MODULES


# NF4: half a byte, and one FP32 scale for 64 weights, itself in 8 bits with one FP32 scale for 256 [qlora, section 3]. FP8: one
# byte, and one FP32 scale for a block of 128 x 128 [deepseek-v3, section 3.3.2].
STORED_BYTES = {
    BasePrecision.BF16: 2.0,
    BasePrecision.NF4: 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0),
    BasePrecision.FP8: 1.0 + 4.0 / (128.0 * 128.0),
}


@dataclass(frozen=True)
class Adapters:
    """Low-rank adapters: y = W x + (alpha / rank) B A x, with A and B trained and W frozen [lora, section 4.1].

    ``modules`` are names of ``ADAPTED_MODULES``, all of one family. ``alpha`` decides no price.
    """

    rank: int
    alpha: float
    modules: tuple[str, ...]

    def on(self, target: Target) -> bool:
        """Whether a linear layer at ``target`` has an adapter."""
        return any(ADAPTED_MODULES[name] is target for name in self.modules)


@dataclass(frozen=True)
class TrainingTask:
    """A task with what it needs. With ``adapters`` every other weight is frozen; without them all weights are trained.

    ``reference`` belongs to ``dpo``. The reference of a model with adapters is the model without them, which takes no memory.
    """

    name: Task = Task.PRETRAIN
    adapters: Adapters | None = None
    base_precision: BasePrecision = BasePrecision.BF16
    reference: Reference | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether the weights of the model itself are not trained."""
        return self.adapters is not None

    @property
    def runs_reference(self) -> bool:
        """Whether each step has a forward of a reference model."""
        return self.reference is Reference.MODEL

    @property
    def holds_reference(self) -> bool:
        """Whether a rank holds the weights of a reference model."""
        return self.runs_reference and not self.is_frozen

    @property
    def dequantises(self) -> bool:
        """Whether frozen weights are converted to 16 bits before each matmul."""
        return self.is_frozen and self.base_precision is not BasePrecision.BF16

    @property
    def stored_bytes(self) -> float:
        """Bytes of one frozen weight of a linear layer."""
        return STORED_BYTES[self.base_precision]

    @property
    def sequences_per_sample(self) -> int:
        """Sequences of one sample of the batch: a chosen and a rejected answer in preference training, else one."""
        return 2 if self.name is Task.DPO else 1

    @property
    def matmuls_of_weight(self) -> float:
        """Backward matmuls of a weight of the model over forward ones: its input's gradient, and its own unless frozen."""
        return 1.0 if self.is_frozen else 2.0

    def trains(self, target: Target) -> bool:
        """Whether the backward needs the inputs of the layers of ``target``, for their weights or for their adapters."""
        return self.adapters is None or self.adapters.on(target)


PRETRAIN = TrainingTask()
