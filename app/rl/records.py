"""A measured record as a step that can be priced, with the assumptions for missing values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from app.calibrations.constants import constants_for
from app.rl.models import model_of, trained_window
from calibration.records.post_training import Degrees, Placed, PostTrainingRecord
from cost_models.constants import Constants
from cost_models.post_training.lengths import DEFAULT_SIGMA, draw_lengths, lengths_from_mean
from cost_models.post_training.placements import PlacementKind, Staleness
from cost_models.post_training.step import Algorithm, PostTraining
from cost_models.serving.engine import Engine, ServingLayout, ServingWorkload
from cost_models.serving.memory import kv_capacity_tokens
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.traits import default_stack
from cost_models.shapes.workload import Cluster, ModelShape, Software, TrainingJob, Workload
from documents.errors import InputError, show
from documents.sentences import Sentence
from hardware_profiles.catalogue import named
from hardware_profiles.schema import HardwareProfile
from search.post_training.layouts import (
    best_training_layout,
    default_rollout_layout,
    roomy_fraction,
    strategy_of,
    training_layouts,
)

# Values for fields that a record leaves out; each use is listed with the row.
PROMPTS, SAMPLES = 256, 16
DAPO_ANSWERS_PER_UPDATE = 512  # 16 updates a step of 512 prompts x 16 [dapo, section 4.1]; others update once [deepseekmath]
MEAN_OF_WINDOW = (
    0.4  # mean answer over the shorter of cap and trained window: 0.34 to 0.41 of three math workloads [seer; verl-docs]
)
LONGEST_CAP = 16_384  # tokens, if a source gives none: the median of those that do, 1,024 to 98,304
PROMPT_TOKENS = 150.0  # prompts of mathematics: 100 to 150 in NeMo RL's table [nemo-rl]
SOFTWARE_YEAR = 2025.5
NARROW_BYTES = 1.5  # bytes per parameter below which weights are in 8 bits
OWN_MEMORY_FRACTION = 0.9
SHARED_MEMORY_FRACTION = 0.6  # median of what MindSpeed-RL's colocated recipes state [mindspeed-rl]


@dataclass
class Assumed:
    """Sentences on values that a record does not give."""

    sentences: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a sentence."""
        self.sentences.append(text)


def profile_of(record: PostTrainingRecord, assumed: Assumed) -> HardwareProfile:
    """The hardware that the record describes; ``InputError`` if it names none."""
    if record.hardware is None:
        raise InputError(Sentence("hardware: {} names no known device.", show(record.hardware_text)))
    if record.hardware_text.lower() != record.hardware:
        assumed.note(Sentence("hardware = {} (of {})", record.hardware, show(record.hardware_text)))
    return named(record.hardware)


def step_of(record: PostTrainingRecord, assumed: Assumed) -> PostTraining:
    """The step of an ``rl_step`` or ``rollout`` record; ``InputError``, ``WorkloadError`` or ``InfeasibleError`` without one."""
    model, profile = model_of(record.model), profile_of(record, assumed)
    if record.devices is None:
        raise InputError(Sentence("devices: missing; a step needs to know how many devices it has."))
    placed = record.placed
    rollout_devices, train_devices = _pools(record, placed, assumed)
    algorithm_text = record.algorithm
    prompts, samples = _batch(record, assumed)
    lengths, prompt_tokens, cap = _lengths(record, model, prompts, samples, assumed)
    updates = _updates(record, prompts * samples, assumed)
    workload = _workload(record, model, profile, train_devices, assumed)
    constants = constants_for(workload)
    sequences = np.rint(lengths.ravel() + prompt_tokens).astype(np.int64)
    pack = int(cap + prompt_tokens)
    strategy = _strategy(
        record.train, workload, constants, sequences, pack, updates, assumed, recomputes=placed.kind != PlacementKind.SEPARATE
    )
    serving, layout = _rollout(record, model, profile, rollout_devices, workload, assumed)
    return PostTraining(
        training=workload,
        strategy=strategy,
        constants=constants,
        serving=serving,
        layout=layout,
        lengths=lengths,
        prompt_tokens=prompt_tokens,
        placement=PlacementKind(placed.kind),
        staleness=_staleness(placed, assumed),
        algorithm=Algorithm(
            reference="dapo" not in algorithm_text and "decoupled" not in algorithm_text,
            critic="critic" in algorithm_text,
            reward_model="reward model" in algorithm_text,
            num_updates=updates,
        ),
        pack_length=pack,
        max_requests=record.rollout.max_num_seqs,
        memory_fraction=record.rollout.memory_fraction or roomy_fraction(serving, layout, _memory_fraction(record)),
    )


def _memory_fraction(record: PostTrainingRecord) -> float:
    """Fraction of a device's memory for rollout: the stated value, or a default that is smaller if training shares the device."""
    shared = record.placed.kind != PlacementKind.SEPARATE
    return record.rollout.memory_fraction or (SHARED_MEMORY_FRACTION if shared else OWN_MEMORY_FRACTION)


def _pools(record: PostTrainingRecord, placed: Placed, assumed: Assumed) -> tuple[int, int]:
    devices = record.dies or 1
    if placed.kind == PlacementKind.FULLY_COLOCATED:
        return devices, devices
    if placed.rollout_devices and placed.train_devices:
        return (devices if placed.kind == PlacementKind.HYBRID else placed.rollout_devices), placed.train_devices
    half = max(devices // 2, 1)
    assumed.note(Sentence("split = {} devices roll out, {} train: the record does not say", half, devices - half or 1))
    return half, max(devices - half, 1)


def _batch(record: PostTrainingRecord, assumed: Assumed) -> tuple[int, int]:
    prompts, samples, whole = record.prompts, record.samples, record.trajectories
    if samples is None and prompts and whole and whole % prompts == 0:
        samples = whole // prompts
    if samples is None:
        samples = SAMPLES
        assumed.note(f"samples_per_prompt = {samples}")
    if prompts is None:
        prompts = max(whole // samples, 1) if whole else PROMPTS
        assumed.note(f"prompts_per_step = {prompts}")
    return prompts, samples


def _lengths(
    record: PostTrainingRecord, model: ModelShape, prompts: int, samples: int, assumed: Assumed
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], float, int]:
    prompt = record.mean_prompt
    if prompt is None:
        prompt = min(PROMPT_TOKENS, float(record.max_prompt or PROMPT_TOKENS))
        assumed.note(Sentence("mean prompt = {:.0f} tokens", prompt))
    cap = record.max_response
    if cap is None and record.max_sequence is not None:
        cap = max(int(record.max_sequence - prompt), 1)
    if cap is None:
        cap = max(min(trained_window(model), LONGEST_CAP), int(record.mean_response or 1))
        assumed.note(f"max_response_length = {cap}")
    mean = record.mean_response
    if mean is None:
        mean = MEAN_OF_WINDOW * min(cap, trained_window(model))
        assumed.note(
            Sentence(
                "mean response = {:.0f} tokens: {:g} x the shorter of the cap and the model's trained window",
                mean,
                MEAN_OF_WINDOW,
            )
        )
    assumed.note(Sentence("sigma of ln(length) = {:g}: no source publishes quantiles", DEFAULT_SIGMA))
    drawn = draw_lengths(lengths_from_mean(min(mean, cap), cap), prompts, samples)
    return drawn, prompt, cap


def _updates(record: PostTrainingRecord, answers: int, assumed: Assumed) -> int:
    each = record.train_batch
    if each is None:
        each = DAPO_ANSWERS_PER_UPDATE if "dapo" in record.algorithm else answers
        assumed.note(Sentence("answers an optimizer step = {}", min(each, answers)))
    return max(round(answers / each), 1)


def _workload(
    record: PostTrainingRecord, model: ModelShape, profile: HardwareProfile, devices: int, assumed: Assumed
) -> Workload:
    stack = "fsdp" if record.train.fsdp and profile.family != "ascend" else default_stack(profile.family)
    precision = "fp8" if "fp8" in record.precision and "fp8" in profile.matmul_flops_per_s else "bf16"
    return Workload(
        model=model,
        training=TrainingJob(seq_length=4096, global_batch_size=1, precision=precision),
        cluster=Cluster(profile, devices),
        software=Software(stack, year=SOFTWARE_YEAR),
    )


def _strategy(
    given: Degrees,
    workload: Workload,
    constants: Constants,
    sequences: np.ndarray[tuple[int], np.dtype[np.int64]],
    pack: int,
    updates: int,
    assumed: Assumed,
    *,
    recomputes: bool,
) -> ParallelStrategy:
    """The stated layout, or the fastest that fits; with recompute if rollout shares the memory or memory is short."""
    zero = 3 if given.fsdp else None
    stated = []
    if given.is_stated:
        stated = [
            found
            for recompute in ((True,) if recomputes else (False, True))
            if (
                found := strategy_of(
                    workload.model,
                    workload.cluster.num_devices,
                    tp=given.tp or 1,
                    pp=given.pp or 1,
                    cp=given.cp or 1,
                    ep=given.ep or 1,
                    vpp=given.vpp or 1,
                    zero_stage=zero or 1,
                    recompute=recompute or given.recompute,
                )
            )
        ]
        if not stated:
            assumed.note(
                Sentence("the stated training layout does not divide the training devices: the fastest that fits is taken")
            )
    candidates = stated or [
        layout for layout in training_layouts(workload, zero_stage=zero) if not recomputes or layout.recompute is Recompute.FULL
    ]
    strategy, times = best_training_layout(
        workload,
        candidates,
        constants,
        sequences,
        pack_length=pack,
        num_updates=updates,
    )
    if not stated:
        assumed.note(
            Sentence(
                "training layout = tp {}, pp {}, cp {}, ep {}, dp {}: the fastest that fits",
                strategy.tp,
                strategy.pp,
                strategy.cp,
                strategy.ep,
                strategy.dp,
            )
        )
    if not times.fits:
        assumed.note(Sentence("states beyond the devices' memory are kept on the hosts"))
    return strategy


def _rollout(
    record: PostTrainingRecord,
    model: ModelShape,
    profile: HardwareProfile,
    devices: int,
    workload: Workload,
    assumed: Assumed,
) -> tuple[ServingWorkload, ServingLayout]:
    text = record.precision
    precision = next((name for name in ("fp8", "int8") if name in text or (name == "int8" and "w8a8" in text)), "bf16")
    if record.model_bytes is not None and record.model_bytes < NARROW_BYTES * num_parameters(model).total:
        precision = "fp8" if "fp8" in profile.matmul_flops_per_s else "int8"
        assumed.note(Sentence("rollout precision = {}: the model is kept in {:,.0f} GB", precision, record.model_bytes / 1e9))
    if precision not in profile.matmul_flops_per_s and precision != "int8":
        precision = "bf16"
    engine = Engine(precision=precision, graph=profile.family != "ascend")
    serving = ServingWorkload(model, Cluster(profile, devices), constants_for(workload), engine)
    layout = _layout(record.rollout, model, devices)
    longest = float(record.max_response or record.max_sequence or record.mean_response or LONGEST_CAP)
    while layout is not None and not _holds(serving, layout, longest):
        wider = _wider(layout, model, devices)
        if wider is not None:
            assumed.note(Sentence("rollout tp = {}: the stated instance has no room for a sequence in {}", wider.tp, precision))
        layout = wider
    if layout is None:
        layout = default_rollout_layout(serving, memory_fraction=_memory_fraction(record))
        assumed.note(
            Sentence(
                "rollout instance = tp {}, ep {}, {} devices: the smallest with room for a cache",
                layout.tp,
                layout.ep,
                layout.num_devices,
            )
        )
    return serving, layout


def _holds(serving: ServingWorkload, layout: ServingLayout, tokens: float) -> bool:
    return kv_capacity_tokens(serving, layout, utilisation=OWN_MEMORY_FRACTION, requests=1.0) >= tokens


def _wider(layout: ServingLayout, model: ModelShape, devices: int) -> ServingLayout | None:
    """The instance with attention on twice the devices; experts are spread as before, or over twice as many."""
    tp = layout.tp * 2
    spread = layout.ep > 1 and layout.dp % 2 == 0
    wider = (
        replace(layout, tp=tp, dp=layout.dp // 2) if spread else replace(layout, tp=tp, ep=1 if layout.ep == 1 else layout.ep * 2)
    )
    return None if model.num_attention_heads % tp or wider.num_devices > devices else wider


def _layout(given: Degrees, model: ModelShape, devices: int) -> ServingLayout | None:
    """The stated instance; ``None`` if none is stated, or it does not fit the model."""
    tp, pp = given.tp, given.pp or 1
    experts = given.ep or 1
    if tp is None and given.ep is None and given.instance_devices is None:
        return None
    tp = tp or (1 if given.ep or given.dp else given.instance_devices or 1)
    if model.num_attention_heads % tp or tp * pp > devices:
        return None
    if model.moe is None or experts <= 1:
        dp = given.dp if given.dp and given.instance_devices == given.dp * tp else 1
        return ServingLayout(tp=tp, pp=pp, dp=dp)
    if experts % tp:
        return None
    return ServingLayout(tp=tp, pp=pp, dp=experts // tp, ep=experts)


def _staleness(placed: Placed, assumed: Assumed) -> Staleness:
    if placed.kind == PlacementKind.FULLY_COLOCATED:
        return Staleness()
    if placed.unbounded:
        assumed.note(Sentence("staleness: any number of steps, as the record names no bound"))
    steps = None if placed.unbounded else placed.steps or 0
    return Staleness(steps, placed.partial or placed.unbounded, placed.leftover_fraction, placed.streams)
