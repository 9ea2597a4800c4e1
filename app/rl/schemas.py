"""Schemas of post-training estimates, searches, studies and validations."""

from __future__ import annotations

from pydantic import Field

from app.answers.schemas import Answer
from app.text.json_documents import Document
from documents.said import Said


class RlValidationRow(Document):
    """Prediction and measurement of one record. A refused record has a sentence and no prediction."""

    id: str
    kind: str | None
    predicted: float | None
    measured: float | None
    unit: str | None = Field(description="of both: s, ms, tokens/s, tokens/s/device, tokens/s/package")
    error_fraction: float | None
    refused: Said | None
    assumed: list[str] = Field(description="what the record does not say, and what took its place")
    parts: dict[str, float] = Field(description="of the prediction")
    suspect: str | None


class RlErrors(Document):
    """Errors of the predicted rows of one kind. Pairs: steps of one model and hardware that differ by more than noise."""

    count: int
    median_abs_error_fraction: float | None
    mean_abs_error_fraction: float | None
    bias_fraction: float | None
    num_pairs: int
    pairs_in_order_fraction: float | None


class RlSummary(Document):
    num_refused: int
    kinds: dict[str, RlErrors]


class RlValidationDocument(Document):
    """Output of `meshplan rl validate --json`."""

    schema_version: int
    rows: list[RlValidationRow]
    summary: RlSummary


class TrainLayout(Document):
    tp: int
    pp: int
    vpp: int
    cp: int
    ep: int
    dp: int
    micro_batch_size: int
    zero_stage: int
    recompute: bool
    num_devices: int


class RolloutLayout(Document):
    """Layout of one rollout instance; all ``instances`` have the same layout."""

    tp: int
    pp: int
    dp: int
    ep: int
    instance_devices: int
    instances: int
    num_devices: int


class RlRollout(Document):
    """The rollout of a step."""

    makespan_s: float = Field(description="from the first prompt to the last answer")
    steady_s: float = Field(description="the same tokens where new prompts follow at once")
    tail_s: float = Field(description="for the last tenth of the answers alone")
    first_instance_s: float = Field(description="when the first instance is idle")
    in_flight: int = Field(description="requests of an instance at most")
    preemptions: int
    output_tokens_per_s: float
    mean_length: float
    longest_length: int
    truncated_fraction: float = Field(
        description="of the answers that reach the cap: a log tells whether the distribution is right"
    )


class RlReshard(Document):
    """Weights from training to rollout."""

    engine: str
    model_bytes: float
    device_bytes: float = Field(description="that a rollout device receives beyond the shards it has, if shards nest")
    seconds: float
    wire_s: float = Field(description="what the links alone need for these bytes")
    offload_s: float
    onload_s: float
    residual_bytes: float = Field(description="that the sleeping side leaves on a device")


class RlSwitchSeconds(Document):
    """Seconds with their range, for every change and for the first one, which opens what later ones keep."""

    seconds: float
    low_s: float = Field(description="of the range in which the seconds are known to lie")
    high_s: float
    first_s: float
    first_low_s: float
    first_high_s: float


class RlSwitchPart(RlSwitchSeconds):
    """One part of a change of layout."""

    part: str = Field(
        description="weights, offload_* and load_* (weights, gradients, optimizer, buffers), cache_freed, groups_made, "
        "communicators_opened or graphs_captured"
    )
    device_bytes: float = Field(description="of the busiest device; 0 where nothing is moved or held")
    count: int = Field(description="of groups in the cluster, communicators of a rank, or graphs")


class RlSwitch(RlSwitchSeconds):
    """One change of layout; its parts follow each other."""

    parts: list[RlSwitchPart]


class RlLink(Document):
    """Weights that rollout devices copy from the nearest training device that holds them, over one tier of the network."""

    tier: str
    device_bytes: float = Field(description="of the device whose copies take longest")
    mean_bytes: float = Field(description="of all rollout devices")
    seconds: float = Field(description="of that device, at the full rate of the tier")


class RlGroups(Document):
    """Process groups of one kind."""

    side: str = Field(description="training, rollout, or weights: from training to devices that only roll out")
    kind: str
    size: int = Field(description="ranks of a group")
    number: int = Field(description="in the cluster")
    in_turn: int = Field(description="that are made one after the other")


class RlSwitches(Document):
    """Changes of layout between training and rollout, by part."""

    rank_order: str
    to_rollout: RlSwitch
    to_train: RlSwitch
    shard_bytes: float = Field(description="largest shard of a rollout device")
    kept_bytes: float = Field(description="of its shard that the device with the longest copies has from training")
    links: list[RlLink] = Field(description="from the inside out")
    links_s: float = Field(description="of the links alone, for all bytes that move in this order of ranks")
    groups: list[RlGroups]
    training_communicator_bytes: float = Field(description="that kept communicators of training hold on a device")
    rollout_communicator_bytes: float = Field(description="the same of rollout")


class RlBar(Document):
    """A task of a step on its pools, from the start of the steps shown."""

    task: str
    step: int
    pools: list[str]
    start_s: float
    end_s: float
    made_s: float | None = Field(
        default=None,
        description="when what it makes is there: after `end_s` where its longest answers go on beside the next ones, or a queue "
        "hands it over; null in studies of earlier versions",
    )
    waits_for: str = Field(description="the task whose end let it start no earlier")


class RlVariant(Document):
    """Effect of one change of the job."""

    change: Said
    step_time_s: float
    tokens_per_s: float
    gain_fraction: float = Field(description="of throughput over the job as it is")


class RlPlan(Document):
    """A priced placement with its layouts."""

    rank: int
    placement: str
    rollout_devices: int
    train_devices: int
    reference_devices: int | None
    staleness_steps: int
    strategy: TrainLayout
    rollout: RolloutLayout
    step_time_s: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    fits: bool
    switch_s: float | None = Field(
        default=None, description="of a step that both changes of layout take; null in studies of earlier versions"
    )


class RlLaunch(Document):
    """Placement and parallel settings of the step for one framework's release."""

    framework: str
    release: str
    file_name: str
    text: str | None = Field(description="the file; null where the release refuses the step")
    not_expressed: list[Said] = Field(description="what the release has no setting for, and what stands in its place")
    refused: list[Said] = Field(description="why the release has no file of the step")


class RlDocument(Answer):
    """Response of `POST /v1/rl/estimates`, and output of `meshplan rl estimate --json`."""

    step_time_s: float
    step_time_low_s: float = Field(description="four published steps in five lay between these two of their predictions")
    step_time_high_s: float
    tokens_per_s: float
    tokens_per_s_definition: Said
    tokens_per_s_per_device: float
    output_tokens_per_s_per_device: float
    placement: str
    num_devices: int
    rollout_devices: int
    train_devices: int
    reference_devices: int | None
    staleness_steps: int | None
    strategy: TrainLayout
    rollout_layout: RolloutLayout
    parts_s: dict[str, float] = Field(
        description="seconds of each task on its own devices; they add up to the step where nothing runs beside another"
    )
    utilisation: dict[str, float] = Field(description="share of the step in which each pool is busy")
    rollout: RlRollout
    reshard: RlReshard
    switches: RlSwitches | None = Field(default=None, description="null in studies of earlier versions")
    training_peak_memory_bytes: float
    training_fits: bool | None = Field(description="null where settings of a recipe are left out of the price")
    timeline: list[RlBar]
    blocked_by: dict[str, str] = Field(description="of each task: what it waits for once steps repeat")
    variants: list[RlVariant]
    launches: list[RlLaunch]


class RlFound(Answer):
    """The placements of a job, the fastest first."""

    priced: int
    num_splits: int = Field(description="of the devices among the pools of a placement")
    num_done: int = Field(description="splits that are done; fewer than all where the search was stopped")
    stopped_by: str | None = Field(description="time_limit | interrupt; null where every split is done")
    plans: list[RlPlan]
    pareto: list[RlPlan] = Field(description="the fastest of each staleness, where more staleness is faster")
    refused: list[Said]


class RlSearchDocument(RlFound):
    """The placements of a job, the fastest first."""

    best: RlDocument


class RlStudyResult(RlFound):
    """Result of a post-training study; it may have no best placement."""

    best: RlDocument | None
    why_none: Said | None = Field(description="why no placement is the best; null with one")
