"""Contents of a hardware profile, in SI units.

Bandwidth is per device and one direction everywhere. ``HardwareProfile.provenance`` has the source of each number; the cost
model reads the plain floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from documents.errors import InputError
from documents.late_methods import dataclass

LEAST_CAPABILITY, MOST_CAPABILITY = 1, 20
# The oldest compute capability of a family whose matrix units multiply in each precision [cuda-gpus; transformer-engine,
# quantization.py; transformer-engine-rocm, quantization.py].
OLDEST_CAPABILITY: Mapping[str, Mapping[str, float]] = {
    "nvidia": {"fp16": 7.0, "bf16": 8.0, "tf32": 8.0, "fp8": 8.9, "nvfp4": 10.0},
    "amd": {"bf16": 9.0, "fp8": 9.4, "mxfp4": 9.5},
}


class ProfileError(InputError):
    """A profile that cannot be read; the message names the file, the key, the value and what is allowed."""


class Basis(StrEnum):
    """Basis of a number: vendor's statement, measurement, inference or assumption."""

    VENDOR = "vendor"
    MEASURED = "measured"
    INFERRED = "inferred"
    ASSUMED = "assumed"


class Status(StrEnum):
    """Whether measured training runs back a profile."""

    VALIDATED = "validated"
    UNVALIDATED = "unvalidated"
    ROADMAP = "roadmap"


class Wiring(StrEnum):
    """Connection of the devices of one tier."""

    MESH = "mesh"  # a link to every peer: a group of t ranks uses t - 1 links
    SWITCH = "switch"  # one port into a non-blocking switch
    FABRIC = "fabric"  # one NIC a device into a leaf-spine network


@dataclass(frozen=True)
class Quantity:
    """One number as its source states it; ``unit`` is a name of ``hardware_profiles.units``."""

    value: float
    unit: str
    source: str
    basis: Basis
    note: str = ""


@dataclass(frozen=True)
class CollectiveCurve:
    """Measured times of one collective at one group size.

    ``message_bytes`` is the size on a rank before an all-gather, after a reduce-scatter,
    and on both sides of an all-reduce or all-to-all; it increases.
    """

    op: str  # all_gather | reduce_scatter | all_reduce | all_to_all
    group_size: int
    message_bytes: tuple[float, ...]
    time_s: tuple[float, ...]
    source: str


@dataclass(frozen=True)
class NetworkTier:
    """One level of the topology, from the inside out.

    ``domain_devices`` devices reach each other through this tier without using an outer one
    (``None``: all of the cluster). ``bandwidth_bytes_per_s`` is the rate of one device through
    all its links of the tier; for a mesh ``link_bytes_per_s`` is the rate to one peer.
    ``latency_s`` is one network step, without the host's cost to start a collective.
    """

    name: str
    wiring: Wiring
    domain_devices: int | None
    bandwidth_bytes_per_s: float
    latency_s: float
    link_bytes_per_s: float | None = None
    oversubscription: float = 1.0
    curves: tuple[CollectiveCurve, ...] = ()


@dataclass(frozen=True)
class HardwareProfile:
    """One product: its device, its topology, its power and price.

    ``matmul_flops_per_s`` and ``achievable_matmul_flops_per_s`` map a precision
    (``bf16``, ``fp16``, ``fp8``, ``int8``, ``nvfp4``, ``mxfp4``, ``fp32``, ``tf32``) to the dense peak and to the best measured
    rate.
    A precision that the device lacks, or without a measurement, is absent. ``vector_flops_per_s`` is FP32.
    ``usable_hbm_bytes`` is the memory that a job can fill in total. Driver and runtime take ``context_bytes`` of it before the
    framework allocates anything. ``compute_capability`` is of a GPU: what PyTorch's ``get_device_capability`` returns, 8.9 for
    (8, 9); of AMD's 9.4 for gfx942. ``least_compute_capability`` says what holds without it.
    """

    name: str
    title: str
    family: str  # ascend | nvidia | amd: which fitted constants apply
    status: Status
    device: str  # the device of one rank, for instance "910B3" or "910C die"
    matmul_flops_per_s: Mapping[str, float]
    achievable_matmul_flops_per_s: Mapping[str, float]
    vector_flops_per_s: float
    num_matmul_cores: int
    hbm_bytes: float
    usable_hbm_bytes: float
    hbm_bytes_per_s: float
    host_link_bytes_per_s: float
    context_bytes: float
    communicator_bytes: float  # device memory of one communicator
    tiers: tuple[NetworkTier, ...]
    devices_per_node: int
    sequential_tiers: bool  # collectives run tier after tier (HCCL) instead of pipelined (NCCL)
    compute_capability: float | None = None
    clock_hz: float | None = None  # clock of the matmul cores
    host_memory_bytes: float | None = None  # of a node
    host_memory_bytes_per_s: float | None = None  # of a node: all channels of its processors
    power_w: float | None = None
    price_usd: float | None = None
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Quantity] = field(default_factory=dict)  # dotted path -> as stated

    @property
    def has_nccl(self) -> bool:
        """Whether NCCL joins the devices."""
        return self.family == "nvidia"

    @property
    def has_pcie_tier(self) -> bool:
        """Whether devices of a node reach others through the host: a tier inside it carries less than the link to the host."""
        return any(tier.bandwidth_bytes_per_s < self.host_link_bytes_per_s for tier in self.tiers[:-1])

    @property
    def lacks_compute_capability(self) -> bool:
        """Whether the profile is of a GPU whose capability nobody stated."""
        return self.compute_capability is None and self.family in OLDEST_CAPABILITY

    @property
    def least_compute_capability(self) -> float:
        """The stated capability, or else the oldest that has all precisions of the profile; 0 for other devices than GPUs."""
        if self.compute_capability is not None:
            return self.compute_capability
        oldest = OLDEST_CAPABILITY.get(self.family, {})
        return max((oldest.get(precision, 0.0) for precision in self.matmul_flops_per_s), default=0.0)
