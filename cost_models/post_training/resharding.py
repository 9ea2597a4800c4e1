"""Change between the training layout and the rollout layout: bytes, seconds, and memory of the sleeping side."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.post_training.constants import ENGINES
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import ModelShape
from hardware_profiles.schema import HardwareProfile

BF16_BYTES = 2.0
COMMUNICATORS = 3  # a sleeping side keeps those of tensor, expert and data parallelism


@dataclass(frozen=True)
class Shares:
    """Fractions of the model's weights on one device: of the dense part and of the routed experts."""

    dense: float
    experts: float

    def bytes_of(self, dense_bytes: float, expert_bytes: float) -> float:
        """Bytes on one device for these shares. [B]"""
        return self.dense * dense_bytes + self.experts * expert_bytes


@dataclass(frozen=True)
class Reshard:
    """One change of layout.

    ``model_bytes`` are moved in total. A rollout device receives ``device_bytes`` in addition to the shards that it already has.
    ``seconds`` is the engine's time, ``wire_s`` the time of the links alone.
    """

    model_bytes: float
    device_bytes: float
    seconds: float
    wire_s: float


def weight_bytes(model: ModelShape, bytes_per_weight: float = BF16_BYTES) -> tuple[float, float]:
    """Bytes of the dense part and of the routed experts; ``bytes_per_weight`` is 2 for bf16 and 1 for 8 bits. [B]"""
    total = float(num_parameters(model).total)
    moe = model.moe
    experts = 0.0
    if moe is not None:
        matrices = 3 if model.gated_linear_unit else 2
        each = matrices * model.hidden_size * moe.expert_ffn_hidden_size
        experts = float(sum(model.moe_layers()) * moe.num_experts * each)
    return (total - experts) * bytes_per_weight, experts * bytes_per_weight


def training_shares(strategy: ParallelStrategy) -> Shares:
    """Fractions of the weights on a training device; under ZeRO-3 a slice of all of them."""
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
    """Send weights from training devices to rollout instances.

    A device that trains and rolls out keeps the part of its new shard that it already has: 1 / (tg pg) - 1 / (t p) of the model
    arrives if shards are nested [hybridflow, section 5.3]. The engine's time was measured for the whole model and is scaled to
    the part that moves.

    Parameters
    ----------
    profile
        The outermost tier is the wire.
    held
        Fractions on a rollout device as a training device; ``None``: it does not train.
    wanted
        Fractions under the rollout's layout.
    engine
        A name of ``ENGINES``.
    bytes_per_weight
        Precision of the rollout's weights.
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
    """Time to move a device's states to its host, or back; all devices copy at once. [s]"""
    return device_bytes / profile.host_link_bytes_per_s


def residual_bytes(profile: HardwareProfile) -> float:
    """Bytes of a sleeping side on a device: its communicators. The runtime is shared by both sides and not counted. [B]"""
    return COMMUNICATORS * profile.communicator_bytes
