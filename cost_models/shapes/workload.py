"""Inputs that all strategies share: the model, the training job, the cluster and the software."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import NamedTuple

from cost_models.shapes.expert_load import ExpertCounts
from cost_models.shapes.expert_spread import ExpertSpread, expert_spread, usual_balance
from cost_models.shapes.model_constants import ModelConstants
from cost_models.shapes.optimizers import ADAM, Optimizer
from cost_models.shapes.precision import EIGHT_BITS, RECIPES, Recipe
from cost_models.shapes.residual import RESIDUALS, Residual
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.training_task import PRETRAIN, TrainingTask
from cost_models.shapes.traits import DeviceTraits, Library, SoftwareTraits, device_traits, software_traits
from documents.late_methods import dataclass
from hardware_profiles.schema import HardwareProfile

DEFAULT_CONFIDENCE = 0.9  # required probability that a plan fits


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
        """Head dim of queries and keys, without and with rotary embedding together."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


@dataclass(frozen=True)
class SparseAttention:
    """Latent attention to the tokens that an indexer chooses for each query [deepseek-v3.2, section 2.1].

    The indexer has heads of its own: it projects the compressed queries, and the hidden state to one head of keys and to a
    weight of each head. A query attends to the ``top_k`` tokens before it with the largest scores.
    """

    num_index_heads: int
    index_head_dim: int
    top_k: int

    @property
    def index_width(self) -> int:
        """Channels of all heads of the indexer's queries."""
        return self.num_index_heads * self.index_head_dim


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
    expert_biases: bool = False  # whether the matmuls of experts and router have biases


@dataclass(frozen=True)
class LocalAttention:
    """Layers whose attention does not see the whole sequence: a window, or a linear recurrence.

    ``full_attention_every``: each n-th layer still has full attention; 0: none has. The widths are those of linear attention: the
    gated delta rule if queries, keys and values pass a short convolution (``conv_kernel`` above 0) [gated-delta-net], else
    lightning attention, whose decay is fixed [minimax-01]. A state space has them too: its groups are heads of keys as wide as
    the state, and its own heads are heads of values [mamba-2].
    """

    kind: str  # window | linear | state_space
    full_attention_every: int = 0
    window: int = 0  # tokens
    num_key_heads: int = 0
    num_value_heads: int = 0
    key_head_dim: int = 0
    value_head_dim: int = 0
    conv_kernel: int = 0
    chunk_size: int = 0  # tokens that a state space computes at once; 0 in other kinds

    @property
    def is_linear(self) -> bool:
        """Whether it is a recurrence; otherwise it is a window."""
        return self.kind != "window"

    @property
    def is_state_space(self) -> bool:
        """Whether it is a recurrence whose decay and step depend on the token, without a correction by the delta rule."""
        return self.kind == "state_space"

    @property
    def is_delta_rule(self) -> bool:
        """Whether it is a recurrence that corrects its state, with a decay and a step of each token."""
        return self.kind == "linear" and self.conv_kernel > 0

    @property
    def query_key_width(self) -> int:
        """Channels of all queries, or of all keys, of a recurrence."""
        return self.num_key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        """Channels of all values of a recurrence, and of their gate and output."""
        return self.num_value_heads * self.value_head_dim

    @property
    def state_elements(self) -> int:
        """Elements of a recurrence's state: a key by value matrix for each value head."""
        return self.num_value_heads * self.key_head_dim * self.value_head_dim


class LayerKind(NamedTuple):
    """Kind of a layer: ``moe`` has experts, not a dense MLP; ``local`` has ``local_attention``, not full attention.

    Without ``has_mixer`` the layer has an MLP or experts alone, without ``has_mlp`` attention or a recurrence alone.
    """

    moe: bool = False
    local: bool = False
    has_mixer: bool = True
    has_mlp: bool = True

    @property
    def label(self) -> str:
        """The name used in files."""
        if self.has_mixer and self.has_mlp:
            return ("moe" if self.moe else "dense") + ("-local" if self.local else "")
        plain, other = ("attention", "recurrence") if self.has_mixer else ("mlp", "experts")
        return other if self.local or self.moe else plain


LAYER_SYMBOLS = {  # of layers with one block each [megatron-0.19, hybrid_layer_allocation.py]
    "M": LayerKind(local=True, has_mlp=False),
    "*": LayerKind(has_mlp=False),
    "-": LayerKind(has_mixer=False),
    "E": LayerKind(moe=True, has_mixer=False),
}


@dataclass(frozen=True)
class ModelShape:
    """Dimensions of one transformer, under Megatron's names.

    ``hybrid_layer_pattern``: one of ``LAYER_SYMBOLS`` for each layer if a layer has one block: attention, a recurrence, an MLP or
    experts. Empty: each layer has attention and an MLP. ``has_mixer`` and ``has_mlp`` differ in a view of one kind of layer
    (``of_kind``) only.
    """

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
    no_positions: bool = False  # attention sees none, since recurrences keep the order
    attention_output_gate: bool = False  # queries are projected twice; the second gates the output
    mla: MlaShape | None = None
    moe: MoeShape | None = None
    local_attention: LocalAttention | None = None
    sparse_attention: SparseAttention | None = None  # of every layer; needs ``mla`` with compressed queries
    hybrid_layer_pattern: str = ""
    constants: ModelConstants = field(default_factory=ModelConstants)
    has_mixer: bool = True
    has_mlp: bool = True

    @property
    def num_blocks(self) -> int:
        """Blocks of a layer, each with its norm and its residual sum: 2, or 1 in a view of a kind that has one."""
        return self.has_mixer + self.has_mlp

    def of_kind(self, kind: LayerKind) -> ModelShape:
        """The model as a layer of ``kind`` sees it: blocks that the layer lacks have no width, and no parameters."""
        if kind.has_mixer and kind.has_mlp:
            return self
        if not kind.has_mlp:
            return replace(self, hybrid_layer_pattern="", has_mlp=False, ffn_hidden_size=0, moe=None)
        return replace(
            self,
            hybrid_layer_pattern="",
            has_mixer=False,
            num_attention_heads=0,
            num_query_groups=0,
            kv_channels=0,
            qk_layernorm=False,
            attention_bias=False,
            mla=None,
            sparse_attention=None,
            local_attention=None,
            constants=replace(self.constants, attention_sinks=False, attention_output_bias=False),
        )

    def moe_layers(self) -> tuple[bool, ...]:
        """Whether each of the ``num_layers`` layers is MoE, in order."""
        if self.hybrid_layer_pattern:
            return tuple(kind.moe for kind in self.kinds_of_layers())
        if self.moe is None:
            return (False,) * self.num_layers
        first = self.moe.num_leading_dense_layers
        freq = max(self.moe.moe_layer_freq, 1)
        return tuple(
            index >= first and (index - first) % freq == freq - 1 if freq > 1 else index >= first
            for index in range(self.num_layers)
        )

    @property
    def has_dense_mlp(self) -> bool:
        """Whether any layer has a dense MLP."""
        return any(kind.has_mlp and not kind.moe for kind in self.layer_kinds())

    def kinds_of_layers(self) -> tuple[LayerKind, ...]:
        """The kind of each of the ``num_layers`` layers, in order."""
        return self._kinds_of_layers

    @cached_property
    def _kinds_of_layers(self) -> tuple[LayerKind, ...]:
        if self.hybrid_layer_pattern:
            return tuple(LAYER_SYMBOLS[symbol] for symbol in self.hybrid_layer_pattern)
        local = self.local_attention
        every = 0 if local is None else local.full_attention_every
        return tuple(
            LayerKind(moe, local is not None and (not every or (index + 1) % every != 0))
            for index, moe in enumerate(self.moe_layers())
        )

    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Distinct kinds of layers, dense before MoE and full attention before local. Tables by kind have this order."""
        return tuple(sorted(set(self.kinds_of_layers())))

    def linear_attention(self, *, local: bool) -> LocalAttention | None:
        """The recurrence of a layer, or ``None`` if the layer has attention."""
        recurrence = self.local_attention
        return recurrence if local and recurrence is not None and recurrence.is_linear else None

    def expert_spread(self, balance: RouterBalance | None = None) -> ExpertSpread | None:
        """Assumed spread of the experts' loads under ``balance`` (default: the router's usual method).

        ``None`` without experts.
        """
        moe = self.moe
        if moe is None:
            return None
        usual = usual_balance(moe.top_k, moe.num_groups, moe.group_topk, expert_bias=self.constants.router.expert_bias)
        return expert_spread(balance or usual, moe.num_experts, moe.num_groups)


@dataclass(frozen=True)
class TrainingJob:
    """Sequence length, batch, precision, and how evenly the router loads the experts.

    ``expert_load_factor`` is the largest rank's share of routed tokens over the mean (1.0: balanced). ``expert_spread`` has a
    load for every degree and replaces it; ``expert_counts``, if a log has them, replace both.
    ``mean_squared_length_fraction`` is mean(L_i^2 summed over the packed samples) / seq_length^2: 1.0 unpacked.
    ``global_batch_size`` counts samples; one of preference training is two sequences (``TrainingTask.sequences_per_sample``).
    """

    seq_length: int
    global_batch_size: int
    precision: str = "bf16"  # bf16 | fp16 | fp8 | hif8 | nvfp4 | fp32
    fp8_recipe: str | None = None  # how operands in 8 bits are scaled, of ``precision.RECIPES``; None: not stated
    fp8_param_gather: bool | None = None  # see ``Workload.gathers_eight_bits``; None: as launch files here ask for
    train_tokens: float | None = None
    expert_load_factor: float = 1.0
    expert_spread: ExpertSpread | None = None
    expert_counts: ExpertCounts | None = None
    mean_squared_length_fraction: float = 1.0
    task: TrainingTask = PRETRAIN
    optimizer: Optimizer = ADAM

    @property
    def recipe(self) -> Recipe | None:
        """How operands in 8 bits are scaled; ``None`` in other precisions, or where it is not stated."""
        return RECIPES[self.fp8_recipe] if self.fp8_recipe is not None and self.precision in EIGHT_BITS else None

    @property
    def sample_tokens(self) -> int:
        """Tokens of one sample of the batch."""
        return self.seq_length * self.task.sequences_per_sample

    @property
    def step_tokens(self) -> int:
        """Tokens of one optimizer step of the whole cluster."""
        return self.sample_tokens * self.global_batch_size

    @property
    def attended_length(self) -> float:
        """Mean sequence length that attention sees over the packed samples, in tokens."""
        return self.seq_length * self.mean_squared_length_fraction


@dataclass(frozen=True)
class Cluster:
    """``num_devices`` of one profile; ranks fill it node by node.

    ``inter_node_bytes_per_s`` replaces the profile's outermost bandwidth if the site's fabric is known; ``oversubscription``
    divides it. ``time_factor``, measured or assumed, multiplies the time of devices and of communication (a slow fabric).
    """

    profile: HardwareProfile
    num_devices: int
    inter_node_bytes_per_s: float | None = None
    oversubscription: float = 1.0
    time_factor: float = 1.0


@dataclass(frozen=True)
class Software:
    """The framework whose efficiency applies, with its options.

    ``execution`` is ``eager`` (the host dispatches every kernel) or ``graph`` (compiled). ``year``: its date (2024.5: July).
    ``fp32_parameters``: 4-byte weights with cast copies (MindFormers' FP16 recipes).
    ``portable_attention``: FlashAttention-2, or Triton's kernels before 2024, which do not use newer matmul instructions.
    ``legacy_layers``: transformer layers older than the framework's present ones. Those older than Megatron-Core's repeat grouped
    keys and values for every head; MindFormers' differ by the classes that train alone.
    ``latent_padding``: fused attention on Ascend pads the heads of latent attention: values as wide as queries (1), or all
    to a multiple of this (``padded-base-length``, 128) [mindspeed-llm, multi_latent_attention.py]; 0: no padding.
    ``compressed_mask``: MindFormers' fused attention builds its mask from a tile (``use_attn_mask_compression``) and reads none.
    ``loader_mask``: Megatron-LM's data loader makes a mask of sequence x sequence for every sample, which the first and last
    stages take to the device [megatron-0.12, gpt_dataset.py, utils.py].
    ``plain_cross_entropy``: PyTorch's own loss on FP32 logits, neither fused nor in place; by so many ``loss_chunks``, if any.
    ``compiled_loss``: that loss is compiled; with neither it is fused. ``torch_compile``: layers of plain PyTorch are compiled.
    ``newest_layers``: torchtitan's main: one matmul for queries, keys, values; eager layers repeat to their end; experts by part.
    ``stock_matmuls``: for published runs only: matmuls on Blackwell as slow as on one machine with a plain Megatron-LM [simumax].
    ``sharded_accumulation``: with ZeRO-2, stages scatter gradients of every micro batch, also where their stack does not.
    ``unknown_release``: a run of which no release is known, priced at the mean speed of all of them.
    ``other_framework``: another framework than the stack that prices it, whose releases say nothing of its speed; for runs.
    ``blocking_launches``: the host waits for every kernel before it launches the next (``CUDA_LAUNCH_BLOCKING``).
    ``fp32_residual``: the part of a layer's residual that is in FP32, by name of ``residual.RESIDUALS``.
    ``target``: the framework whose legality rules apply (``any``: the physics alone).
    ``time_factor`` multiplies device time alone: kernels older or newer than the measured ones.
    ``operators`` and ``host`` name its options of ``software_options.py``; ``host`` ``None``: those of the fitted runs. They are
    factors on constants (``cost_models.constants.constants_with_options``).
    """

    stack: str
    execution: str = "eager"
    year: float | None = None
    fp32_parameters: bool = False
    portable_attention: bool = False
    legacy_layers: bool = False
    latent_padding: int = 0
    compressed_mask: bool = False
    loader_mask: bool = False
    plain_cross_entropy: bool = False
    compiled_loss: bool = False
    torch_compile: bool = False
    newest_layers: bool = False
    loss_chunks: int = 0
    stock_matmuls: bool = False
    sharded_accumulation: bool = False
    unknown_release: bool = False
    other_framework: bool = False
    blocking_launches: bool = False
    fp32_residual: str = "none"
    target: str = "any"
    time_factor: float = 1.0
    operators: tuple[str, ...] = ()
    host: tuple[str, ...] | None = None

    def has_since(self, first_year: float | None) -> bool:
        """Whether the release has what came in ``first_year`` (``None``: never). A release of unknown date is the newest."""
        return first_year is not None and (self.year is None or self.year >= first_year)


@dataclass(frozen=True)
class MemoryRoom:
    """Device memory that must stay free, and the confidence required for a strategy to fit."""

    min_headroom_bytes: float = 0.0
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True)
class Workload:
    """Model, training job, cluster and software: all inputs of a price except the strategy. ``room`` only decides what fits."""

    model: ModelShape
    training: TrainingJob
    cluster: Cluster
    software: Software
    room: MemoryRoom = MemoryRoom()

    def of_kind(self, kind: LayerKind) -> Workload:
        """The workload as a layer of ``kind`` sees it (``ModelShape.of_kind``)."""
        if kind.has_mixer and kind.has_mlp:
            return self
        if kind not in self._views:
            self._views[kind] = replace(self, model=self.model.of_kind(kind))
        return self._views[kind]

    @cached_property
    def _views(self) -> dict[LayerKind, Workload]:
        return {}

    @cached_property
    def device_traits(self) -> DeviceTraits:
        """Traits of the cluster's devices."""
        return device_traits(self.cluster.profile)

    @cached_property
    def software_traits(self) -> SoftwareTraits:
        """Traits of the training stack."""
        return software_traits(self.software.stack, self.software.execution)

    @property
    def gathers_eight_bits(self) -> bool:
        """Whether a sharded optimizer gathers weights of linear layers in 8 bits, so that none are kept in 16.

        Not stated: as Megatron-Bridge, which gathers those scaled by blocks in 16 bits [megatron-bridge-0.6,
        training/mixed_precision.py].
        """
        training = self.training
        if training.fp8_param_gather is not None:
            return training.fp8_param_gather
        if training.fp8_recipe == "mxfp8":
            return self.software.has_since(self.software_traits.mxfp8_parameters_year)
        return training.fp8_recipe != "blockwise"

    @property
    def keeps_copies_by_recipe(self) -> bool:
        """Whether linear layers keep their weights in 8 bits as a stated recipe says: Transformer Engine's do."""
        software = self.software_traits
        return self.training.recipe is not None and software.uses_transformer_engine and not software.own_eight_bit_layers

    @property
    def operand_copies(self) -> float:
        """Copies of an operand in 8 bits that the matmuls of a forward and a backward need, one for each direction.

        One serves both on Blackwell, which takes any layout, if its scales do not run along an axis [transformer-engine,
        float8_tensor_storage.py:292], and on Ascend [mindspeed, float8_tensor.py:70].
        """
        recipe, device = self.training.recipe, self.device_traits
        either = recipe is not None and not recipe.casts_each_way and device.takes_any_layout
        return 1.0 if either else 2.0

    @property
    def keeps_fp32_weights(self) -> bool:
        """Whether weights are kept in FP32, so that they are their own master."""
        software = self.software
        return software.fp32_parameters or self.software_traits.fp32_shards or self.training.precision == "fp32"

    @property
    def shares_optimizer(self) -> bool:
        """Whether replicas usually share the states of the optimizer."""
        divides_frozen = self.training.task.is_frozen and self.software_traits.divides_frozen_weights
        return self.training.optimizer.rules.is_sharded and not divides_frozen

    @property
    def linear_precision(self) -> str:
        """What linear layers multiply in; Transformer Engine's round FP32 to TF32 [transformer-engine, cublaslt_gemm.cu:445]."""
        # PyTorch's own matmuls, such as that of the head, stay in FP32; neither Megatron-LM nor torchtitan allows TF32.
        made_for = self.device_traits.library is Library.CUDA and self.software_traits.uses_transformer_engine
        rounds = made_for and self.training.precision == "fp32" and "tf32" in self.cluster.profile.matmul_flops_per_s
        return "tf32" if rounds else self.training.precision

    @property
    def fuses_no_attention(self) -> bool:
        """Whether the software's fused kernels refuse the precision: Transformer Engine's take 16 bits or fewer.

        What is left keeps all scores [transformer-engine, dot_product_attention/utils.py].
        """
        engine = self.software_traits.uses_transformer_engine and not self.device_traits.own_fused_attention
        return engine and self.training.precision == "fp32"

    @property
    def residual(self) -> Residual:
        """Form of the residual sums of a layer; in FP32 training all are as they are."""
        return RESIDUALS["none" if self.training.precision == "fp32" else self.software.fp32_residual]

    @property
    def reads_whole_mask(self) -> bool:
        """Whether fused attention reads a mask of all scores (without context parallelism)."""
        return self.software_traits.reads_whole_mask and not self.software.compressed_mask
