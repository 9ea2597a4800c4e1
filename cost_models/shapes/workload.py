"""What is trained, on what, with which software: the inputs that all strategies share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.expert_spread import ExpertSpread, expert_spread, usual_balance
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.traits import DeviceTraits, SoftwareTraits, device_traits, software_traits
from hardware_profiles.schema import HardwareProfile

DEFAULT_CONFIDENCE = 0.9  # that a plan fits


class WorkloadError(ValueError):
    """A model, training or cluster description that cannot be priced; the message names the field."""


@dataclass(frozen=True)
class MlaShape:
    """Multi-head latent attention [deepseek-v2, section 2.1]."""

    q_lora_rank: int  # 0: queries are not compressed
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int

    @property
    def qk_head_dim(self) -> int:
        """Of queries and keys, without and with rotary embedding together."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


@dataclass(frozen=True)
class MoeShape:
    """Routed and shared experts of the MoE layers."""

    num_experts: int
    top_k: int
    expert_ffn_hidden_size: int
    num_shared_experts: int = 0
    shared_expert_ffn_hidden_size: int = 0  # all shared experts together
    num_leading_dense_layers: int = 0
    moe_layer_freq: int = 1  # after the dense ones, every n-th layer is MoE
    num_groups: int = 1
    group_topk: int = 1
    capacity_factor: float | None = None  # None: dropless
    expert_biases: bool = False  # of the experts' matmuls and of the router's


@dataclass(frozen=True)
class LocalAttention:
    """Layers whose attention does not look at the whole sequence: a window, or a linear recurrence.

    ``full_attention_every``: each n-th layer still looks at everything; 0: none does. The widths are those of linear attention:
    the gated delta rule where queries, keys and values pass a short convolution (``conv_kernel`` above 0) [gated-delta-net],
    else lightning attention, whose decay is fixed [minimax-01].
    """

    kind: str  # window | linear
    full_attention_every: int = 0
    window: int = 0  # tokens
    num_key_heads: int = 0
    num_value_heads: int = 0
    key_head_dim: int = 0
    value_head_dim: int = 0
    conv_kernel: int = 0

    @property
    def is_linear(self) -> bool:
        """A recurrence, else a window."""
        return self.kind == "linear"

    @property
    def is_delta_rule(self) -> bool:
        """A recurrence whose decay and step follow from the token."""
        return self.is_linear and self.conv_kernel > 0

    @property
    def query_key_width(self) -> int:
        """Channels of all queries, or of all keys, of a recurrence."""
        return self.num_key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        """Channels of all values, of their gate and of the output of a recurrence."""
        return self.num_value_heads * self.value_head_dim

    @property
    def state_elements(self) -> int:
        """Of all value heads together: a matrix of keys by values each."""
        return self.num_value_heads * self.key_head_dim * self.value_head_dim


class LayerKind(NamedTuple):
    """What tells the layers of a model apart: experts in place of a dense MLP, ``local_attention`` in place of full attention."""

    moe: bool = False
    local: bool = False

    @property
    def label(self) -> str:
        """The name used in files."""
        return ("moe" if self.moe else "dense") + ("-local" if self.local else "")


@dataclass(frozen=True)
class ModelShape:
    """One transformer. Names are Megatron's."""

    name: str
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    kv_channels: int
    ffn_hidden_size: int
    vocab_size: int  # rows of the embedding table after the publisher's own padding
    gated_linear_unit: bool = True
    tied_embeddings: bool = False
    mtp_num_layers: int = 0
    sandwich_norm: bool = False
    qk_layernorm: bool = False
    attention_bias: bool = False
    learned_positions: bool = False
    alibi: bool = False  # a bias on attention scores instead of positions
    attention_output_gate: bool = False  # queries are projected twice; the second gates the output
    mla: MlaShape | None = None
    moe: MoeShape | None = None
    local_attention: LocalAttention | None = None
    constants: ModelConstants = field(default_factory=ModelConstants)

    def moe_layers(self) -> tuple[bool, ...]:
        """Whether each of the ``num_layers`` layers is MoE, in order."""
        if self.moe is None:
            return (False,) * self.num_layers
        first = self.moe.num_leading_dense_layers
        freq = max(self.moe.moe_layer_freq, 1)
        return tuple(
            index >= first and (index - first) % freq == freq - 1 if freq > 1 else index >= first
            for index in range(self.num_layers)
        )

    def kinds_of_layers(self) -> tuple[LayerKind, ...]:
        """The kind of each of the ``num_layers`` layers, in order."""
        return self._kinds_of_layers

    @cached_property
    def _kinds_of_layers(self) -> tuple[LayerKind, ...]:
        local = self.local_attention
        every = 0 if local is None else local.full_attention_every
        return tuple(
            LayerKind(moe, local is not None and (not every or (index + 1) % every != 0))
            for index, moe in enumerate(self.moe_layers())
        )

    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """The kinds that some layer is of, dense before MoE and full attention before local: the order of tables by kind."""
        return tuple(sorted(set(self.kinds_of_layers())))

    def linear_attention(self, *, local: bool) -> LocalAttention | None:
        """The recurrence that a layer has in place of attention, if it is a local one and has."""
        recurrence = self.local_attention
        return recurrence if local and recurrence is not None and recurrence.is_linear else None

    def expert_spread(self, balance: RouterBalance | None = None) -> ExpertSpread | None:
        """How uneven its experts are under ``balance``, by default what is usual for its router; None without experts."""
        moe = self.moe
        if moe is None:
            return None
        usual = usual_balance(moe.top_k, moe.num_groups, moe.group_topk, expert_bias=self.constants.router.expert_bias)
        return expert_spread(balance or usual, moe.num_experts, moe.num_groups)


@dataclass(frozen=True)
class TrainingJob:
    """The batch, and how evenly the router loads the experts.

    ``expert_load_factor`` is the largest rank's share of routed tokens over the mean
    (1.0: balanced). ``expert_spread``, which has a load for every degree, takes its place, and ``expert_counts``, where a log
    has them, that of both.
    ``mean_squared_length_fraction`` is mean(L_i^2 summed over the packed samples) / seq_length^2: 1.0 unpacked.
    """

    seq_length: int
    global_batch_size: int
    precision: str = "bf16"  # bf16 | fp16 | fp8 | nvfp4 | fp32
    train_tokens: float | None = None
    expert_load_factor: float = 1.0
    expert_spread: ExpertSpread | None = None
    expert_counts: ExpertCounts | None = None
    mean_squared_length_fraction: float = 1.0

    @property
    def attended_length(self) -> float:
        """Sequence length that attention works on in the mean of the packed samples, in tokens."""
        return self.seq_length * self.mean_squared_length_fraction


@dataclass(frozen=True)
class Cluster:
    """``num_devices`` of one profile, ranks filled node by node.

    ``inter_node_bytes_per_s`` replaces the profile's outermost bandwidth where the site's
    fabric is known; ``oversubscription`` divides it. ``time_factor`` multiplies the time of the devices and of all
    communication (clocks, power caps, a slow fabric): what one measured run said of this cluster, or an assumption.
    """

    profile: HardwareProfile
    num_devices: int
    inter_node_bytes_per_s: float | None = None
    oversubscription: float = 1.0
    time_factor: float = 1.0


@dataclass(frozen=True)
class Software:
    """The framework whose efficiency applies.

    ``execution`` is ``eager`` (every kernel is dispatched by the host) or ``graph``
    (compiled: MindSpore, CUDA graphs). ``year`` is when it was released, where known (2024.5: July 2024).
    ``fp32_parameters``: 4-byte weights with cast copies (MindFormers' FP16 recipes).
    ``portable_attention``: FlashAttention-2, before 2024 Triton's kernels, which leave newer matmul instructions unused.
    ``legacy_layers``: transformer layers older than Megatron-Core's, which repeat grouped keys and values for every head.
    ``latent_padding``: fused attention on Ascend gets the heads of latent attention padded: values as wide as queries (1), or all
    to a multiple of this (``padded-base-length``, 128) [mindspeed-llm, multi_latent_attention.py]; 0: as wide as they are.
    ``compressed_mask``: MindFormers' fused attention makes its mask from a tile (``use_attn_mask_compression``) and reads none.
    ``plain_cross_entropy``: PyTorch's own loss on FP32 logits, neither fused nor in place.
    ``stock_matmuls``: matmuls on Blackwell as fast as the one published machine with a plain Megatron-LM has them
    (``stock_blackwell_factor``); of published runs alone, never of a job [simumax].
    ``sharded_accumulation``: under ZeRO-2 stages of a pipeline scatter the gradients of every micro batch, whatever their stack
    usually does (``SoftwareTraits.shards_accumulated_gradients``).
    ``blocking_launches``: the host waits for every kernel before it launches the next (``CUDA_LAUNCH_BLOCKING``), and never runs
    ahead.
    ``target`` is whose legality rules apply (``any``: the physics alone).
    ``time_factor`` multiplies the time of the devices alone: kernels older or fresher than those that were measured.
    ``operators`` and ``host`` name the options of ``software_options.py`` that it has; no ``host``: those of the runs that were
    fitted. They are factors on constants (``cost_models.constants.constants_with_options``).
    """

    stack: str
    execution: str = "eager"
    year: float | None = None
    fp32_parameters: bool = False
    portable_attention: bool = False
    legacy_layers: bool = False
    latent_padding: int = 0
    compressed_mask: bool = False
    plain_cross_entropy: bool = False
    stock_matmuls: bool = False
    sharded_accumulation: bool = False
    blocking_launches: bool = False
    target: str = "any"
    time_factor: float = 1.0
    operators: tuple[str, ...] = ()
    host: tuple[str, ...] | None = None


@dataclass(frozen=True)
class MemoryRoom:
    """How much device memory must stay free, and how sure that has to be for a strategy to fit."""

    min_headroom_bytes: float = 0.0
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True)
class Workload:
    """Everything that prices a strategy, apart from the strategy; ``room`` moves no price, only what fits."""

    model: ModelShape
    training: TrainingJob
    cluster: Cluster
    software: Software
    room: MemoryRoom = MemoryRoom()

    @cached_property
    def device_traits(self) -> DeviceTraits:
        """What formulas ask of the cluster's devices."""
        return device_traits(self.cluster.profile)

    @cached_property
    def software_traits(self) -> SoftwareTraits:
        """What formulas ask of the training stack."""
        return software_traits(self.software.stack, self.software.execution)

    @property
    def reads_whole_mask(self) -> bool:
        """Whether fused attention reads a mask of all scores, context parallelism apart."""
        return self.software_traits.reads_whole_mask and not self.software.compressed_mask
