"""What is served, on what, by which engine, and how an instance is laid out: the inputs of every price of inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from cost_models.constants import Constant, Constants
from cost_models.network.tiers import Network
from cost_models.shapes.expert_spread import ExpertSpread
from cost_models.shapes.traits import device_traits
from cost_models.shapes.workload import Cluster, ModelShape, WorkloadError

WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}  # of linear layers; embedding, router and head stay in 16 bits
CACHE_BYTES = {"bf16": 2, "fp8": 1, "int8": 1}  # of a cached element

# The only numbers of inference beside those of training, both as published and moved by no run: [flashmla] has 3000 GB/s of 3350
# and 660 TFLOPS of 989 on H800.
SERVING_CONSTANTS: tuple[Constant, ...] = (
    Constant("decode_read_fraction", "share of HBM bandwidth at which decode reads weights, keys and values", "1",
             0.5, 1.0, 0.1, 0.84, 0.90, "[cloudmatrix384]; [flashmla]", "measured"),
    Constant("decode_attention_fraction", "rate of decode's attention over matmul peak where arithmetic bounds it", "1",
             0.2, 0.9, 0.1, 0.65, 0.67, "[cloudmatrix384]; [flashmla]", "measured"),
)  # fmt: skip


class Overlap(StrEnum):
    """What runs beside what, where a batch is halved; weights are then read twice."""

    NONE = "none"
    EXCHANGE = "exchange"  # tokens of one half travel while the other half computes [deepseek-v3, section 3.4]
    STREAMS = "streams"  # attention of one half beside exchange and experts of the other, on cores of their own [cloudmatrix384]
    FASTEST = "fastest"  # of these, at each batch


@dataclass(frozen=True)
class Engine:
    """How an inference engine runs the model.

    ``precision`` is of weights and inputs of linear layers, ``cache_precision`` of keys and values. ``graph``: steps are replayed
    from a captured graph, else the host dispatches every kernel. ``asynchronous``: a step is scheduled while another runs.
    ``draft_tokens`` are proposed a step, each accepted with probability ``acceptance`` if those before it are; ``draft_layers``
    are run for each (1: multi-token prediction; 0: drafts looked up in the text). ``balanced``: every device gets as many tokens
    for its experts, else as the router's spread says. ``shared_experts_apart``: on devices of their own, to which every token
    travels; else beside the attention of each replica.
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
        """Tokens that a request gains in a step of decode: 1 + a + ... + a^d."""
        return float(sum(self.acceptance**accepted for accepted in range(self.draft_tokens + 1)))

    @property
    def rows_per_request(self) -> int:
        """Tokens of a request that pass the model in a step of decode."""
        return 1 + self.draft_tokens


@dataclass(frozen=True)
class ServingLayout:
    """One instance: ``pp`` stages of ``dp`` attention replicas of ``tp`` devices.

    ``ep`` is 1, experts sliced over ``tp`` in every replica, or ``tp`` times ``dp``, experts spread over a stage's devices.
    ``redundant_experts`` are copies of busy ones, over all devices of a stage.
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
        """Of one instance."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True)
class ServingWorkload:
    """What all layouts share. ``constants`` are those of training (``cost_models.constants``)."""

    model: ModelShape
    cluster: Cluster
    constants: Constants
    engine: Engine = field(default_factory=Engine)
    expert_spread: ExpertSpread | None = None  # None: what is usual for the model's router

    @cached_property
    def read_fraction(self) -> float:
        """``decode_read_fraction`` of the hardware family."""
        return _prior(0, self.cluster)

    @cached_property
    def attention_fraction(self) -> float:
        """``decode_attention_fraction`` of the hardware family."""
        return _prior(1, self.cluster)

    @cached_property
    def spread(self) -> ExpertSpread | None:
        """How uneven experts are; None without experts, or where the engine balances them."""
        return None if self.engine.balanced else self.expert_spread or self.model.expert_spread()

    @cached_property
    def network(self) -> Network:
        """The cluster's, at the rates that collectives reach."""
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
