"""Change between the training layout and the rollout layout: seconds of the weights by engine, and of copies to the host."""

from __future__ import annotations

from collections import Counter

from cost_models.post_training.constants import ENGINES
from cost_models.post_training.shards import weight_slices
from cost_models.serving.engine import ServingLayout
from cost_models.shapes.parameters import layer_parameters, num_parameters
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from hardware_profiles.schema import HardwareProfile


@dataclass(frozen=True)
class Reshard:
    """One change of layout if shards nest. Published steps are predicted with it.

    ``model_bytes`` are those of the whole model, and ``device_bytes`` those that a rollout device receives. ``seconds`` is the
    engine's time, ``wire_s`` the time of the links alone.
    """

    model_bytes: float
    device_bytes: float
    seconds: float
    wire_s: float


def model_bytes(model: ModelShape, bytes_per_weight: float) -> float:
    """Bytes of all weights; ``bytes_per_weight`` is 2 for bf16 and 1 for 8 bits. [B]"""
    return float(num_parameters(model).total) * bytes_per_weight


def engine_s(whole_bytes: float, moved_fraction: float, engine: str, profile: HardwareProfile) -> float:
    """Time of an engine of ``ENGINES``, measured for whole models, scaled to the part of a shard that moves. [s]"""
    return whole_bytes * moved_fraction / ENGINES[engine].bytes_per_s(profile)


def reshard(
    model: ModelShape,
    profile: HardwareProfile,
    strategy: ParallelStrategy | None,
    layout: ServingLayout,
    engine: str,
    *,
    bytes_per_weight: float,
) -> Reshard:
    """Send weights from training devices to rollout instances.

    A device that trains and rolls out keeps the part of its new shard that it already has: 1 / (tg pg) - 1 / (t p) of the model
    arrives if shards nest [hybridflow, section 5.3]; of experts, the same with their own degrees. ``moved_shards`` counts what
    arrives under a given order of ranks.

    Parameters
    ----------
    profile
        The outermost tier is the wire.
    strategy
        Of rollout devices as training devices; ``None``: they do not train.
    engine
        A name of ``ENGINES``.
    bytes_per_weight
        Precision of the rollout's weights.
    """
    layers = Counter(model.kinds_of_layers()).items()
    of_layers = [(layer_parameters(model.of_kind(kind), moe=kind.moe, local=kind.local), number) for kind, number in layers]
    experts = sum(each.experts * number for each, number in of_layers)
    parts = (num_parameters(model).total - experts, experts)
    wanted = (1 / (layout.tp * layout.pp), 1 / ((layout.tp if layout.ep == 1 else layout.ep) * layout.pp))
    held = (0.0, 0.0) if strategy is None else _training_shares(strategy)
    missing = sum(part * max(new - old, 0.0) for part, new, old in zip(parts, wanted, held, strict=True))
    whole, device_bytes = model_bytes(model, bytes_per_weight), missing * bytes_per_weight
    wire_s = device_bytes / profile.tiers[-1].bandwidth_bytes_per_s
    fraction = missing / sum(part * new for part, new in zip(parts, wanted, strict=True))
    return Reshard(whole, device_bytes, max(engine_s(whole, fraction, engine, profile), wire_s), wire_s)


def _training_shares(strategy: ParallelStrategy) -> tuple[float, float]:
    """Fractions of the dense weights and of the experts on a training device; under ZeRO-3 a slice of them."""
    slices, expert_slices = weight_slices(strategy)
    return 1 / (strategy.tp * strategy.pp * slices), 1 / (strategy.ep * strategy.etp * strategy.pp * expert_slices)


def host_copy_s(device_bytes: float, profile: HardwareProfile) -> float:
    """Time to move a device's states to its host, or back; all devices copy at once. [s]"""
    return device_bytes / profile.host_link_bytes_per_s
