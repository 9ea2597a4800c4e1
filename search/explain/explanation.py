"""Explains a plan: its bottleneck, its difference from others, and the gain of one change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from cost_models.constants import Constants
from cost_models.memory.fit import FitRule
from cost_models.network.rank_placement import copied_shards, crossed_tier
from cost_models.shapes.canonical import canonical, group_size, layers_per_chunk, schedules_of
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined, word
from frameworks.accepted_switches import taken
from frameworks.legality import legal_mask
from frameworks.registry import usual_cp_algo
from search.placement.placer import Placer
from search.plans.estimator import Estimator
from search.space.enumeration import rules_before_placement
from search.space.recompute_modes import RecomputeMode
from search.space.search_space import SearchSpace

DEFAULT_PLACEMENT: Mapping[str, Any] = {"layer_layout": None, "mtp_before_head": 0}
GIB = 2.0**30

# Parts of the step in words; a name that is missing here is shown with spaces for underscores.
PART_NAMES = {
    "matmul": Sentence("matrix multiplication"),
    "vector": Sentence("vector work (norms, activations, residuals)"),
    "permute": Sentence("moving tokens to and from expert order"),
    "tp_comm": Sentence("tensor-parallel communication"),
    "cp_comm": Sentence("context-parallel communication"),
    "ep_comm": Sentence("expert communication"),
    "contention": Sentence("contention with hidden communication"),
    "dp_comm": Sentence("data-parallel communication"),
    "weight_gather": Sentence("gathering sharded weights"),
    "activation_swap": Sentence("swapping activations to the host"),
    "pipeline_p2p": Sentence("sends between pipeline stages"),
    "pipeline_bubble": Sentence("the pipeline bubble"),
    "host": Sentence("waiting for the host"),
    "size_synchronisation": Sentence("waiting for the sizes of expert exchanges"),
    "head_and_loss": Sentence("the output head and loss"),
}


def part_name(part: str) -> Sentence:
    """A part of the breakdown in words."""
    return PART_NAMES.get(part, word(part))


def bound_by(estimate: Mapping[str, Any]) -> str:
    """One sentence on where the time of an estimate goes and how much memory it leaves."""
    step_time_s, parts = estimate["step_time_s"], estimate["time_breakdown_s"]
    largest, *others = sorted(parts, key=lambda part: (-parts[part], part))
    then = [Sentence("{} ({:.0%})", part_name(part), parts[part] / step_time_s) for part in others[:2] if parts[part] > 0]
    sentence = Sentence("{} takes {:.0%} of the step", part_name(largest).capitalized(), parts[largest] / step_time_s)
    if then:
        sentence += Sentence(", then {}", joined(" and ", then))
    headroom, chance = estimate["headroom_bytes"] / GIB, estimate["fits_probability"]
    room = (
        Sentence("{:.1f} GiB of device memory stay free", headroom)
        if headroom >= 0
        else Sentence("{:.1f} GiB of device memory are missing", -headroom)
    )
    if not estimate["fits"] and headroom >= 0:
        room += Sentence(", too little to be sure of: it fits with a probability of {:.0%}", chance)
    return Sentence("{}; {}.", sentence, room)


def where_shards_lie(workload: Workload, strategy: ParallelStrategy) -> Sentence | None:
    """One sentence on the tiers that join shards and copies of them; ``None`` without copies."""
    tiers = workload.cluster.profile.tiers
    inside, between = copied_shards(StrategyBatch.of([strategy]))
    if between.size[0] == 1:
        return None
    domains = [tier.domain_devices for tier in tiers]
    shards, copies = (tiers[crossed_tier(group.size, group.stride, domains)[0]].name for group in (inside, between))
    if inside.size[0] == 1:
        return Sentence("{:,} copies are added through {}.", between.size[0], copies)
    return Sentence(
        "{:,} ranks share a copy through {}, and {:,} copies are added through {}.",
        inside.size[0],
        shards,
        between.size[0],
        copies,
    )


def compared(name: str, slower: Mapping[str, Any], faster: Mapping[str, Any], faster_name: str) -> str:
    """One sentence on why one estimate is slower than another, by the parts that differ most."""
    extra_s = slower["step_time_s"] - faster["step_time_s"]
    share = extra_s / faster["step_time_s"]
    if abs(share) < 5e-4:
        return Sentence("{} takes as long as {}, with {}.", name, faster_name, _memory_difference(slower, faster))
    reasons = losses_and_savings(slower, faster)
    if share >= 1.0:
        return Sentence("{} takes {:.2f} times as long as {}: it {}.", name, 1.0 + share, faster_name, reasons)
    return Sentence(
        "{} is {:.1%} {} than {}: it {}.",
        name,
        abs(share),
        Sentence("slower") if extra_s > 0 else Sentence("faster"),
        faster_name,
        reasons,
    )


def losses_and_savings(one: Mapping[str, Any], other: Mapping[str, Any], most: int = 2) -> str:
    """The parts of the step on which one estimate loses most, and saves most; ``most`` of each.

    Parts below a twentieth of the difference in time are left out, so the text may be empty.
    """
    extra_s = one["step_time_s"] - other["step_time_s"]
    parts = {
        part: one["time_breakdown_s"].get(part, 0.0) - other["time_breakdown_s"].get(part, 0.0)
        for part in dict.fromkeys([*one["time_breakdown_s"], *other["time_breakdown_s"]])
    }
    by_loss = sorted(parts, key=lambda part: (-parts[part], part))
    lost = [part for part in by_loss[:most] if parts[part] > abs(extra_s) / 20]
    saved = [part for part in by_loss[: -most - 1 : -1] if parts[part] < -abs(extra_s) / 20]
    reasons = []
    for is_lost, listed in ((True, lost), (False, saved)):
        if listed:
            seconds = joined(" and ", (Sentence("{:.3g} s on {}", abs(parts[part]), part_name(part)) for part in listed))
            reasons.append(Sentence("loses {}", seconds) if is_lost else Sentence("saves {}", seconds))
    return joined(", and ", reasons if extra_s > 0 else reasons[::-1])


def _memory_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    difference = (one["peak_memory_bytes"] - other["peak_memory_bytes"]) / GIB
    if abs(difference) < 0.05:
        return Sentence("the same memory")
    return Sentence("{:.1f} GiB {} memory", abs(difference), Sentence("more") if difference > 0 else Sentence("less"))


def changes(one: ParallelStrategy, other: ParallelStrategy) -> str:
    """The differences of ``other`` from ``one``, dimension by dimension."""
    words = []
    for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch_size"):
        before, after = getattr(one, name), getattr(other, name)
        if before != after:
            words.append(f"{name} {before} -> {after}")
    if one.schedule != other.schedule:
        words.append(Sentence("schedule {} -> {}", one.schedule.label, other.schedule.label))
    if one.microbatch_group_size_per_vp_stage != other.microbatch_group_size_per_vp_stage:
        words.append(Sentence("micro batches a chunk takes in turn {} -> {}", group_size(one), group_size(other)))
    words += _moved(one, other)
    if one.mtp_before_head != other.mtp_before_head:
        words.append(Sentence("MTP modules {} -> {} virtual stages before the head", one.mtp_before_head, other.mtp_before_head))
    if (one.cp_algo, one.ulysses_degree) != (other.cp_algo, other.ulysses_degree):
        words.append(Sentence("cp_algo {} -> {}", _cp_name(one), _cp_name(other)))
    if one.dispatcher != other.dispatcher:
        words.append(Sentence("dispatcher {} -> {}", one.dispatcher.label, other.dispatcher.label))
    if recompute_name(one) != recompute_name(other):
        words.append(Sentence("recompute {} -> {}", recompute_name(one), recompute_name(other)))
    if one.sequence_parallel != other.sequence_parallel:
        words.append(Sentence("sequence_parallel {} -> {}", _on(one.sequence_parallel), _on(other.sequence_parallel)))
    if one.zero_stage != other.zero_stage:
        words.append(Sentence("zero_stage {} -> {}", one.zero_stage, other.zero_stage))
    for feature in Feature:
        if (feature in one.features) != (feature in other.features):
            is_on = feature in one.features, feature in other.features
            words.append(Sentence("{} {} -> {}", str(feature.name).lower(), *map(_on, is_on)))
    return joined(", ", words)


def layers_text(layout: Sequence[Sequence[int]] | None) -> str:
    """Layers of the virtual stages in the order of the model, as ``count x layers``."""
    if layout is None:
        return Sentence("as usual")
    runs = [(sum(1 for _ in run), layers) for layers, run in groupby(layers for row in layout for layers in row)]
    return " ".join(f"{number}x{layers}" if number > 1 else str(layers) for number, layers in runs)


def _moved(one: ParallelStrategy, other: ParallelStrategy) -> list[str]:
    """The layers whose placement differs, on the same pipeline."""
    pipelines = [(strategy.pp, strategy.vpp, strategy.schedule) for strategy in (one, other)]
    if one.layer_layout == other.layer_layout or pipelines[0] != pipelines[1]:
        return []
    return [_layers_moved(one.layer_layout, other.layer_layout)]


def _layers_moved(before: Sequence[Sequence[int]] | None, after: Sequence[Sequence[int]] | None) -> str:
    return Sentence("layers of the virtual stages {} -> {}", layers_text(before), layers_text(after))


def recompute_name(strategy: ParallelStrategy) -> str:
    """The strategy's recompute in the grammar of ``recompute_modes.py``, or that it is by tensor."""
    if strategy.tensor_plan is not None:
        return Sentence("by tensor")
    if strategy.recompute_layers_per_stage is not None:
        return Sentence("layers_per_stage {}", ",".join(map(str, strategy.recompute_layers_per_stage)))
    mode = RecomputeMode(strategy.recompute, strategy.recompute_method, strategy.recompute_modules, strategy.recompute_num_layers)
    return mode.name


def _cp_name(strategy: ParallelStrategy) -> str:
    if strategy.cp_algo is CpAlgo.HYBRID:
        return Sentence("hybrid (ulysses_degree {})", strategy.ulysses_degree)
    return strategy.cp_algo.label


def _on(value: bool) -> str:
    return Sentence("on") if value else Sentence("off")


def neighbours(workload: Workload, space: SearchSpace, best: ParallelStrategy) -> list[ParallelStrategy]:
    """Legal canonical strategies that differ from ``best`` in one dimension: adjacent degrees, every other option.

    Neighbours with another pipeline have the default placement, whether or not the target can express it.
    """
    options = [replace(best, **DEFAULT_PLACEMENT)]
    for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "micro_batch_size"):
        values = sorted({*getattr(space, name), getattr(best, name)})
        place = values.index(getattr(best, name))
        options += [
            replace(best, **{name: value}) for value in (*values[max(place - 1, 0) : place], *values[place + 1 : place + 2])
        ]
    longest = layers_per_chunk(workload.model, best.pp, best.vpp)
    for mode in space.recompute:
        options.append(
            replace(
                best,
                recompute=mode.granularity,
                recompute_method=mode.method,
                recompute_modules=mode.modules,
                recompute_num_layers=mode.layers(longest),
            )
        )
    options += [replace(best, dispatcher=dispatcher) for dispatcher in space.dispatcher]
    options += [replace(best, cp_algo=algo, ulysses_degree=best.cp) for algo in space.cp_algo if algo is not CpAlgo.HYBRID]
    options += [replace(best, sequence_parallel=on) for on in space.sequence_parallel]
    options += [replace(best, zero_stage=stage) for stage in space.zero_stage]
    options += [_taken(workload, space, best, features=features) for features in space.features_with(best.schedule)]
    options += [replace(best, features=best.features ^ feature) for feature in space.wanted | space.leaner]
    options += [
        _taken(workload, space, best, schedule=schedule, features=_nearest(best.features, space.features_with(schedule)))
        for schedule in schedules_of(best.pp, best.vpp)
        if schedule in space.schedule and schedule is not best.schedule
    ]
    options += [replace(best, microbatch_group_size_per_vp_stage=size) for size in space.microbatch_group_size_per_vp_stage]
    distinct = dict.fromkeys(canonical(workload, _with_cp_algo(workload, _at_home(best, option))) for option in options)
    candidates = [option for option in distinct if option != best]
    if not candidates:
        return []
    legal = ~np.any([rule.violates(workload, StrategyBatch.of(candidates)) for rule in rules_before_placement(workload)], axis=0)
    return [option for option, is_legal in zip(candidates, legal, strict=True) if is_legal]


def _at_home(best: ParallelStrategy, option: ParallelStrategy) -> ParallelStrategy:
    """The option without the placement of ``best`` where it has another pipeline."""
    same = (option.pp, option.vpp, option.schedule) == (best.pp, best.vpp, best.schedule)
    return option if same else replace(option, **DEFAULT_PLACEMENT)


def _taken(workload: Workload, space: SearchSpace, best: ParallelStrategy, **changes: Any) -> ParallelStrategy:
    """The changed plan, with the switches that the space has on wherever the target takes them."""
    return taken(workload, canonical(workload, replace(best, **changes)), space.wanted)


def _nearest(features: Feature, combinations: Sequence[Feature]) -> Feature:
    """The combination of switches that differs in the fewest."""
    return min(combinations, key=lambda combination: int(combination ^ features).bit_count())


def _with_cp_algo(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """The neighbour with the target's usual algorithm, where ``best`` has no context parallelism."""
    if strategy.cp > 1 and strategy.cp_algo is CpAlgo.NONE:
        return replace(strategy, cp_algo=usual_cp_algo(workload.software.target))
    return strategy


def one_change(
    workload: Workload, space: SearchSpace, best: ParallelStrategy, constants: Constants, estimate: Estimator
) -> list[dict[str, Any]]:
    """The effect of each change of one dimension of ``best`` on step time and memory, fastest first, as JSON.

    ``delta_fraction`` is the step time over the step time of ``best``, minus 1.
    """
    placer, others = Placer(workload), neighbours(workload, space, best)
    moved = [option for option in others if (option.pp, option.vpp, option.schedule) != (best.pp, best.vpp, best.schedule)]
    placed = placer.best(constants, moved)
    others = [option for option in others if option not in moved] + placed
    others = [option for option, legal in zip(others, are_legal(workload, others), strict=True) if legal]
    named = {other: changes(best, other) for other in others}
    for other in placed:  # the numbers belong to that placement
        if other in named and other.layer_layout is not None:
            named[other] = joined(", ", [named[other], _layers_moved(None, other.layer_layout)])
    return priced_changes(workload, best, named, constants, estimate)


def priced_changes(
    workload: Workload,
    best: ParallelStrategy,
    others: Mapping[ParallelStrategy, str],
    constants: Constants,
    estimate: Estimator,
) -> list[dict[str, Any]]:
    """Step time and memory of changed strategies, by the name of the change, fastest first, as JSON."""
    if not others:
        return []
    names = list(others.values())
    priced = estimate(workload, StrategyBatch.of([best, *others]), constants)
    times, peaks, chances = priced.step_time_s, priced.peak_memory_bytes, priced.fits_probability
    return [
        {
            "change": names[row - 1],
            "step_time_s": float(times[row]),
            "delta_fraction": float(times[row] / times[0] - 1.0),
            "peak_memory_bytes": float(peaks[row]),
            "fits_probability": float(chances[row]),
            "fits": bool(priced.fits[row]),
        }
        for row in (np.argsort(times[1:], kind="stable") + 1).tolist()
    ]


def shortfall(peak_bytes: float, rule: FitRule) -> str:
    """The limit that a peak exceeds, in words that follow "needs X GiB of device memory"."""
    limit, kept = rule.memory_limit_bytes / GIB, (rule.memory_limit_bytes - rule.fit_limit_bytes) / GIB
    missing = Sentence("{:.1f} GiB too much: the limit is {:.1f} GiB", max(peak_bytes - rule.fit_limit_bytes, 0.0) / GIB, limit)
    if kept < 0.05:
        return missing
    wanted = Sentence(" of {:.1f} GiB of headroom", rule.min_headroom_bytes / GIB) if rule.min_headroom_bytes else ""
    return Sentence("{}, of which {:.1f} GiB are kept free to be {:g} % sure{}", missing, kept, 100 * rule.confidence, wanted)


def are_legal(workload: Workload, strategies: Sequence[ParallelStrategy]) -> Sequence[bool]:
    """Whether each strategy is legal; for an empty list too."""
    return legal_mask(workload, StrategyBatch.of(strategies)).tolist() if strategies else ()


def best_change(neighbouring: Sequence[Mapping[str, Any]], rule: FitRule) -> str:
    """One sentence on the fastest change of one dimension: its gain and the rule that forbids it."""
    faster = [entry for entry in neighbouring if entry["delta_fraction"] < -5e-4]
    if not faster:
        return Sentence("No change of a single dimension makes the step shorter.")
    entry = faster[0]
    gain = Sentence("With {} the step would be {:.1%} shorter", entry["change"], -entry["delta_fraction"])
    if entry["fits"]:
        return Sentence("{}; it fits, with a peak of {:.1f} GiB of device memory.", gain, entry["peak_memory_bytes"] / GIB)
    peak_bytes = entry["peak_memory_bytes"]
    return Sentence("{}, but it needs {:.1f} GiB of device memory, {}.", gain, peak_bytes / GIB, shortfall(peak_bytes, rule))
