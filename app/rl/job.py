"""A resolved post-training job, whose step can be priced for any placement."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.calibrations.constants import constants_for, own_calibrations
from app.calibrations.stored import stored_calibrations
from app.catalogue.models.presets import known_name
from app.catalogue.models.shape import model_to_mapping
from app.jobs.job import Job, job_document, parse_job
from app.jobs.requests import parse_request
from app.rl.fields import (
    MAX_ANSWERS,
    MAX_HISTOGRAM,
    LengthsSection,
    PostTrainingSection,
    RlJobDocument,
    RolloutSection,
    TrainLayoutSection,
)
from app.rl.models import model_of
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.post_training.lengths import (
    DEFAULT_SIGMA,
    ResponseLengths,
    draw_lengths,
    lengths_from_mean,
    lengths_from_quantile,
)
from cost_models.post_training.placements import PlacementKind, Staleness
from cost_models.post_training.rollout_side import Scheduling
from cost_models.post_training.shards import RankOrder
from cost_models.post_training.step import CHANGES_OVER, Algorithm, PostTraining, layout_change_s, least_passes, training_cost_s
from cost_models.post_training.switching import Switching
from cost_models.post_training.training_side import Batching, TrainingTimes
from cost_models.serving.engine import Engine, ServingLayout, ServingWorkload, why_not_served
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute
from cost_models.shapes.switches import DEFAULT_FEATURES, SWITCHES, Feature
from cost_models.shapes.workload import Workload, WorkloadError
from documents.bounds import DOCUMENT_BYTES
from documents.checking import check
from documents.errors import InfeasibleError, InputError, show, unknown_name
from documents.late_methods import dataclass
from documents.reading import read_text
from documents.sentences import Sentence, joined
from hardware_profiles.schema import HardwareProfile
from search.post_training.layouts import PoolPricing, default_rollout_layout, strategy_of, training_layouts
from search.post_training.pools import TrainingPools

if TYPE_CHECKING:
    from app.storage.session import Database

_DEGREES = {
    *("tp", "pp", "cp", "ep", "vpp", "micro_batch_size", "zero_stage"),
    *("shard_size", "recompute_layers", "stage_layers"),
}
SHARED_MEMORY_FRACTION, OWN_MEMORY_FRACTION = 0.6, 0.9


@dataclass(frozen=True)
class RlJob:
    """``job`` has model, cluster and software; its training is an unused placeholder."""

    job: Job
    section: PostTrainingSection
    layout: TrainLayoutSection | None
    rollout: RolloutSection
    constants: Constants
    lengths: ResponseLengths
    drawn: NDArray[np.int64] = field(repr=False)
    pools: dict[tuple[bool, ServingLayout | None], TrainingPools] = field(default_factory=dict, repr=False, compare=False)

    @property
    def document(self) -> dict[str, Any]:
        """The job with every default filled in."""
        resolved = self.job.document
        found = {name: resolved[name] for name in ("schema_version", "model", "cluster", "software")}
        found["post_training"] = section = self.section.model_dump(exclude_none=True)
        if isinstance(self.section.lengths.histogram, str) and self.lengths.histogram is not None:  # a file of this machine
            section["lengths"]["histogram"] = [list(pair) for pair in zip(*self.lengths.histogram, strict=True)]
        found["rollout"] = self.rollout.model_dump(exclude_none=True)
        if self.layout is not None:
            found["strategy"] = self.layout.model_dump(exclude_none=True)
        return found

    @property
    def assumptions(self) -> list[str]:
        """Defaults that the job did not give and that affect the answer."""
        given = self.section.lengths.model_fields_set
        found = []
        if self.lengths.histogram is None and not given & {"sigma", "quantile_level"}:
            found.append(
                Sentence("post_training.lengths.sigma = {:g} (assumed; no source publishes quantiles of lengths)", DEFAULT_SIGMA)
            )
        if "group_share" not in given:
            found.append(Sentence("post_training.lengths.group_share = {:g} (assumed)", self.section.lengths.group_share))
        if "prompt_tokens" not in self.section.model_fields_set:
            found.append(Sentence("post_training.prompt_tokens = {:g} (assumed)", self.section.prompt_tokens))
        if self.rollout.memory_fraction is None:
            found.append(
                Sentence(
                    "rollout.memory_fraction = {:g}, and {:g} beside sleeping training (assumed)",
                    OWN_MEMORY_FRACTION,
                    SHARED_MEMORY_FRACTION,
                )
            )
        return [*self.job.assumptions, *found, *self._assumed_switch_times()]

    def _assumed_switch_times(self) -> list[str]:
        """Seconds of work that every change of layout repeats and that the job does not give."""
        wanted, profile = self.switching, self.job.workload.cluster.profile
        repeats = {
            "group_s": not wanted.keeps_communicators,
            "communicator_s": not wanted.keeps_communicators,
            "graph_s": not wanted.keeps_graphs and self.engine().graph,
        }
        missing = [name for name, is_paid in repeats.items() if is_paid and getattr(wanted, name) is None]
        return [
            Sentence(
                "post_training.switch.{} = {:.2g} (assumed; {:g} to {:g} were published)",
                name,
                *wanted.seconds_of(name, profile),
            )
            for name in missing
        ]

    def engine(self) -> Engine:
        """The rollout engine."""
        family = self.job.workload.cluster.profile.family
        is_graph = self.rollout.execution == "graph" if self.rollout.execution else family != "ascend"
        return Engine(
            precision=self.rollout.precision,
            cache_precision=self.rollout.cache_precision,
            graph=is_graph,
            draft_tokens=self.rollout.draft_tokens,
            acceptance=self.rollout.acceptance,
        )

    def memory_fraction(self, placement: PlacementKind) -> float:
        """Share of a device's memory that a rollout instance may fill."""
        shared = placement is not PlacementKind.SEPARATE
        return self.rollout.memory_fraction or (SHARED_MEMORY_FRACTION if shared else OWN_MEMORY_FRACTION)

    def serving(self, devices: int) -> ServingWorkload:
        """The rollout workload on a pool."""
        cluster = replace(self.job.workload.cluster, num_devices=devices)
        return ServingWorkload(self.job.workload.model, cluster, self.constants, self.engine())

    def training(self, devices: int) -> Workload:
        """Training on a pool."""
        return replace(self.job.workload, cluster=replace(self.job.workload.cluster, num_devices=devices))

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Prompt and answer of every sample. [tokens]"""
        found: NDArray[np.int64] = np.rint(self.drawn.ravel() + self.section.prompt_tokens).astype(np.int64)
        return found

    @property
    def pack_length(self) -> int:
        """The longest packed sequence. [tokens]"""
        section = self.section
        longest = section.lengths.cap + (section.max_prompt_tokens or section.prompt_tokens)
        return int((self.layout and self.layout.pack_tokens) or longest)

    @property
    def batching(self) -> Batching:
        """Contents of a micro batch of training."""
        return Batching.PACKED if self.layout is None else Batching(self.layout.batching)

    @property
    def algorithm(self) -> Algorithm:
        """Tasks and updates of a step."""
        section = self.section
        reference = section.algorithm != "dapo" if section.reference is None else section.reference
        return Algorithm(
            reference=reference,
            old_log_prob=section.old_log_prob,
            critic=section.algorithm == "ppo",
            reward_model=section.reward_model,
            kept_fraction=section.kept_fraction,
            num_updates=section.updates,
        )

    @property
    def staleness(self) -> Staleness:
        """Versions that rollout may run ahead."""
        given = self.section.staleness
        return Staleness(given.steps, given.partial, given.leftover_fraction, self.section.queue)

    @cached_property
    def _pricing(self) -> PoolPricing:
        return PoolPricing(self.constants, self.sequences, self.pack_length, self.section.updates, self.batching)

    def _pools(self, placement: PlacementKind, serving: ServingWorkload, instance: ServingLayout) -> TrainingPools:
        """Training layouts by step time, including the change of layout if devices are shared."""
        recomputes, changes = placement is not PlacementKind.SEPARATE, placement in CHANGES_OVER
        key = (recomputes, instance if changes else None)

        def cost_s(strategy: ParallelStrategy, times: TrainingTimes) -> float:
            found = training_cost_s(self.algorithm, times)
            if changes:
                section = self.section
                found += layout_change_s(
                    serving,
                    instance,
                    strategy,
                    times,
                    section.reshard_engine,
                    offloads=section.offload,
                )
            return found

        if key not in self.pools:
            self.pools[key] = TrainingPools(
                self.job.workload,
                lambda pool: self._layouts(pool, recomputes=recomputes),
                self._pricing,
                cost_s,
                least_passes(self.algorithm, recomputes=recomputes and self.layout is None),
            )
        return self.pools[key]

    def _trained(
        self, devices: int, placement: PlacementKind, serving: ServingWorkload, instance: ServingLayout
    ) -> tuple[Workload, ParallelStrategy]:
        """Training on a pool with the layout that the job names, or the fastest that fits."""
        each = 1 if self.layout is None else self.layout.tp * self.layout.pp * self.layout.cp
        if self.layout is not None and not self._layouts(self.training(devices), recomputes=True):
            given = self.layout
            raise InfeasibleError(
                Sentence(
                    "strategy: tp {} x pp {} x cp {} with ep {} does not fill {} devices of training for {}.",
                    given.tp,
                    given.pp,
                    given.cp,
                    given.ep,
                    devices,
                    self.job.workload.model.name,
                )
            )
        used, found = self._pools(placement, serving, instance).best(devices, each)
        return used, found.strategy

    def _layouts(self, pool: Workload, *, recomputes: bool) -> list[ParallelStrategy]:
        """Candidate layouts of a pool; with recompute if rollout shares the devices."""
        given = self.layout
        if given is None:
            return [layout for layout in training_layouts(pool) if not recomputes or layout.recompute is Recompute.FULL]
        degrees = given.model_dump(include=_DEGREES) | {"cp_algo": CpAlgo[given.cp_algo.upper()]}
        degrees["features"] = _features(given.switches)
        wanted = [recomputes, True] if given.recompute is None else [given.recompute]
        found = (strategy_of(pool.model, pool.cluster.num_devices, **degrees, recompute=one) for one in dict.fromkeys(wanted))
        return [one for one in found if one is not None]

    def instance(self, devices: int, placement: PlacementKind) -> ServingLayout:
        """The rollout instance that the job names, or the smallest with room for a cache."""
        serving, given = self.serving(devices), self.rollout
        if given.tp is None and given.ep is None:
            return default_rollout_layout(serving, memory_fraction=self.memory_fraction(placement))
        tp, ep = given.tp or 1, given.ep or 1
        if serving.model.num_attention_heads % tp:
            raise InputError(Sentence("rollout.tp: {} does not divide {} heads.", tp, serving.model.num_attention_heads))
        if ep > 1 and (serving.model.moe is None or ep % tp):
            raise InputError(
                Sentence("rollout.ep: {} is not allowed; give a multiple of tp {}, for a model with experts.", ep, tp)
            )
        try:
            return ServingLayout(tp=tp, pp=given.pp, dp=ep // tp if ep > 1 else 1, ep=ep)
        except WorkloadError as error:
            raise InputError(Sentence("rollout: {}.", error)) from None

    def step(self, placement: PlacementKind, rollout_devices: int, train_devices: int, staleness: Staleness) -> PostTraining:
        """The step of one placement and split."""
        section = self.section
        serving, instance = self.serving(rollout_devices), self.instance(rollout_devices, placement)
        training, strategy = self._trained(train_devices, placement, serving, instance)
        return PostTraining(
            training=training,
            strategy=strategy,
            constants=self.constants,
            serving=serving,
            layout=instance,
            idle_train_devices=train_devices - training.cluster.num_devices,
            lengths=self.drawn,
            prompt_tokens=section.prompt_tokens,
            placement=placement,
            staleness=staleness,
            algorithm=self.algorithm,
            pack_length=self.pack_length,
            batching=self.batching,
            reshard_engine=section.reshard_engine,
            max_requests=self.rollout.max_requests,
            memory_fraction=self.memory_fraction(placement),
            offloads=section.offload,
            scheduling=Scheduling(self.rollout.scheduling),
            queue_bytes_per_s=section.queue_bytes_per_s if section.queue else None,
            switching=self.switching,
        )

    @property
    def switching(self) -> Switching:
        """How the site changes layouts."""
        given = self.section.switch
        return Switching(
            rank_order=RankOrder(given.rank_order),
            keeps_communicators=given.communicators == "kept",
            keeps_graphs=given.graphs == "kept",
            group_s=given.group_s,
            communicator_s=given.communicator_s,
            graph_s=given.graph_s,
            num_graphs=given.num_graphs,
        )


def load_rl_job(source: str) -> RlJob:
    """The job of a file."""
    return resolved_rl_job(*job_document(source, {}, RlJobDocument))


def resolved_rl_job(document: Mapping[str, Any], folder: Path | None) -> RlJob:
    """The job of a document; ``folder`` is where its paths begin, if files of this machine may be read."""
    plain, sections = _parts(document, folder)
    job = parse_job(plain, folder=folder)
    return _resolved(job, sections, own_calibrations(job), folder)


def parse_rl_job(document: Mapping[str, Any], profile: HardwareProfile | None = None) -> RlJob:
    """The job of a document that names no file; ``profile`` replaces the catalogue's current one."""
    plain, sections = _parts(document, None)
    return _resolved(parse_job(plain, profile=profile), sections, (), None)


def request_rl_job(document: Mapping[str, Any], database: Database) -> RlJob:
    """The job of a request, for which no file is read."""
    plain, sections = _parts(document, None)
    job = parse_request(plain)
    return _resolved(job, sections, stored_calibrations(database, job), None)


def _parts(document: Mapping[str, Any], folder: Path | None) -> tuple[dict[str, Any], RlJobDocument]:
    """The sections of every job, with a placeholder for training, and the sections of post-training."""
    if document.get("model") is None:
        raise InputError(Sentence("model: missing; give a name, the path of a config.json, or a mapping."))
    if document.get("post_training") is None:
        raise InputError(Sentence("post_training: missing; give at least prompts, samples and lengths."))
    cluster = document.get("cluster")
    sections = check(RlJobDocument, {**document, "cluster": {"hardware": cluster} if isinstance(cluster, str) else cluster})
    model = document["model"]
    if (
        isinstance(model, str)
        and known_name(model) is None
        and not (folder is not None and (model.endswith(".json") or "/" in model))
    ):
        model = model_to_mapping(model_of(model))
    rest = {name: value for name, value in document.items() if name in ("schema_version", "cluster", "software")}
    return {**rest, "model": model, "training": {"seq_length": 4096, "global_batch_size": 1, "precision": "bf16"}}, sections


def _resolved(job: Job, document: RlJobDocument, own: Sequence[Calibration], folder: Path | None) -> RlJob:
    section = document.post_training
    if why := why_not_served(job.workload.model):
        raise InputError(why)
    if section.prompts * section.samples > MAX_ANSWERS:
        raise InputError(
            Sentence(
                "post_training.prompts: {} x {} samples are more than {:,} answers a step.",
                section.prompts,
                section.samples,
                MAX_ANSWERS,
            )
        )
    profile = job.workload.cluster.profile
    if document.rollout.precision not in profile.matmul_flops_per_s and document.rollout.precision not in ("bf16", "fp16"):
        known = sorted(set(profile.matmul_flops_per_s) & {"bf16", "fp16", "fp8", "int8"})
        raise InputError(
            Sentence(
                "rollout.precision: {} has no matmul rate on {}; give one of {}.",
                show(document.rollout.precision),
                profile.name,
                joined(", ", known),
            )
        )
    lengths = _lengths(section.lengths, folder)
    return RlJob(
        job=job,
        section=section,
        layout=document.strategy,
        rollout=document.rollout,
        constants=constants_for(job.workload, own),
        lengths=lengths,
        drawn=draw_lengths(lengths, section.prompts, section.samples, section.lengths.seed),
    )


def _features(switches: Mapping[str, bool]) -> Feature:
    """The usual switches with those of a job. Raises ``InputError``."""
    found, by_name = DEFAULT_FEATURES, {str(feature.name).lower(): feature for feature in SWITCHES}
    for name, is_on in switches.items():
        if name not in by_name:
            raise unknown_name("strategy.switches", name, by_name, what=Sentence("switch"))
        found = found | by_name[name] if is_on else found & ~by_name[name]
    return found


def _lengths(section: LengthsSection, folder: Path | None) -> ResponseLengths:
    where = "post_training.lengths"
    if section.histogram is not None:
        pairs = _histogram(section.histogram, folder) if isinstance(section.histogram, str) else section.histogram
        weights = sum(pair[1] for pair in pairs)
        if weights <= 0.0:
            raise InputError(Sentence("{}.histogram: its weights add up to nothing.", where))
        values = tuple(max(int(pair[0]), 1) for pair in pairs), tuple(float(pair[1]) for pair in pairs)
        return ResponseLengths(0.0, 0.0, section.cap, section.group_share, values)
    if section.mean is None:
        raise InputError(Sentence("{}.mean: missing; give a mean, or a histogram.", where))
    if section.mean > section.cap:
        raise InputError(Sentence("{}.mean: {:g} is above the cap of {}.", where, section.mean, section.cap))
    if (section.quantile_level is None) != (section.quantile_length is None):
        raise InputError(Sentence("{}.quantile_level: give it together with quantile_length.", where))
    if section.quantile_level is not None and section.quantile_length is not None:
        if section.sigma is not None:
            raise InputError(Sentence("{}.sigma: given beside a quantile, which decides it; give one of the two.", where))
        return lengths_from_quantile(
            section.mean, section.cap, section.quantile_level, section.quantile_length, section.group_share
        )
    sigma = DEFAULT_SIGMA if section.sigma is None else section.sigma
    return lengths_from_mean(section.mean, section.cap, sigma, section.group_share)


def _histogram(name: str, folder: Path | None) -> list[list[float]]:
    """Pairs of length and weight from a CSV file; a first line of words is a header."""
    where = "post_training.lengths.histogram"
    if folder is None:
        raise InputError(
            Sentence("{}: {} is a file, and no file is read for a request; give pairs of length and weight.", where, show(name))
        )
    path = folder / name
    try:
        rows = list(csv.reader(read_text(path, DOCUMENT_BYTES * 4).splitlines()))
    except InputError as error:
        raise InputError(Sentence("{}: {}", where, error)) from None
    except csv.Error as error:
        raise InputError(Sentence("{}: {} cannot be read: {}.", where, path, error)) from None
    found = []
    for number, row in enumerate(rows[: MAX_HISTOGRAM + 1], start=1):
        try:
            pair = [float(row[0]), float(row[1]) if len(row) > 1 else 1.0]
        except (ValueError, IndexError):
            if number == 1:
                continue
            raise InputError(Sentence("{}: line {} of {} is no length and weight.", where, number, path)) from None
        if not (0.0 < pair[0] <= 1e9 and 0.0 <= pair[1] <= 1e15):
            raise InputError(Sentence("{}: line {} of {} is out of bounds.", where, number, path))
        found.append(pair)
    if not found:
        raise InputError(Sentence("{}: {} holds no length.", where, path))
    return found
