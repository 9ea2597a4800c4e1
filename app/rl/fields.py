"""A post-training job: every field, its bounds and its default."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.jobs.assumed import AssumedFields
from app.jobs.fields import ClusterSection, SoftwareSection
from cost_models.post_training.constants import DEFAULT_ENGINE, ENGINES
from cost_models.post_training.lengths import DEFAULT_GROUP_SHARE, DEFAULT_SIGMA, MAX_SIGMA
from cost_models.post_training.placements import PlacementKind
from cost_models.post_training.rollout_side import Scheduling
from cost_models.post_training.shards import RankOrder
from cost_models.post_training.training_side import Batching
from cost_models.serving.engine import CACHE_BYTES, WEIGHT_BYTES
from cost_models.shapes.switches import SWITCHES
from documents.bounds import Degree, Devices, GlobalBatch, Name, ZeroStage
from documents.checking import OneOf, Section

MAX_ANSWERS = 200_000  # answers of a step; their simulation takes a second
MAX_LENGTH = 1_000_000  # tokens of an answer
MAX_STALENESS = 64
MAX_HISTOGRAM = 10_000
SHOWN_PLANS = 10
MEAN_PROMPT = 150.0  # tokens

Tokens = Annotated[int, Field(ge=1, le=MAX_LENGTH)]
Length = Annotated[float, Field(ge=1, le=MAX_LENGTH)]
SwitchSeconds = Annotated[float, Field(ge=0, le=3600)]
Part = Annotated[float, Field(ge=0, le=1)]
Layers = Annotated[int, Field(ge=1, le=10_000)]


class LengthsSection(Section):
    """Answer lengths: a mean and a cap with a spread, or a histogram."""

    mean: Length | None = Field(
        default=None, description="tokens of an answer, cut off ones included; from the histogram without"
    )
    cap: Tokens = Field(description="the longest answer")
    sigma: Annotated[float, Field(ge=0, le=MAX_SIGMA)] | None = Field(
        default=None,
        description=f"of ln(length) before the cap; default {DEFAULT_SIGMA}, assumed: 0.6 to 0.8 for mathematics, 0.9 to 1.1 for "
        "agents; 0: all alike",
    )
    quantile_level: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="with quantile_length, in place of sigma"
    )
    quantile_length: Length | None = None
    group_share: Part = Field(
        default=DEFAULT_GROUP_SHARE, description="of sigma squared that answers to one prompt share; assumed"
    )
    histogram: (
        Annotated[
            list[Annotated[list[Annotated[float, Field(ge=0, le=1e15)]], Field(min_length=2, max_length=2)]],
            Field(min_length=1, max_length=MAX_HISTOGRAM),
        ]
        | Name
        | None
    ) = Field(default=None, description="pairs of length and weight, or a CSV file of them; in place of mean and sigma")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0


class StalenessSection(Section):
    """Limit on the steps that rollout may run ahead of training."""

    steps: Annotated[int, Field(ge=0, le=MAX_STALENESS)] = Field(
        default=0,
        description="versions of the weights between the start of an answer and its use: NeMo RL's max_trajectory_age_steps, "
        "AReaL's max_head_offpolicyness",
    )
    partial: bool = Field(default=False, description="answers go on over an update of the weights")
    leftover_fraction: Part | None = Field(
        default=None,
        description="verl's staleness_threshold: part of a batch that may be left over at an exchange of weights; in "
        "place of steps",
    )


class SwitchSection(Section):
    """How layouts change between training and rollout; seconds that are not given are the range of published ones."""

    rank_order: Annotated[str, OneOf(*RankOrder)] = Field(
        default=RankOrder.CONSECUTIVE.value,
        description="devices of an instance on training devices: neighbours, or at intervals so that shards overlap (HybridFlow)",
    )
    communicators: Literal["kept", "reopened"] = Field(
        default="kept", description="opened once and held in memory, or closed and opened at every change (slime)"
    )
    graphs: Literal["kept", "recaptured"] = Field(default="kept", description="decode graphs: captured once, or at every change")
    num_graphs: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None, description="decode graphs of an engine; default: the sizes that vLLM captures"
    )
    group_s: SwitchSeconds | None = Field(default=None, description="to make one process group, on all ranks in turn")
    communicator_s: SwitchSeconds | None = Field(default=None, description="to open one communicator on a rank")
    graph_s: SwitchSeconds | None = Field(default=None, description="to capture one decode graph")


class PostTrainingSection(Section):
    """The algorithm, its answers, and where its tasks run."""

    algorithm: Literal["grpo", "ppo", "dapo"] = "grpo"
    prompts: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = Field(description="of a step")
    samples: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = Field(description="answers to each prompt")
    prompt_tokens: Annotated[float, Field(ge=0, le=MAX_LENGTH)] = Field(
        default=MEAN_PROMPT, description="in the mean; assumed where not given"
    )
    max_prompt_tokens: Tokens | None = Field(default=None, description="the longest prompt; default: the mean")
    lengths: LengthsSection
    updates: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, description="optimizer steps over the answers of a step")
    kept_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="of generated prompts that a filter keeps (DAPO)"
    )
    reference: bool | None = Field(default=None, description="a reference policy; default: but for dapo")
    old_log_prob: bool = Field(
        default=True,
        description="training computes the log-probabilities of the answers again, before the update; false: those of the "
        "update, or of the rollout, are taken",
    )
    reward_model: bool = Field(default=False, description="answers pass a model as large as the policy")
    placement: Annotated[str, OneOf(*PlacementKind)] | None = Field(
        default=None, description="default of an estimate: fully-colocated; a search tries all"
    )
    rollout_devices: Devices | None = Field(default=None, description="with separate; default: half")
    train_devices: Devices | None = Field(default=None, description="with hybrid: those that train too; default: half")
    staleness: StalenessSection = StalenessSection()
    queue: bool = Field(default=False, description="training begins on the answers that are complete, through a queue of samples")
    queue_bytes_per_s: Annotated[float, Field(gt=0, le=1e13)] = Field(
        default=1e9, description="of the queue's storage, all units together; assumed"
    )
    reshard_engine: Annotated[str, OneOf(*ENGINES)] = Field(
        default=DEFAULT_ENGINE, description="how weights travel to the rollout"
    )
    offload: bool = Field(default=True, description="states of training go to the host while its devices roll out")
    switch: SwitchSection = SwitchSection()
    max_staleness: Annotated[int, Field(ge=0, le=MAX_STALENESS)] = Field(default=4, description="that a search tries")
    top: Annotated[int, Field(ge=1, le=100)] = SHOWN_PLANS
    time_limit_s: Annotated[float, Field(gt=0, le=1e7)] | None = Field(
        default=None, description="of a search, which then answers with what it has found"
    )


class TrainLayoutSection(Section):
    """The layout of training; without it the fastest that fits."""

    tp: Degree = 1
    pp: Degree = 1
    cp: Degree = 1
    ep: Degree = 1
    vpp: Degree = 1
    micro_batch_size: GlobalBatch = 1
    zero_stage: ZeroStage = 1
    shard_size: Degree | None = Field(
        default=None, description="devices that share one copy of what zero_stage shards; default: all replicas, with cp"
    )
    recompute: bool | None = Field(default=None, description="of whole layers; default: where rollout shares the devices")
    recompute_layers: Layers | None = Field(default=None, description="the first ones of each virtual stage, in place of all")
    stage_layers: Annotated[list[Layers], Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="layers of each pipeline stage; default: as even as the model allows"
    )
    cp_algo: Literal["ring", "ulysses"] = "ring"
    switches: dict[Name, bool] = Field(
        default={}, max_length=len(SWITCHES), description="on or off beside the usual ones, as in swap_optimizer: true"
    )
    batching: Annotated[str, OneOf(*Batching)] = Field(
        default=Batching.PACKED.value,
        description="a micro batch has as many samples as fill micro_batch_size sequences of pack_tokens, or micro_batch_size "
        "samples, or these padded to the longest",
    )
    pack_tokens: Tokens | None = Field(default=None, description="of a packed sequence; default: those of the longest sample")


class RolloutSection(Section):
    """The rollout engine and an instance of it."""

    tp: Degree | None = None
    pp: Degree = 1
    ep: Degree | None = Field(default=None, description="devices over which experts are spread; 1: sliced over tp")
    precision: Annotated[str, OneOf(*WEIGHT_BYTES)] = "bf16"
    cache_precision: Annotated[str, OneOf(*CACHE_BYTES)] = "bf16"
    execution: Literal["graph", "eager"] | None = Field(default=None, description="default: eager on Ascend, graph elsewhere")
    max_requests: Annotated[int, Field(ge=1, le=65_536)] = Field(default=1024, description="of a replica in flight")
    memory_fraction: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="of a device that an instance may fill; default 0.9, 0.6 where training sleeps on it"
    )
    scheduling: Annotated[str, OneOf(*Scheduling)] = Field(
        default=Scheduling.GROUPS.value,
        description="of answers, to replicas in turn: a prompt's together, each for itself, or each with long groups first, as a "
        "probe of every prompt tells them",
    )
    draft_tokens: Annotated[int, Field(ge=0, le=16)] = 0
    acceptance: Part = 0.7


class RlJobDocument(Section):
    """A post-training job."""

    schema_version: Literal[1] = 1
    model: Name | dict[str, Any] = Field(description="a name, the path of a Hugging Face config.json, or a mapping")
    cluster: ClusterSection
    software: SoftwareSection | Name = SoftwareSection()
    post_training: PostTrainingSection
    strategy: TrainLayoutSection | None = None
    rollout: RolloutSection = RolloutSection()
    assumed: AssumedFields = Field(default={}, description="of a job as an answer shows it")
