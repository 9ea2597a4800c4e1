"""From the training layout to the rollout's and back: bytes, seconds, and what the sleeping side leaves in memory."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.post_training.constants import ENGINES
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import ModelShape
from hardware_profiles.schema import HardwareProfile

BF16_BYTES = 2.0
COMMUNICATORS = 3  # that a sleeping side keeps: tensor, expert and data parallel


@dataclass(frozen=True)
class Shares:
    """Of the model's weights that one device holds, dense part and routed experts."""

    dense: float
    experts: float

    def bytes_of(self, dense_bytes: float, expert_bytes: float) -> float:
        """What that makes on a device. [B]"""
        return self.dense * dense_bytes + self.experts * expert_bytes


@dataclass(frozen=True)
class Reshard:
    """One change of layout.

    ``model_bytes`` is what is moved in all, ``device_bytes`` what a rollout device receives beyond the shards that it has,
    ``seconds`` by the engine, ``wire_s`` what the links alone need.
    """

    model_bytes: float
    device_bytes: float
    seconds: float
    wire_s: float


def weight_bytes(model: ModelShape, bytes_per_weight: float = BF16_BYTES) -> tuple[float, float]:
    """Bytes of the dense part and of the routed experts. [B]

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    bytes_per_weight : float
        2 for bf16, 1 for 8 bits.

    Returns
    -------
    tuple of float
    """
    total = float(num_parameters(model).total)
    moe = model.moe
    experts = 0.0
    if moe is not None:
        matrices = 3 if model.gated_linear_unit else 2
        each = matrices * model.hidden_size * moe.expert_ffn_hidden_size
        experts = float(sum(model.moe_layers()) * moe.num_experts * each)
    return (total - experts) * bytes_per_weight, experts * bytes_per_weight


def training_shares(strategy: ParallelStrategy) -> Shares:
    """What a training device holds; under ZeRO-3 a slice of everything.

    Parameters
    ----------
    strategy : ParallelStrategy
        The training layout.

    Returns
    -------
    Shares
    """
    replicas = strategy.dp * strategy.cp if strategy.zero_stage == 3 else 1
    dense = 1.0 / (strategy.tp * strategy.pp * replicas)
    experts = 1.0 / (max(strategy.ep, 1) * strategy.etp * strategy.pp)
    return Shares(dense, min(experts, 1.0 / strategy.pp) / (1 if strategy.zero_stage < 3 else max(replicas // strategy.ep, 1)))


def reshard(
    model: ModelShape,
    profile: HardwareProfile,
    held: Shares | None,
    wanted: Shares,
    engine: str,
    *,
    bytes_per_weight: float = BF16_BYTES,
) -> Reshard:
    """Weights from training devices into rollout instances.

    A device that trains and rolls out keeps what it has of its new shard: 1 / (tg pg) - 1 / (t p) of the model arrives where
    shards are nested [hybridflow, section 5.3]. The engine's time is that of the whole model, as engines were measured.

    Parameters
    ----------
    model : ModelShape
        Dimensions of the transformer.
    profile : HardwareProfile
        Its devices; the outermost tier is the wire.
    held : Shares or None
        What a rollout device holds as a training device; None: it does not train.
    wanted : Shares
        Of the rollout's layout.
    engine : str
        A name of ``ENGINES``.
    bytes_per_weight : float
        In which the rollout keeps its weights.

    Returns
    -------
    Reshard
    """
    dense, experts = weight_bytes(model, bytes_per_weight)
    had = held or Shares(0.0, 0.0)
    missing = Shares(max(wanted.dense - had.dense, 0.0), max(wanted.experts - had.experts, 0.0))
    device_bytes = missing.bytes_of(dense, experts)
    wire = device_bytes / profile.tiers[-1].bandwidth_bytes_per_s
    whole = wanted.bytes_of(dense, experts)
    part = device_bytes / whole if whole > 0.0 else 0.0
    seconds = (dense + experts) * part / ENGINES[engine].bytes_per_s(profile)
    return Reshard(dense + experts, device_bytes, max(seconds, wire), wire)


def host_copy_s(device_bytes: float, profile: HardwareProfile) -> float:
    """Time to move a device's states to its host, or back. [s]

    Parameters
    ----------
    device_bytes : float
        Of one device; all devices copy at once.
    profile : HardwareProfile
        Whose ``host_link_bytes_per_s`` counts.

    Returns
    -------
    float, seconds
    """
    return device_bytes / profile.host_link_bytes_per_s


def residual_bytes(profile: HardwareProfile) -> float:
    """What a sleeping side leaves on a device: its communicators, and the runtime that both share is not counted. [B]

    Parameters
    ----------
    profile : HardwareProfile
        Whose ``communicator_bytes`` count.

    Returns
    -------
    float, bytes
    """
    return COMMUNICATORS * profile.communicator_bytes
