"""What stands behind one plan, as the API shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.answers.schemas import Change, Document, LaunchDocument
from hardware_profiles.schema import Wiring


class LaunchFile(Document):
    """As `meshplan search --save-dir` writes it."""

    framework: str | None = Field(description="null for the job")
    name: str
    text: str


class PlanLaunch(Document):
    """How to start a plan on each framework that takes it."""

    plan_id: str
    launchable_on: list[str]
    launch: dict[str, LaunchDocument | None]
    files: list[LaunchFile] = Field(description="of each framework that has arguments, and the job with this strategy")


class StageDocument(Document):
    """One pipeline rank. Times are of one micro batch over all its chunks."""

    stage: int
    num_layers: int
    num_moe_layers: int
    num_embeddings: int
    num_heads: int
    forward_s: float
    backward_s: float
    peak_memory_bytes: float
    memory_bytes: dict[str, float] = Field(description="at the rank's own peak; sums to peak_memory_bytes")


class NetworkTierDocument(Document):
    name: str
    wiring: Wiring
    domain_devices: int | None = Field(description="devices that reach each other through it; null: all")


class TierTrafficDocument(Document):
    """One device's traffic through one tier of the network in a step."""

    tier: str
    wiring: Wiring
    members: float = Field(description="ranks of the group that share a domain of the tier; a mean where they do so unevenly")
    bytes_moved: float
    bandwidth_bytes_per_s: float = Field(description="the most that the device can send to its peers in the group")


class GroupTrafficDocument(Document):
    """One kind of process group over a step, on the pipeline rank that it keeps longest."""

    group: Literal["tp", "cp", "ep", "dp", "expert_dp", "pp"]
    size: int
    stride: int = Field(description="ranks between neighbours of the group")
    stage: int
    time_s: float = Field(description="before anything hides it")
    tiers: list[TierTrafficDocument] = Field(description="those that the group crosses, from the inside out")


class Sensitivity(Document):
    """The step with one quantity better, a rate times 1 + `change_fraction` or a time divided by it, and as much worse."""

    quantity: str = Field(
        description="matmul_rate, memory_bandwidth, bandwidth.TIER, network_latency, host_time, host_link or expert_balance"
    )
    change_fraction: float
    better_step_time_s: float
    better_delta_fraction: float
    worse_step_time_s: float
    worse_delta_fraction: float


class PlanAnalysis(Document):
    """Priced now, at the plan's fidelity, with the study's own profile and constants.

    Another version may say another `step_time_s` than the plan.
    """

    schema_version: Literal[1]
    plan_id: str
    version: str
    step_time_s: float
    memory_limit_bytes: float
    tiers: list[NetworkTierDocument] = Field(description="of the cluster's network, from the inside out")
    stages: list[StageDocument]
    traffic: list[GroupTrafficDocument]
    changes: list[Change] = Field(description="what changing one dimension would do, fastest first")
    sensitivity: list[Sensitivity] = Field(description="what matters most first")
