"""The sections of a run record, typed: unknown keys are left out (see ``unread_keys``), null is absent, 8.0 counts as 8."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from documents import bounds
from documents.checking import LenientSection
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence

MIN_MEASURED = 1e-6  # s, bytes, tokens/s: positive, since errors are relative
_SHOWN_CHARACTERS = 60


def _texts(value: object) -> tuple[str, ...]:
    """The strings of a list, without other items; a single string counts as a list of one."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(item[: bounds.MAX_TEXT] for item in listed[: bounds.MAX_TEXT] if isinstance(item, str))


def _stated(value: object) -> object:
    """None for an object of nulls, and for one without experts, whose model is dense."""
    if isinstance(value, dict) and (value.get("num_experts") == 0 or not any(item is not None for item in value.values())):
        return None
    return None if value is False else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Measurement = Annotated[float, Field(gt=MIN_MEASURED, le=bounds.MAX_MEASURED)]
ByRank = Annotated[list[Annotated[float, Field(gt=0, le=bounds.MAX_MEASURED)] | None], Field(max_length=bounds.MAX_RANKS)]
Unset = Annotated[int, Field(ge=-1, le=bounds.MAX_LAYERS)]  # -1 and null mean every layer


class RecordSection(LenientSection):
    """One JSON object of a record."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {
            key: int(item) if isinstance(item, float) and item.is_integer() else item
            for key, item in value.items()
            if item is not None
        }


class MlaSection(RecordSection):
    """``model.mla``; missing values are Megatron's defaults [megatron-0.12, MLATransformerConfig]."""

    q_lora_rank: bounds.NullableWidth = 0
    kv_lora_rank: bounds.Width = 512
    qk_nope_head_dim: bounds.Width = 128
    qk_rope_head_dim: bounds.NullableWidth = 64
    v_head_dim: bounds.Width = 128


class MoeSection(RecordSection):
    """``model.moe``; the frequency may be Megatron's pattern of layers."""

    num_experts: bounds.Experts
    top_k: bounds.Experts | None = None
    expert_ffn_hidden_size: bounds.FfnWidth | None = None
    num_shared_experts: bounds.SharedExperts = 0
    shared_expert_ffn_hidden_size: bounds.SharedWidth | None = None
    num_leading_dense_layers: Unset = 0
    moe_layer_freq: Unset | str | list[Any] = 1
    num_groups: bounds.Experts = 1
    group_topk: bounds.Experts = 1
    capacity_factor: bounds.CapacityFactor | None = None
    expert_biases: bool = False


class ModelSection(RecordSection):
    """``model``, without its names."""

    num_layers: bounds.NumLayers
    num_noop_layers: bounds.Layers = 0
    hidden_size: bounds.Width
    num_attention_heads: bounds.Width | None = None
    num_query_groups: bounds.Width | None = None
    kv_channels: bounds.Width | None = None
    ffn_hidden_size: bounds.FfnWidth | None = None
    vocab_size: bounds.Vocab | None = None
    padded_vocab_size: bounds.Vocab | None = None
    gated_linear_unit: bool = True
    tied_embeddings: bool = False
    mtp_num_layers: bounds.MtpLayers = 0
    attention_bias: bool = False
    attention_sinks: bool = False
    activation_clamp: bounds.Clamp | None = None
    sliding_window: bounds.SeqLength | None = None
    full_attention_every: bounds.Layers = 0
    mla: Annotated[MlaSection | None, BeforeValidator(_stated)] = None
    moe: Annotated[MoeSection | None, BeforeValidator(_stated)] = None


class ClusterSection(RecordSection):
    """``cluster``; the certainty of the hardware is not part of a prediction."""

    hardware: Annotated[bounds.Text, Field(min_length=1)]
    num_devices: bounds.Devices
    devices_per_node: bounds.Devices | None = None
    inter_node_bytes_per_s_per_device: bounds.InterNodeBytesPerS | None = None
    hardware_basis: Any = None


class AdapterSection(RecordSection):
    """``training.adapter``, of a run that trained adapters; without modules it was the four of Megatron-Bridge."""

    rank: Annotated[int, Field(ge=1, le=bounds.MAX_ADAPTER_RANK)]
    alpha: Annotated[float, Field(gt=0, le=1e6)] | None = None
    target_modules: Texts = ()


class TrainingSection(RecordSection):
    """``training``; ``adapter``, ``base_precision`` and ``reference`` as in jobs."""

    seq_length: bounds.SeqLength
    global_batch_size: bounds.GlobalBatch
    precision: bounds.Text = ""
    precision_detail: bounds.Text | None = None
    router_balance: bounds.Text = ""
    task: bounds.Text = ""
    adapter: AdapterSection | None = None
    base_precision: bounds.Text | None = None
    reference: bounds.Text | None = None


class SoftwareSection(RecordSection):
    """``software``; ``cuda_graph`` is a flag, or text as ``implementation/scope``.

    ``memory_version``: the version whose memory was measured, if it is not that of the step time.
    """

    framework: bounds.Text = ""
    version: bounds.Text = ""
    memory_version: bounds.Text = ""
    backend: bounds.Text = ""
    raw_flags: Texts = ()
    cuda_graph: Any = None


class RecomputeSection(RecordSection):
    """``strategy.recompute``; ``raw`` holds flags as a script has them."""

    granularity: bounds.Text | None = None
    method: bounds.Text | None = None
    num_layers: bounds.Layers | list[Any] | None = None
    modules: Texts = ()
    raw: Any = None


class StrategySection(RecordSection):
    """``strategy``; layouts come in the notations of the frameworks."""

    tp: bounds.Degree = 1
    pp: bounds.Degree = 1
    cp: bounds.Degree = 1
    dp: bounds.Degree | None = None
    vpp: bounds.Degree | None = None
    ep: bounds.Degree = 1
    etp: bounds.Degree | None = None
    micro_batch_size: bounds.GlobalBatch | None = None
    num_microbatches: bounds.GlobalBatch | None = None
    sequence_parallel: bool = False
    cp_algo: bounds.Text = ""
    schedule: bounds.Text = ""
    moe_dispatcher: bounds.Text = ""
    offload: bounds.Text = ""
    features: Texts = ()
    zero_stage: bounds.ZeroStage | None = None
    distributed_optimizer: bool | None = None
    fsdp_shard_size: bounds.Degree | None = None
    recompute: RecomputeSection = RecomputeSection()
    layer_layout: Any = None
    layer_offset: Any = None
    noop_layers: Any = None


class MeasuredSection(RecordSection):
    """``measured``."""

    step_time_s: Measurement | None = None
    tokens_per_s_per_device: Measurement | None = None
    peak_memory_bytes: Measurement | None = None
    peak_memory_basis: bounds.Text | None = None
    peak_memory_by_rank_bytes: ByRank | None = None
    peak_memory_last_rank_bytes: Measurement | None = None
    allocated_after_step_last_rank_bytes: Measurement | None = None
    allocated_after_step_by_rank_bytes: ByRank | None = None


@dataclass(frozen=True)
class Degrees:
    """Parallel degrees of a record; their product without ``vpp`` is its device count."""

    tp: int
    pp: int
    cp: int
    dp: int
    vpp: int

    @property
    def virtual_stages(self) -> int:
        """Chunks of all ranks."""
        return self.pp * self.vpp


@dataclass(frozen=True)
class Notes:
    """Notes on values of one section that are not the schema's own, one sentence for each."""

    section: str
    sentences: list[str]

    def add(self, field: str, value: object, meaning: str) -> None:
        """Add a note on how ``value`` was read."""
        self.sentences.append(Sentence("{}.{}: {} {}.", self.section, field, quoted(value), meaning))


def quoted(value: object) -> str:
    """A value as quoted in a sentence: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def refused(field: str, value: object, allowed: str) -> InputError:
    """The refusal of a value that is valid alone but does not fit the others."""
    return InputError(Sentence("{}: {} is not allowed; give {}.", field, quoted(value), allowed))
