"""The sections of a run record, typed: unknown keys are ignored, null is absent, 8.0 counts as 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from documents.bounds import (
    MAX_LAYERS,
    MAX_MEASURED,
    MAX_RANKS,
    MAX_TEXT,
    CapacityFactor,
    Degree,
    Devices,
    Experts,
    FfnWidth,
    GlobalBatch,
    InterNodeBytesPerS,
    Layers,
    MtpLayers,
    NullableWidth,
    NumLayers,
    SeqLength,
    SharedExperts,
    SharedWidth,
    Text,
    Vocab,
    Width,
    ZeroStage,
)
from documents.checking import LenientSection
from documents.errors import InputError

MIN_MEASURED = 1e-6  # s, bytes, tokens/s: errors are shares of what was measured
_SHOWN_CHARACTERS = 60


def _texts(value: object) -> tuple[str, ...]:
    """The strings of a list, others left out; a single string is a list of one."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(item[:MAX_TEXT] for item in listed[:MAX_TEXT] if isinstance(item, str))


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Measurement = Annotated[float, Field(gt=MIN_MEASURED, le=MAX_MEASURED)]
ByRank = Annotated[list[Annotated[float, Field(gt=0, le=MAX_MEASURED)] | None], Field(max_length=MAX_RANKS)]
Unset = Annotated[int, Field(ge=-1, le=MAX_LAYERS)]  # -1 and null mean every layer


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
    """``model.mla``."""

    q_lora_rank: NullableWidth = 0
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: NullableWidth
    v_head_dim: Width


class MoeSection(RecordSection):
    """``model.moe``; the frequency may be Megatron's pattern of layers."""

    num_experts: Experts
    top_k: Experts
    expert_ffn_hidden_size: FfnWidth
    num_shared_experts: SharedExperts = 0
    shared_expert_ffn_hidden_size: SharedWidth | None = None
    num_leading_dense_layers: Unset = 0
    moe_layer_freq: Unset | str | list[Any] = 1
    num_groups: Experts = 1
    group_topk: Experts = 1
    capacity_factor: CapacityFactor | None = None


class ModelSection(RecordSection):
    """``model``, without what names it."""

    num_layers: NumLayers
    num_noop_layers: Layers = 0
    hidden_size: Width
    num_attention_heads: Width | None = None
    num_query_groups: Width | None = None
    kv_channels: Width | None = None
    ffn_hidden_size: FfnWidth | None = None
    vocab_size: Vocab | None = None
    padded_vocab_size: Vocab | None = None
    gated_linear_unit: bool = True
    tied_embeddings: bool = False
    mtp_num_layers: MtpLayers = 0
    mla: MlaSection | None = None
    moe: MoeSection | None = None


class ClusterSection(RecordSection):
    """``cluster``; how sure the hardware is, is no part of a prediction."""

    hardware: Annotated[Text, Field(min_length=1)]
    num_devices: Devices
    devices_per_node: Devices | None = None
    inter_node_bytes_per_s_per_device: InterNodeBytesPerS | None = None
    hardware_basis: Any = None


class TrainingSection(RecordSection):
    """``training``."""

    seq_length: SeqLength
    global_batch_size: GlobalBatch
    precision: Text = ""


class SoftwareSection(RecordSection):
    """``software``; ``cuda_graph`` is a flag, or text as ``implementation/scope``."""

    framework: Text = ""
    version: Text = ""
    backend: Text = ""
    raw_flags: Texts = ()
    cuda_graph: Any = None


class RecomputeSection(RecordSection):
    """``strategy.recompute``; ``raw`` holds flags as a script has them."""

    granularity: Text | None = None
    method: Text | None = None
    num_layers: Layers | None = None
    modules: Texts = ()
    raw: Any = None


class StrategySection(RecordSection):
    """``strategy``; layouts come in the notations of the frameworks."""

    tp: Degree = 1
    pp: Degree = 1
    cp: Degree = 1
    dp: Degree | None = None
    vpp: Degree | None = None
    ep: Degree = 1
    etp: Degree = 1
    micro_batch_size: GlobalBatch | None = None
    num_microbatches: GlobalBatch | None = None
    sequence_parallel: bool = False
    cp_algo: Text = ""
    schedule: Text = ""
    moe_dispatcher: Text = ""
    offload: Text = ""
    features: Texts = ()
    zero_stage: ZeroStage | None = None
    distributed_optimizer: bool | None = None
    fsdp_shard_size: Degree | None = None
    recompute: RecomputeSection = RecomputeSection()
    layer_layout: Any = None
    layer_offset: Any = None
    noop_layers: Any = None


class MeasuredSection(RecordSection):
    """``measured``."""

    step_time_s: Measurement | None = None
    tokens_per_s_per_device: Measurement | None = None
    peak_memory_bytes: Measurement | None = None
    peak_memory_basis: Text | None = None
    peak_memory_by_rank_bytes: ByRank | None = None
    allocated_after_step_by_rank_bytes: ByRank | None = None


@dataclass(frozen=True)
class Notes:
    """How values of one section were read that are not the schema's own: one of the record's sentences each."""

    section: str
    sentences: list[str]

    def add(self, field: str, value: object, meaning: str) -> None:
        """Note how ``value`` was read."""
        self.sentences.append(f"{self.section}.{field}: {quoted(value)} {meaning}.")


def quoted(value: object) -> str:
    """A value as a sentence quotes it: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def refused(field: str, value: object, allowed: str) -> InputError:
    """The refusal of a value that is fine by itself."""
    return InputError(f"{field}: {quoted(value)} is not allowed; give {allowed}.")
