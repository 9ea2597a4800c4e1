"""The site of a delivery: every field, its bounds, its default and where that comes from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cost_models.delivery.recovery import RECOVERY_MODES, REPLACED_FRACTION
from documents.bounds import MAX_DEVICES
from documents.checking import OneOf, Section
from documents.sentences import Sentence

MAX_SECONDS = 1e9
MAX_BYTES_PER_S = 1e15
MAX_HISTORIES = 100_000
DEFAULT_HISTORIES = 2000

Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
SomeSeconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
BytesPerS = Annotated[float, Field(ge=1e6, le=MAX_BYTES_PER_S)]
Rate = Annotated[float, Field(ge=0, le=1000)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class DeliverySection(Section):
    """Failures and recovery of a job, and prices of power and devices."""

    failures_per_node_day: Rate = Field(default=4e-3, description="interruptions by nodes and their software")
    mtbf_s: Annotated[float, Field(ge=1, le=1e10)] | None = Field(
        default=None, description="in place of failures_per_node_day: mean time between interruptions of this job"
    )
    replaced_fraction: Fraction = Field(
        default=REPLACED_FRACTION, description="of these, that send a node for repair; the others are software"
    )
    supernode_failures_per_day: Rate = Field(default=0.0, description="of each supernode, beside its nodes; a restart of the job")
    cluster_failures_per_day: Rate = Field(default=0.0, description="of the whole job: storage, network, maintenance; a restart")
    recovery: Annotated[str, OneOf(*RECOVERY_MODES)] = Field(default="job", description="how far the job is taken down")
    detection_s: Seconds = Field(default=60.0, description="from a fault until it is noticed; 1800 where HCCL's timeout decides")
    dying_gasp: bool = Field(default=False, description="a checkpoint after the fault, where a replica is whole")
    in_memory_interval_s: SomeSeconds | None = Field(
        default=None, description="between copies of the state in other nodes' memory; null: none"
    )
    checkpoint_interval_s: SomeSeconds | None = Field(default=None, description="useful time between checkpoints; null: the best")
    checkpoint_asynchronous: bool = Field(default=True, description="training goes on while storage is written")
    checkpoint_fixed_s: Seconds = Field(default=3.0, description="that a checkpoint blocks beside the copy to the host")
    storage_write_bytes_per_s: BytesPerS = Field(default=1e11, description="of storage, all devices together")
    storage_read_bytes_per_s: BytesPerS = Field(default=1e11, description="of storage, all devices together")
    spares: Annotated[int, Field(ge=0, le=MAX_DEVICES)] | None = Field(
        default=None, description="nodes that stand by; null: 2 % of the job's, one at least"
    )
    repair_s: Seconds = Field(default=259_200.0, description="until a node is back, in the mean")
    elastic: bool = Field(default=False, description="goes on with the replicas that are whole where no spare is left")
    slowdowns_per_node_day: Rate = Field(default=0.0, description="nodes that turn slow and do not fail")
    slowdown_fraction: Annotated[float, Field(ge=0, le=100)] = Field(default=0.0, description="by which a step is then longer")
    noticed_after_s: Seconds = Field(default=3600.0, description="until a slow node is taken out")
    loss_spikes_per_trillion_tokens: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0, description="spikes of the loss after which training goes back"
    )
    rollback_steps: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=100.0, description="with loss spikes: steps from the last good one to the decision, which are repeated"
    )
    skipped_batches: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=350.0, description="with loss spikes: batches of data that are left out after each"
    )
    histories: Annotated[int, Field(ge=100, le=MAX_HISTORIES)] = Field(
        default=DEFAULT_HISTORIES, description="simulated, for the quantiles"
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(default=0, description="of the simulated histories")
    power_w: Annotated[float, Field(gt=0, le=1e5)] | None = Field(
        default=None, description="of a busy device; null: the profile's"
    )
    idle_power_fraction: Fraction = Field(default=0.21, description="of that, while a device does nothing")
    waiting_power_fraction: Fraction = Field(default=0.6, description="of that, while it waits inside a step")
    host_power_fraction: Annotated[float, Field(ge=0, le=10)] = Field(default=0.35, description="host, NICs and fans beside it")
    pue: Annotated[float, Field(ge=1, le=5)] = Field(default=1.25, description="power of the site over that of its machines")
    price_per_device_hour_usd: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None, description="rental; null: what the profile's price of purchase makes, if it has one"
    )
    years: Annotated[float, Field(gt=0, le=50)] = Field(default=4.0, description="over which a purchase is written off")
    used_fraction: Annotated[float, Field(gt=0, le=1)] = Field(default=0.8, description="of these, that devices are used")
    price_per_kwh_usd: Annotated[float, Field(ge=0, le=100)] | None = Field(default=None, description="energy; null: not counted")
    co2_kg_per_kwh: Annotated[float, Field(ge=0, le=100)] | None = Field(default=None, description="null: not counted")

    @property
    def is_of_prices_alone(self) -> bool:
        """Whether only fields on power and cost were given, none on failures."""
        return bool(self.model_fields_set) and self.model_fields_set <= OF_PRICES


OF_PRICES = frozenset(
    (
        "power_w",
        "idle_power_fraction",
        "waiting_power_fraction",
        "host_power_fraction",
        "pue",
        "price_per_device_hour_usd",
        "years",
        "used_fraction",
        "price_per_kwh_usd",
        "co2_kg_per_kwh",
    )
)

# Field -> source of its default, listed if the field was not given and affects the answer.
SOURCES = {
    "failures_per_node_day": Sentence(
        "(Llama 3 405B 3.8e-3, ByteDance 4.3e-3, 32K GPUs at Meta 2.3e-3 [llama-3; robustrl; ft-hsdp]; "
        "nobody published a count of an Ascend run)"
    ),
    "replaced_fraction": Sentence("(share of hardware among the interruptions of Llama 3 405B [llama-3])"),
    "recovery": Sentence("(the level that needs nothing set up)"),
    "detection_s": Sentence("(assumed; a watchdog takes seconds, HCCL's timeout 1,800 [mindcluster-resume])"),
    "checkpoint_fixed_s": Sentence("(from device to host about 3 s at any size [robustrl])"),
    "storage_write_bytes_per_s": Sentence("(assumed; 50 to 200 GB/s were seen in production [vast])"),
    "storage_read_bytes_per_s": Sentence("(assumed, as written)"),
    "spares": Sentence("(2 % of the nodes, which vendors advise)"),
    "repair_s": Sentence("(assumed)"),
    "loss_spikes_per_trillion_tokens": Sentence("(PaLM 540B 26, DeepSeek-V3 none [palm; deepseek-v3])"),
    "rollback_steps": Sentence("(PaLM 540B [palm])"),
    "skipped_batches": Sentence("(200 to 500 in PaLM 540B [palm])"),
    "idle_power_fraction": Sentence("(73.9 of 350 W [npu-exporter])"),
    "waiting_power_fraction": Sentence("(assumed)"),
    "host_power_fraction": Sentence("(assumed, within 25 to 45 %)"),
    "pue": Sentence("(assumed)"),
    "years": Sentence("(assumed)"),
    "used_fraction": Sentence("(assumed)"),
}
