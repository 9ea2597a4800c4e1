"""Inputs of every price of inference: the model, the cluster, the engine, and the layout of an instance."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from functools import cached_property

from cost_models.constants import Constant, Constants
from cost_models.network.tiers import Network
from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.traits import device_traits
from cost_models.shapes.workload import Cluster, ModelShape, WorkloadError
from documents.late_methods import dataclass
from documents.sentences import Sentence

WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}  # linear layers; embedding, router and head stay in 16 bits
CACHE_BYTES = {"bf16": 2, "fp8": 1, "int8": 1}  # bytes of a cached element

# Inference adds only these constants to those of training. They are published values, and no run moves them: [flashmla] has 3000
# GB/s of 3350 and 660 TFLOPS of 989 on H800.
SERVING_CONSTANTS: tuple[Constant, ...] = (
    Constant("decode_read_fraction", "share of HBM bandwidth at which decode reads weights, keys and values", "1",
             0.5, 1.0, 0.1, 0.84, 0.90, "[cloudmatrix384]; [flashmla]", "measured"),
    Constant("decode_attention_fraction", "rate of decode's attention over matmul peak where arithmetic bounds it", "1",
             0.2, 0.9, 0.1, 0.65, 0.67, "[cloudmatrix384]; [flashmla]", "measured"),
)  # fmt: skip


class Overlap(StrEnum):
    """Parts of a step that an engine overlaps by halving a batch. Weights are then read twice."""

    NONE = "none"
    EXCHANGE = "exchange"  # tokens of one half travel while the other half computes [deepseek-v3, section 3.4]
    STREAMS = "streams"  # attention of one half overlaps exchange and experts of the other, on separate cores [cloudmatrix384]
    FASTEST = "fastest"  # the fastest of these for each batch


@dataclass(frozen=True)
class Engine:
    """Settings with which an inference engine runs the model.

    ``precision`` applies to weights and inputs of linear layers, ``cache_precision`` to keys and values. ``graph``: steps
    are replayed from a captured graph; otherwise the host dispatches every kernel. ``asynchronous``: a step is scheduled while
    another runs. ``draft_tokens`` are proposed in each step; each is accepted with probability ``acceptance`` if those before
    it are. ``draft_layers`` run for each draft token (1: multi-token prediction; 0: drafts are looked up in the text).
    ``balanced``: every device gets the same number of tokens for its experts; otherwise the router's spread decides.
    ``shared_experts_apart``: shared experts have their own devices, to which every token is sent; otherwise they run with the
    attention of each replica.
    """

    precision: str = "bf16"
    cache_precision: str = "bf16"
    graph: bool = True
    asynchronous: bool = False
    overlap: Overlap = Overlap.NONE
    draft_tokens: int = 0
    acceptance: float = 0.0
    draft_layers: int = 1
    balanced: bool = False
    shared_experts_apart: bool = False

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens that a request gains in one decode step: 1 + a + ... + a^d."""
        return float(sum(self.acceptance**accepted for accepted in range(self.draft_tokens + 1)))

    @property
    def rows_per_request(self) -> int:
        """Tokens of a request that pass the model in one decode step."""
        return 1 + self.draft_tokens


@dataclass(frozen=True)
class ServingLayout:
    """Layout of one instance: ``pp`` stages of ``dp`` attention replicas of ``tp`` devices.

    ``ep`` is 1 if every replica slices the experts over its ``tp`` devices, or ``tp`` times ``dp`` if the experts are spread
    over a stage's devices. ``redundant_experts`` are extra copies of busy experts, counted over all devices of a stage.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    redundant_experts: int = 0

    def __post_init__(self) -> None:
        if self.ep not in (1, self.tp * self.dp):
            raise WorkloadError(f"ep is {self.ep}, must be 1 or tp x dp = {self.tp} x {self.dp} = {self.tp * self.dp}")

    @property
    def num_devices(self) -> int:
        """Devices of one instance."""
        return self.tp * self.pp * self.dp


def why_not_served(model: ModelShape) -> str:
    """Why a model has no price of inference; empty if it has one."""
    if model.hybrid_layer_pattern:
        return Sentence("model: inference of layers of one block is not priced; {} has them.", model.name)
    if model.sparse_attention is None:
        return ""
    return Sentence("model: inference of sparse attention is not priced; {} has it.", model.name)


@dataclass(frozen=True)
class ServingWorkload:
    """Model, cluster, engine and constants: all inputs that layouts share.

    ``constants`` are the constants of training (``cost_models.constants``).
    """

    model: ModelShape
    cluster: Cluster
    constants: Constants
    engine: Engine = field(default_factory=Engine)
    expert_spread: ExpertSpread | None = None  # None: the default for the model's router

    @cached_property
    def read_fraction(self) -> float:
        """The hardware family's ``decode_read_fraction``."""
        return _prior(0, self.cluster)

    @cached_property
    def attention_fraction(self) -> float:
        """The hardware family's ``decode_attention_fraction``."""
        return _prior(1, self.cluster)

    @cached_property
    def spread(self) -> ExpertSpread | None:
        """Spread of the experts' loads; ``None`` without experts, or if the engine balances them."""
        return None if self.engine.balanced else self.expert_spread or self.model.expert_spread()

    @cached_property
    def network(self) -> Network:
        """The cluster's network at the rates that collectives reach."""
        constants = self.constants
        return Network.of(
            self.cluster,
            intra_fraction=constants.intra_fraction,
            inter_fraction=constants.inter_fraction,
            call_latency_s=constants.collective_latency_s,
        )


def _prior(index: int, cluster: Cluster) -> float:
    value: float = getattr(SERVING_CONSTANTS[index], device_traits(cluster.profile).priors)
    return value
