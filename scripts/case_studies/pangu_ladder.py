"""Sections of the Pangu Ultra MoE case study on the ladder of published MFU, system by system, and on how it scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.software_options import OPTION_NAMES, SOFTWARE_OPTIONS, has_option
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from scripts.case_studies.pangu import (
    AS_PUBLISHED,
    JOB,
    LATER_MFU_FRACTION,
    LOOPED,
    MFU_FRACTION,
    TOKENS_PER_S,
    WITHIN_STRUCTURE,
    YEAR_OF_PUBLICATION,
    as_usual,
    flops_per_token,
    of_year,
    searched,
    with_expert_load,
    workload_of,
)
from scripts.case_studies.prices import exposed_fraction, layer_exchange, simulated
from scripts.pages.text import change, ends_text, gib, layout_text, memory_text, peak_text, percent, table
from search.tensor_choice.tensor_plan import with_tensors

FIRST, SECOND = sorted(TOKENS_PER_S)  # devices of the first system and of the published layout
FUSED_MATMULS = ["mc2", "coc"]  # fused with collectives of tensor parallelism; the quoted publications do not mention them
LADDER_YEAR = YEAR_OF_PUBLICATION - 1  # year of the software of the runs in a report of May
LEAN = Feature.MOE_ZERO_MEMORY | Feature.REUSE_FP32_PARAM
PACKS = ("flash-attention", "matmul", "vector")
SCALE = (512, 4096, 6144, 8192, 10240)  # devices; the batch is divisible by all of them
FIXED_BATCH = 30720
SUPERPOD = "atlas-900-a3-superpod"
EXPECTED_MFU_FRACTION = 0.5  # dies of Atlas 900 A3, CloudMatrix384 [pangu-ultra-moe-2]
Point = tuple[Workload, ParallelStrategy]
Turn = Callable[[Workload, ParallelStrategy], Point]


@dataclass(frozen=True)
class System:
    """The changes of one system; ``rung`` is the rung of the ladder that it was published with."""

    name: str
    switch: str
    published: str
    rung: int
    on: Turn


def _strategy(changed: Callable[[ParallelStrategy], ParallelStrategy]) -> Turn:
    return lambda workload, strategy: (workload, changed(strategy))


def _with(features: Feature) -> Callable[[ParallelStrategy], ParallelStrategy]:
    return lambda strategy: replace(strategy, features=strategy.features | features)


def _software(**options: tuple[str, ...]) -> Turn:
    """More operator packs, or more host options."""

    def turned(workload: Workload, strategy: ParallelStrategy) -> Point:
        software = workload.software
        for kind, names in options.items():
            had = {
                one.name for one in SOFTWARE_OPTIONS if one.kind == kind and has_option(one, software.operators, software.host)
            }
            software = replace(software, **{kind: tuple(name for name in OPTION_NAMES[kind] if name in {*had, *names})})
        return replace(workload, software=software), strategy

    return turned


SYSTEMS = (
    System(
        "hierarchical all-to-all",
        "`moe_dispatcher: hierarchical` for `alltoall`",
        "about 2x communication speed",
        2,
        _strategy(lambda s: replace(s, dispatcher=Dispatcher.HIERARCHICAL)),
    ),
    System("Adaptive Pipe", "`moe_comm_overlap`", "more than 98 % masked", 2, _strategy(_with(Feature.MOE_COMM_OVERLAP))),
    System(
        "memory surgery (Selective R/S)",
        "`micro_batch_size: 2`, and `strategy.tensor_plan` as `--memory-plan` chooses it, for the modules of the rows before",
        "more than 70 % of activations saved; with operators and host +20 %",
        2,
        _strategy(lambda s: replace(s, micro_batch_size=2)),
    ),
    System(
        "streams of the tiers",
        "`moe_tier_streams`",
        "part of the 2x",
        3,
        _strategy(_with(Feature.MOE_TIER_STREAMS)),
    ),
    System(
        "balanced experts (EDPB)",
        "a load factor of 1",
        "+25.5 %",
        3,
        lambda w, s: (with_expert_load(w, 1.0), s),
    ),
    System(
        "operators",
        "`software.operators`: " + ", ".join(f"`{name}`" for name in PACKS),
        "+15 %",
        3,
        _software(operators=PACKS),
    ),
    System(
        "accumulating matmuls (GMMAdd)",
        "`software.operators`: `accumulating-matmul`",
        "part of the operators",
        3,
        _software(operators=("accumulating-matmul",)),
    ),
    System(
        "host dispatch",
        "`software.host`: `no-synchronisation`",
        "+4 %, below 2 % host-bound",
        3,
        _software(host=("no-synchronisation",)),
    ),
)


MEMORY = SYSTEMS[2]


def with_systems(point: Point, systems: Sequence[System], otherwise: Turn = lambda w, s: (w, s)) -> Point:
    """The strategy with all systems, then with the changes of ``otherwise``; recompute of tensors is chosen last."""
    for system in systems:
        point = system.on(*point)
    workload, strategy = otherwise(*point)
    return workload, by_tensor(workload, strategy) if MEMORY in systems else strategy


def by_tensor(workload: Workload, strategy: ParallelStrategy) -> ParallelStrategy:
    """The strategy with the fastest choice of tensors that fits; unchanged if no choice fits."""
    answer = with_tensors(workload, strategy, constants_for(workload))
    return strategy if answer is None else answer.strategy


@cache
def ladder_workload(num_devices: int, batch: int | None = None) -> Workload:
    """The job with the software of the ladder, at one sequence a device by default."""
    return of_year(workload_of(num_devices, 8192, batch or num_devices), LADDER_YEAR)


@cache
def foot(num_devices: int = SECOND, batch: int | None = None) -> Point:
    """The published structure without any system, with the layer placement of the second rung."""
    workload = ladder_workload(num_devices, batch)
    rung = searched(ladder_workload(SECOND), {**AS_PUBLISHED, "forbid": FUSED_MATMULS}, top=1).plans[0].parallel
    off = LEAN | Feature.MOE_COMM_OVERLAP | Feature.MOE_SHARED_EXPERT_OVERLAP
    plain = replace(rung, dispatcher=Dispatcher.ALLTOALL, micro_batch_size=1, features=rung.features & ~off)
    return workload, replace(plain, dp=num_devices // (plain.tp * plain.pp * plain.cp))


def up_to(rung: int) -> list[System]:
    return [system for system in SYSTEMS if system.rung <= rung]


def price(point: Point) -> dict[str, Any]:
    workload, strategy = point
    return simulated(workload, [strategy])[0]


def mfu_of(workload: Workload, tokens_per_s: float) -> float:
    """MFU in the convention of the ladder: a full mask, prediction layer and head, the Cube peak."""
    peak = workload.cluster.profile.matmul_flops_per_s["bf16"]
    flops = flops_per_token(workload.model, workload.training.seq_length, "full")
    return tokens_per_s / workload.cluster.num_devices * flops / peak


def mfu(point: Point) -> float:
    return mfu_of(point[0], float(price(point)["tokens_per_s"]))


def published_mfu(rung: int) -> float:
    """MFU of the published tokens/s; for the last rung, which has none, the published MFU."""
    num_devices = {1: FIRST, 2: SECOND}.get(rung)
    return LATER_MFU_FRACTION if num_devices is None else mfu_of(ladder_workload(num_devices), TOKENS_PER_S[num_devices])


def gain(without: Point, having: Point) -> str:
    """Relative gain of throughput."""
    return change(float(price(without)["step_time_s"]) / float(price(having)["step_time_s"]) - 1)


def rung_row(name: str, point: Point, published: float | None, gains: tuple[str, str, str] = ("", "", "")) -> tuple[str, ...]:
    found = price(point)
    parts = found["time_breakdown_s"]
    host = (parts["host"] + parts["size_synchronisation"]) / found["step_time_s"]
    ours = mfu(point)
    return (
        name,
        *gains,
        f"{found['step_time_s']:.2f} s",
        f"{100 * ours:.1f}",
        "" if published is None else f"{100 * published:.1f}",
        "" if published is None else f"{ours / published:.2f}",
        percent(exposed_fraction(found)),
        percent(found["time_breakdown_s"]["contention"] / found["step_time_s"]),
        percent(host),
        peak_text(found),
    )


def ladder_rows() -> list[tuple[str, ...]]:
    ground, everything = foot(), with_systems(foot(), SYSTEMS)
    rows = [
        rung_row(f"**first rung**, {FIRST:,} devices", foot(FIRST), published_mfu(1)),
        rung_row(f"on {SECOND:,}", ground, None),
    ]
    for number, system in enumerate(SYSTEMS):
        now = with_systems(ground, SYSTEMS[: number + 1])
        first = gain(ground, with_systems(ground, [system]))
        last = gain(with_systems(foot(), [other for other in SYSTEMS if other is not system]), everything)
        ends = number + 1 == len(SYSTEMS) or SYSTEMS[number + 1].rung > system.rung
        name = f"+ {system.name}" + (f" = **{'second' if system.rung == 2 else 'third'} rung**" if ends else "")
        rows.append(rung_row(name, now, published_mfu(system.rung) if ends else None, (first, last, system.published)))
    return rows


def together(names: Sequence[str]) -> str:
    return gain(foot(), with_systems(foot(), [system for system in SYSTEMS if system.name in names]))


def ladder_section() -> str:
    header = (
        "in this order",
        "gain first in",
        "gain last in",
        "published gain",
        "step",
        "MFU, %",
        "published, %",
        "ratio",
        "expert communication exposed",
        "contention",
        "waiting for the host",
        "peak, GiB",
    )
    second, third = (with_systems(foot(), up_to(rung)) for rung in (2, 3))
    ratio = mfu(second) / published_mfu(2)
    top = mfu(third) / published_mfu(3)
    exchange = layer_exchange(*with_systems(foot(), [system for system in up_to(2) if system is not MEMORY]))
    fast = layer_exchange(
        *with_systems(foot(), [s for s in SYSTEMS if s.name in ("hierarchical all-to-all", "streams of the tiers")])
    )
    plain = layer_exchange(*foot())
    alone = layer_exchange(*with_systems(foot(), [SYSTEMS[0]]))
    switches = "\n".join(f"- **{system.name}**: {system.switch}." for system in SYSTEMS)
    workload, strategy = second
    causal = flops_per_token(workload.model, 8192, "causal") / flops_per_token(workload.model, 8192, "full")
    return f"""## The ladder

Published: {percent(MFU_FRACTION[FIRST])} on {FIRST:,} NPUs, {percent(MFU_FRACTION[SECOND])} on {SECOND:,},
and {percent(LATER_MFU_FRACTION)} less than a month later, with the systems below. The table makes the same
climb. Each row is a job and a plan that differ from the row above in one system, which is a switch or a field
that a user may set. *First in* is the gain of a system alone at the foot (on {SECOND:,} devices). *Last in*
is the loss of the top without it. Both are throughput; a gain is the difference of two estimates.

{table(header, ladder_rows())}
{switches}

**MFU** is in one convention, under which both published throughputs have their published MFU: a full mask,
prediction layer and head, the Cube peak, sequences of 8,192. {TOKENS_PER_S[FIRST] / 1e6:.2f} M tokens/s are
then {percent(published_mfu(1))} and {TOKENS_PER_S[SECOND] / 1e6:.2f} M are {percent(published_mfu(2))}. We
assume it for the {percent(LATER_MFU_FRACTION)} as well, whose tokens/s are not published. The convention of
the rest of this page, a causal mask, gives {percent(causal)} of it.

**Against the published gains.** The exchange of a layer alone is {plain.total_s / alone.total_s:.2f} times as fast when it is
hierarchical, {plain.total_s / fast.total_s:.2f} times with streams of the tiers (published: about 2). A merged pair masks
{percent(1 - exchange.left_s / exchange.total_s)} of its own; over the step more is exposed, because warm-up and cool-down have no
partner (published: more than 98 %). At the foot Adaptive Pipe and balance together gain
{together(("Adaptive Pipe", "balanced experts (EDPB)"))} (published: +72.6 %), operators and host
{together(("operators", "host dispatch"))}, with memory
{together(("operators", "host dispatch", "memory surgery (Selective R/S)"))} (published: +20 %). The plan of the second rung saves
{percent(saved_fraction(second))} of the activations that it would keep without recompute (published: more than 70 %).

**The second rung** comes to {percent(mfu(second))}, {ratio:.2f} of the published, with {layout_text(strategy)},
{tensor_text(second)}. **The third** comes to {percent(mfu(third))}, {top:.2f} of the published. {third_text(top)}

{assumption_text()}
"""


def saved_fraction(point: Point) -> float:
    """Saved share of the activations in flight, against the same plan without recompute and ``moe_zero_memory``."""
    workload, strategy = point
    kept_all = parse_job({**JOB, "strategy": {"recompute": "none"}}).strategy
    assert kept_all is not None
    names = ("recompute", "recompute_method", "recompute_modules", "recompute_num_layers")
    plain = replace(
        strategy,
        **{name: getattr(kept_all, name) for name in names},
        tensor_plan=None,
        features=strategy.features & ~Feature.MOE_ZERO_MEMORY,
    )

    def held(one: ParallelStrategy) -> float:
        parts = price((workload, one))["memory_breakdown_bytes"]
        return sum(float(b) for name, b in parts.items() if name.startswith(("activations", "recompute_checkpoints")))

    return 1.0 - held(strategy) / held(plain)


def tensor_text(point: Point) -> str:
    """The tensors that a plan moves, their cost, and their bytes on the host."""
    workload, strategy = point
    answer = with_tensors(workload, strategy, constants_for(workload))
    if answer is None:
        return memory_text(workload, strategy)
    return (
        f"tensors chosen for {1e3 * max(answer.added_s):.1f} ms a micro batch on the rank that pays most, with "
        f"{gib(answer.host_bytes)} GiB a device on the host"
    )


def third_text(ratio: float) -> str:
    lacks = """Not in it, though
published: the cost of moving experts and a balance that stays imperfect (a load factor of 1 is the bound), balance of attention
over replicas, and
operators that are faster on the first rungs already, of which nothing is published."""
    if ratio > 1:
        return (
            f"The systems at their published factors, each at its bound, explain more than the step from the second rung. {lacks}"
        )
    return f"The systems at their published factors do not explain all of it. {lacks}"


def assumptions() -> list[tuple[str, Callable[[Sequence[System]], Point]]]:
    """The assumptions, each changed in turn."""

    def other(changed: Turn) -> Callable[[Sequence[System]], Point]:
        return lambda systems: with_systems(foot(), systems, changed)

    def sequence(workload: Workload, strategy: ParallelStrategy) -> Point:
        training = replace(workload.training, seq_length=4096)
        return replace(workload, training=training), strategy

    def batch(factor: float) -> Turn:
        def turned(workload: Workload, strategy: ParallelStrategy) -> Point:
            size = int(factor * workload.training.global_batch_size)
            return replace(workload, training=replace(workload.training, global_batch_size=size)), strategy

        return turned

    def grouped(workload: Workload) -> Workload:
        """Loads before balance; an even load stays even."""
        spread = workload.training.expert_spread
        other = spread and workload.model.expert_spread(RouterBalance.EP_GROUP)
        return replace(workload, training=replace(workload.training, expert_spread=other))

    def modules(systems: Sequence[System]) -> Point:
        """The recompute of the foot, with the memory savings of the second rung."""
        workload, strategy = with_systems(foot(), [system for system in systems if system is not MEMORY])
        lean = replace(_with(LEAN)(strategy), micro_batch_size=2)
        return workload, lean if MEMORY in systems else strategy

    return [
        ("software of the newest releases", other(lambda w, s: (of_year(w, YEAR_OF_PUBLICATION), s))),
        ("layers where they lie unless told", other(_strategy(as_usual))),
        ("`mc2` as well", other(_strategy(_with(Feature.MC2)))),
        ("half the global batch", other(batch(0.5))),
        ("twice the global batch", other(batch(2.0))),
        ("sequences of 4,096", other(sequence)),
        ("modules in place of tensors", modules),
        ("an even router from the foot on", other(lambda w, s: (with_expert_load(w, 1.0), s))),
        ("balance by a loss over each EP group", other(lambda w, s: (grouped(w), s))),
        ("micro batch 1 throughout", other(_strategy(lambda s: replace(s, micro_batch_size=1)))),
    ]


def assumption_text() -> str:
    now = [mfu(with_systems(foot(FIRST if rung == 1 else SECOND), up_to(rung))) for rung in (1, 2, 3)]
    rows = []
    for name, point in assumptions():
        moved = [mfu(point(up_to(rung))) for rung in (1, 2, 3)]
        rows.append((name, *(f"{100 * value:.1f} ({change(value / base - 1)})" for value, base in zip(moved, now, strict=True))))
    workload, strategy = with_systems(foot(), up_to(2))
    header = ("otherwise", "MFU at the foot, %", "second rung, %", "third rung, %")
    spread = workload.training.expert_spread
    assert spread is not None
    load = float(spread.load_factor(strategy.ep))
    return f"""**Assumptions.** No constant was fitted to a rung. But values that are not published had to be assumed. The
table below shows that other choices move a rung by up to a quarter: that all three come near proves no single
part. These are assumed:

- the placement of layers (best of all placements of the second rung: {ends_text(workload.model, strategy)} on
  the last virtual stages);
- the batch ({SECOND:,} sequences);
- the recompute before memory surgery (what fits and is fastest by module). Published is only that tensors are
  chosen, not which: here those that take least time;
- the load of the experts before balance ({load:.2f} times the mean on the fullest of {strategy.ep} ranks);
- that matmuls are not fused with collectives (`mc2`, which the publications as quoted do not mention);
- the age of the operators: software is that of {LADDER_YEAR:.0f}. The reports are of May 2025, their runs are
  older, and faster operators are a system of the last rung, which releases of 2025 would count twice.

The rest of this page has the newest release. The table changes one assumption at a time, all else as in the
ladder:

{table(header, rows)}
{superpod_text()}"""


def superpod_text() -> str:
    """Text on the top of the ladder, on dies of a supernode."""
    structure = {name: value for name, value in {**WITHIN_STRUCTURE, **LOOPED}.items() if name != "micro_batch_size"}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("the published structure", {**structure, "forbid": FUSED_MATMULS}),
        ("the same with `mc2`", structure),
        ("a structure of its own", {**LOOPED, "forbid": FUSED_MATMULS}),
    ]
    rows = []
    for name, limits in kinds:
        cells = []
        for year in (LADDER_YEAR, YEAR_OF_PUBLICATION):
            workload = superpod_workload(year)
            found = searched(workload, limits, top=1).plans[0].parallel
            fastest = max(((workload, found), (workload, by_tensor(workload, found))), key=mfu)
            cells += [layout_text(fastest[1]), f"{100 * mfu(fastest):.1f}"]
        rows.append((name, *cells))
    header = ("at its best", f"layout, software of {LADDER_YEAR:.0f}", "MFU, %", "layout, newest releases", "MFU, %")
    return f"""On {SECOND:,} dies of {SUPERPOD} (Atlas 900 A3, CloudMatrix384), with experts, operators and host as on the
third rung, an MFU of more than {percent(EXPECTED_MFU_FRACTION)} is published as an expectation. The layout of
the older product does not use the supernode: its fabric carries wider expert groups, and it has memory for
shorter pipelines.

{table(header, rows)}"""


@cache
def superpod_workload(year: float) -> Workload:
    """The job of the third rung on dies of the supernode, with software of a year."""
    document = {**JOB, "cluster": {"hardware": SUPERPOD, "num_devices": SECOND}}
    workload, _ = with_systems((of_year(parse_job(document).workload, year), foot()[1]), [s for s in SYSTEMS if s is not MEMORY])
    return workload


def scale_section() -> str:
    """Section on throughput per device on more devices, relative to the fewest."""
    rows = []
    for num_devices in SCALE:
        cells = [f"{num_devices:,}"]
        for rung in (1, 2, 3):
            for batch in (lambda n: n, lambda n: FIXED_BATCH):
                each = [
                    float(price(with_systems(foot(n, batch(n)), up_to(rung)))["tokens_per_s"]) / n for n in (num_devices, FIRST)
                ]
                cells.append(percent(each[0] / each[1]))
        rows.append(tuple(cells))
    header = ["devices"]
    for rung in ("first", "second", "third"):
        header += [f"{rung} rung, a sequence a device", f"{rung} rung, {FIXED_BATCH:,} sequences"]
    far = float(price(with_systems(foot(8192), up_to(2)))["tokens_per_s"]) / 8192
    near = float(price(with_systems(foot(512), up_to(2)))["tokens_per_s"]) / 512
    return f"""## From 4K to 10K devices

The table shows throughput of a device over that on {FIRST:,}, with a batch that grows with the devices, and
with one that does not. With a batch that grows, the loss is the slowest of more nodes and the exchange of
gradients and weights. With a fixed one, fewer micro batches fill the pipeline. Published
(`huawei-linearity`): 95.05 % for a mixture of 718B on 8K devices, from a base that is not stated, and 96 %
for a dense model of 135B on 4K. From 512 to 8,192 devices the second rung keeps {percent(far / near)} here.
Not priced are groups that contend for the fabric, jitter beyond the slowest node, and the cost of failures.

{table(header, rows)}"""
