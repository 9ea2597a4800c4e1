"""Writes docs/case-studies/pangu-ultra-moe.md: the published layout of Pangu Ultra MoE 718B under the shipped calibration."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.calibrations.constants import paired_error_of
from calibration.files.calibrations import calibration_for
from cost_models.constants import CONSTANTS
from cost_models.layer.compute import release_years
from cost_models.layer.expert_communication import inter_domain_copies
from cost_models.schedules.one_f_one_b import num_warmup_forwards
from cost_models.schedules.schedule import PipelineShape
from cost_models.shapes.strategy import ParallelStrategy, Schedule
from cost_models.shapes.workload import Workload
from frameworks.legality import violations
from frameworks.registry import TARGETS
from scripts.case_studies.pangu import (
    DISPATCHERS,
    LATER_MFU_FRACTION,
    LOOPED,
    MODES,
    NEARBY,
    ON_ASCEND,
    STACK,
    STRUCTURE,
    SWAPS,
    TOKENS_PER_S,
    best_nearby,
    best_published,
    placed,
    published,
    searched,
    what_ifs,
    with_expert_load,
    with_tier_streams,
    workload_of,
)
from scripts.case_studies.pangu_ladder import ladder_section, scale_section
from scripts.case_studies.pangu_placement import degree_section, placement_section
from scripts.case_studies.pangu_tensors import by_tensor_text
from scripts.case_studies.pangu_throughput import batch_section, throughput_section
from scripts.case_studies.prices import exposed_fraction, layer_exchange, simulated
from scripts.pages.text import (
    change,
    gib,
    layout_text,
    memory_text,
    million,
    peak_text,
    percent,
    schedule_text,
    table,
    wrapped,
)
from search.explain.explanation import compared, part_name
from search.plans.plan import DeploymentPlan, strategy_to_mapping
from search.ranking.ties import rank_groups
from search.results.search_result import SearchResult

PAGE = ROOT / "docs" / "case-studies" / "pangu-ultra-moe.md"
RANKED = 40  # number of structures among which the published one is looked for
SAME_MEMORY = ("layernorm+mlp_act+mla_up_proj", ("moe_zero_memory",))  # a setting with the same meaning under every schedule
SHOWN_CONSTANTS = ("matmul_fraction", "expert_comm_factor", "cross_entropy_bytes", "hidden_stretch_fraction")

HEAD = """# Case study: the layout of Pangu Ultra MoE 718B

<!-- Written by scripts/case_studies/write_pangu.py (`make docs`); do not edit. -->

Huawei published the layout in which Pangu Ultra MoE 718B was trained on about 6,000 Atlas 800T A2 NPUs, the systems that made
it fast, and the throughput. A simulation-driven search chose the layout. This page asks five questions about it. Is it legal?
Does it fit? What does each system gain? Where does the layout rank? Why is it not first? Nothing was tuned to make it first,
and no run of this model is among those that calibrate the estimates.

Made by `scripts/case_studies/write_pangu.py` with the shipped {family} calibration: {fitted} of {constants} constants fitted
to {runs} runs by `{command}`, among them {values}. All times are those of simulated steps on {devices:,} devices and, where
nothing else is said, {batch:,} sequences of {seq:,} tokens a step, under software of {year}, as which a job is priced that
does not say of which year it is.
"""


def head(workload: Workload) -> str:
    found = calibration_for(workload)
    return HEAD.format(
        family=found.family,
        fitted=len(found.fitted),
        constants=len(CONSTANTS),
        runs=found.num_runs,
        command=found.command,
        values=", ".join(f"`{name}` {getattr(found.constants, name):.4g}" for name in SHOWN_CONSTANTS),
        devices=workload.cluster.num_devices,
        seq=workload.training.seq_length,
        batch=workload.training.global_batch_size,
        year=release_years(workload)[0],
    )


def publication_section() -> str:
    rows = [
        ("layout", "TP8, PP16, VPP2, EP32 (EP4, which tp extends to 32 ranks), micro batch 2", "`pangu-ultra-moe`"),
        (
            "hierarchical all-to-all",
            "between nodes, then inside, on streams of their own: about twice as fast",
            "`pangu-ultra-moe-2`",
        ),
        (
            "Adaptive Pipe",
            "more than 98 % of expert communication hidden on virtual stages, half of DualPipe's weight memory",
            "`pangu-ultra-moe-2`",
        ),
        ("balance (EDPB)", "+25.5 %; with Adaptive Pipe +72.6 %", "`pangu-ultra-moe-2`"),
        ("memory", "selective recompute and swap, from modules to tensors", "`pangu-ultra-moe-2`"),
        ("first system, 4K NPUs", "0.61 M tokens/s, MFU 18.9 %", "`pangu-ultra-moe`"),
        ("this layout, 6K NPUs", "1.46 M tokens/s, MFU 30.0 %", "`pangu-ultra-moe`"),
        ("later system, sequence 8K", f"MFU {percent(LATER_MFU_FRACTION)}", "`pangu-ultra-moe-2`"),
    ]
    return f"""## What was published

{table(("what", "published", "source"), rows)}
Sources are keys of [references.md](../references.md); the second one is coverage, not the report. Not published: the global
batch, the sequence of the first two throughputs, the recomputed modules and swapped tensors, and the convention of MFU. *6K*
and *4K* are read as 6,144 and 4,096.
"""


def legality_section(workload: Workload) -> str:
    plan = published("none")
    best = best_published(workload).parallel
    moved = replace(plan, layer_layout=best.layer_layout, mtp_before_head=best.mtp_before_head)
    others = published("none", []), published("none", dispatcher="alltoall"), moved
    rows = []
    for target in TARGETS:
        cells = ["; ".join(f"`{v.rule}`" for v in violations(workload, s, target)) or "legal" for s in (plan, *others)]
        if target.families and workload.cluster.profile.family not in target.families:
            cells = ["does not run on these devices", "", "", ""]
        rows.append((f"`{target.label}`", *cells))
    mapping = strategy_to_mapping(workload, plan)
    layout, noops = mapping["layer_layout"], mapping["noop_layers"]
    slots = max(map(max, layout))
    ranks = [sum(chunk[rank] for chunk in layout) for rank in range(plan.pp)]
    header = (
        "target",
        "hierarchical, merged pairs",
        "hierarchical alone",
        "plain all-to-all, merged pairs",
        "hierarchical, merged pairs, best placement",
    )
    return f"""## Is it legal

{table(header, rows)}
A cell names the broken [rules](../legality.md). The {workload.model.num_layers} layers fill {plan.pp * plan.vpp} virtual
stages of {slots} slots. By default the {noops} remaining slots hold no-op layers, on the last ranks, which also run the output
head and the multi-token-prediction layer: {ranks[0]} layers on the first rank, {ranks[-2]} and {ranks[-1]} on the last two.
The last column has the best placement (below).

So the recipe is legal for `any`, the physics alone, and no public release combines it. Hierarchical dispatch is in MindSpeed
core_r0.8.0 only. Merging a forward with the backward of another micro batch (Adaptive Pipe there, `moe_comm_overlap` here and
`--moe-fb-overlap` in MindSpeed) excludes it.
"""


def memory_section(workload: Workload) -> str:
    cells = [(size, swap) for size in (1, 2) for swap in SWAPS]
    grid = placed(
        workload, [published(mode, (*STACK, *SWAPS[swap]), micro_batch_size=size) for mode in MODES for size, swap in cells]
    )
    found = simulated(workload, grid)
    shown = [peak_text(e) for e in found]
    rows = [(f"`{mode}`", *shown[index * len(cells) : (index + 1) * len(cells)]) for index, mode in enumerate(MODES)]
    each = len(MODES) * len(SWAPS)
    one, two = (sum(e["fits"] for e, s in zip(found, grid, strict=True) if s.micro_batch_size == size) for size in (1, 2))
    return f"""## What fits

The table has the peak of the fullest rank in GiB, with hierarchical dispatch, merged pairs and the best placement that has
room. Of {gib(found[0]["memory_limit_bytes"])} GiB that can be used a peak may fill {gib(found[0]["fit_limit_bytes"])}, to be
{100 * workload.room.confidence:.0f} % sure that the true one fits: **bold**. With micro batch 1 {one} of {each} settings fit,
with micro batch 2 {two}.

{table(("recompute", *(f"MBS{size}, {swap}" for size, swap in cells)), rows)}
Columns differ in the micro batch and in the memory-saving switches: Adam states and master weights on the host (*optimizer*),
saved inputs of attention on the host (*attention*), `moe_zero_memory`, which computes again most of what experts would keep
(*experts*). `block:1` recomputes one layer of each virtual stage, `full` all. The unit here is the module.

{by_tensor_text(workload)}"""


def dispatch_section(workload: Workload) -> str:
    strategies = [published("none", dispatcher=name) for name in DISPATCHERS]
    layers = [layer_exchange(workload, s) for s in strategies]
    at_once = [layer_exchange(workload, with_tier_streams(s)) for s in strategies]
    moe = workload.model.moe
    assert moe is not None
    domains = STRUCTURE["ep"] / workload.cluster.profile.devices_per_node
    plain_s = layers[0].total_s
    rows = [
        (
            f"`{name}`",
            f"{float(inter_domain_copies(strategy.dispatcher, domains, moe)):.2f}",
            f"{1e3 * one.total_s:.1f} ms",
            f"{plain_s / one.total_s:.2f}",
            f"{1e3 * both.total_s:.1f} ms",
            f"{plain_s / both.total_s:.2f}",
            percent(one.left_s / one.total_s),
            percent(both.left_s / both.total_s),
        )
        for name, strategy, one, both in zip(DISPATCHERS, strategies, layers, at_once, strict=True)
    ]
    header = (
        "dispatcher",
        "copies of a token that cross nodes",
        "tiers in turn",
        "speed",
        "tiers at once",
        "speed",
        "left in a merged pair, in turn",
        "at once",
    )
    in_turn, at_once_speed = rows[-1][3], rows[-1][5]
    even = with_expert_load(workload, 1.0)
    even_s = [layer_exchange(even, strategies[0]).total_s]
    even_s += [layer_exchange(even, each).total_s for each in (strategies[-1], with_tier_streams(strategies[-1]))]
    return f"""## Expert communication

The table has dispatch and combine of one MoE layer with micro batch 2, forward and backward: experts over {domains:.0f} nodes,
speed against plain all-to-all. HCCL runs the tiers of a network in turn, which the estimates assume. Pangu's stack has a
stream for each (`moe_tier_streams`), which staged exchanges can use.

{table(header, rows)}
The published speed of the hierarchical form is about 2 times; here it is {in_turn} and, with both tiers at once,
{at_once_speed}. Plain all-to-all also waits for the fullest rank between nodes: with experts perfectly balanced it is
{even_s[0] / even_s[1]:.2f} and {even_s[0] / even_s[2]:.2f}. All-gather between nodes moves fewer bytes than plain all-to-all
while the experts span fewer nodes than a token has experts, whatever the routing. `two_level` sends one copy to each node that
a token needs, and no framework offers it on Ascend.
"""


def overlap_rows(workload: Workload) -> list[tuple[str, ParallelStrategy]]:
    """The published layout under every schedule that can hide expert communication, one switch at a time."""
    mode, swap = SAME_MEMORY
    plain = published(mode, swap)
    merged = published(mode, (*STACK, *swap))
    named = {
        "interleaved": plain,
        "interleaved, merged pairs (Adaptive Pipe)": merged,
        "DualPipeV, merged pairs": replace(merged, schedule=Schedule.DUALPIPE_V),
        "DualPipe, merged pairs": replace(merged, schedule=Schedule.DUALPIPE, vpp=1),
    }
    return list(zip(named, placed(workload, list(named.values())), strict=True))


def overlap_section(workload: Workload) -> str:
    named = overlap_rows(workload)
    found = simulated(workload, [strategy for _, strategy in named])
    weights = [float(e["memory_breakdown_bytes"]["weights"]) for e in found]
    rows = [
        (
            name,
            f"{e['step_time_s']:.2f} s",
            change(e["step_time_s"] / found[0]["step_time_s"] - 1),
            percent(exposed_fraction(e)),
            f"{e['time_breakdown_s']['contention']:.2f} s",
            f"{e['time_breakdown_s']['pipeline_bubble']:.2f} s",
            gib(weight),
            peak_text(e),
        )
        for (name, _), e, weight in zip(named, found, weights, strict=True)
    ]
    merged = named[1][1]
    layer = layer_exchange(workload, merged)
    hidden, left, stretch, alone = (
        percent(seconds / layer.total_s)
        for seconds in (layer.total_s - layer.left_s, layer.left_s, layer.stretch_s, layer.left_alone_s)
    )
    m = workload.training.global_batch_size // (merged.micro_batch_size * merged.dp)
    shape = PipelineShape(merged.schedule, merged.pp, merged.vpp, m, merge_pairs=True)
    first, last = (num_warmup_forwards(shape, rank) for rank in (0, merged.pp - 1))
    header = (
        "schedule",
        "step",
        "against interleaved",
        "expert communication exposed",
        "contention",
        "bubble",
        "weights, GiB",
        "peak, GiB",
    )
    mode, swap = SAME_MEMORY
    return f"""## Hiding it

The table has the published layout under schedules that merge a forward with the backward of another micro batch, each under
its best placement, with recompute of `{mode}` and with `{swap[0]}`. *Exposed* is the wait of the busiest rank in the whole
step, *contention* the slowdown of its compute by hidden communication; a bold peak fits.

{table(header, rows)}
Published: more than 98 % hidden, and half of DualPipe's weight memory. Inside a merged pair of MoE layers the shortest order
of pieces leaves {left} exposed and masks {hidden}. This slows the compute beside it by {stretch} of its time. DualPipe holds
{weights[3] / weights[1]:.2f} times the weights of Adaptive Pipe.

Over a whole step more is exposed, because warm-up and cool-down have no partner. Of {m * merged.vpp} forwards of a rank
{first} run alone on the first rank and {last} on the last. A pass alone leaves {alone} of its communication exposed.

A dense layer hides the communication of the MoE layer it meets (`mindspeed-fb-overlap`), and saves nothing with another dense
one. Under DualPipe and DualPipeV the ranks of the leading dense layers also have the head and the prediction layer.
"""


def plan_row(name: str, workload: Workload, strategy: ParallelStrategy, e: Mapping[str, Any], best_s: float) -> tuple[str, ...]:
    return (
        name,
        f"{layout_text(strategy)}, {schedule_text(strategy)}",
        memory_text(workload, strategy),
        f"{e['step_time_s']:.2f} s",
        million(e["tokens_per_s"]),
        percent(e["mfu_fraction"]),
        change(e["step_time_s"] / best_s - 1),
    )


def is_published(plan: DeploymentPlan) -> bool:
    """Whether a plan has the published structure."""
    degrees = all(getattr(plan.parallel, name) == value for name, value in {**STRUCTURE, "cp": 1}.items())
    return degrees and plan.parallel.schedule is Schedule.INTERLEAVED


def place_text(found: SearchResult, paired_fraction: float) -> str:
    """Rank of the published structure among the structures of a search, its distance to the first, and its ties."""
    times_s = [float(plan.estimate["step_time_s"]) for plan in found.plans]
    groups = rank_groups(times_s, paired_fraction)
    for place, plan in enumerate(found.plans):
        if is_published(plan):
            others = groups.count(groups[place])
            more = " or more" if groups[place] == groups[-1] else ""
            return (
                f"number {place + 1}, {percent(times_s[place] / times_s[0] - 1)} behind the first, "
                f"in rank group {groups[place]}, of {others}{more}"
            )
    return f"not among the {len(found.plans)} fastest"


def ranking_section(workload: Workload, whole: SearchResult, looped: SearchResult) -> str:
    training = workload.training
    ours = best_published(workload)
    nearby = best_nearby(workload.cluster.num_devices, training.seq_length, training.global_batch_size)
    best_s = float(whole.plans[0].estimate["step_time_s"])
    named = [
        ("best of the default search", whole.plans[0]),
        ("best with a dispatcher of Ascend stacks", nearby),
        ("best on virtual stages, as Pangu's stack", looped.plans[0]),
        ("published layout", ours),
    ]
    rows = [plan_row(name, workload, plan.parallel, plan.estimate, best_s) for name, plan in named]
    header = ("plan", "layout", "memory", "step", "tokens/s", "MFU", "against best")
    proof = "and the best is proved best" if whole.proof.proved_best else "and the best is not proved best"
    counts = whole.counts
    error = paired_error_of(workload)
    return f"""## Where the search lands

{table(header, rows)}
Of {counts.enumerated:,} strategies of the default search {counts.legal:,} are legal. All but {counts.estimated:,} are too slow
under every placement, {counts.fits_memory:,} of these fit, {counts.simulated} were simulated, {proof}. It also tries
`two_level` dispatch, which no framework here offers on Ascend. The second and third row are the best of the neighbourhood (tp
4 and 8, pp 4 to 32, ep 8 to 64, micro batch 1 and 2; {", ".join(ON_ASCEND)}): with any schedule, and interleaved. The last is
the published one with hierarchical dispatch, merged pairs and micro batch 2. Its recompute, switches and placement are
searched, and so are swaps of attention's inputs. No public framework swaps them beside merged pairs; the default search
tries it, as its target is physics alone.

Among the structures (tp, pp, cp, ep, vpp, schedule) of the default search, each at its best, the published one is
{place_text(whole, error.fraction)}; among the interleaved ones of the neighbourhood it is
{place_text(looped, error.fraction)}. Plans of one group differ by less than the paired error, {percent(error.fraction)}
({error.basis}; [ADR 18](../adr/0018-ties-by-paired-error.md)): which of them is fastest is not known.
"""


def time_section(workload: Workload, whole: SearchResult, looped: SearchResult) -> str:
    columns = [
        ("best of the default search", whole.plans[0].parallel),
        ("best on virtual stages", looped.plans[0].parallel),
        ("published layout", best_published(workload).parallel),
    ]
    found = simulated(workload, [strategy for _, strategy in columns])
    parts = {part: max(e["time_breakdown_s"][part] for e in found) for part in found[0]["time_breakdown_s"]}
    rows = [
        (part_name(part), *(f"{e['time_breakdown_s'][part]:.2f}" for e in found))
        for part in sorted(parts, key=lambda part: (-parts[part], part))
        if parts[part] >= 0.005
    ]
    rows.append(("**step**", *(f"**{e['step_time_s']:.2f}**" for e in found)))
    sentences = "\n".join(
        re.sub(r"(?<=[0-9])%", " %", compared("The published layout", found[-1], other, f"the {name}"))
        for (name, _), other in zip(columns[:-1], found[:-1], strict=True)
    )
    return f"""## Where the time goes

The table has seconds of a step on the rank that is busy longest. If that is the last one, it runs the head and fewer layers.

{table(("part", *(f"{name}: {layout_text(strategy)}" for name, strategy in columns)), rows)}
{sentences}
{interval_text(workload, found[0]["step_time_s"])}
"""


def interval_text(workload: Workload, step_time_s: float) -> str:
    found = calibration_for(workload).interval(workload, step_time_s)
    runs = f"{found.num_runs} runs of at most {found.max_devices:,} devices" if found.max_devices else "no run of such a job"
    return (
        f"The 80 % interval of the best plan's step is {found.low_s:.1f} to {found.high_s:.1f} s. It rests on {runs}. "
        f"Extrapolated: {'; '.join(found.extrapolated) or 'nothing'}."
    )


def what_if_section(workload: Workload, best: ParallelStrategy) -> str:
    training = workload.training
    tokens = training.global_batch_size * training.seq_length
    rows = []
    for case in what_ifs(workload):
        ours = best_published(case.workload, case.constants, tier_streams=case.tier_streams)
        step_s = float(ours.estimate["step_time_s"])
        (other,) = simulated(case.workload, [with_tier_streams(best) if case.tier_streams else best], case.constants)
        rows.append(
            (
                case.name,
                f"{step_s:.2f} s",
                million(tokens / step_s),
                f"{tokens / step_s / TOKENS_PER_S[6144]:.2f}",
                memory_text(workload, ours.parallel),
                f"{other['step_time_s']:.2f} s",
            )
        )
    assert training.expert_spread is not None
    load = percent(float(training.expert_spread.load_factor(STRUCTURE["ep"])) - 1)
    header = ("what if", "published layout", "tokens/s", "of the published", "its memory", "best on virtual stages")
    return f"""## What the estimate leaves out

Pangu's stack has mechanisms that public frameworks lack, and that a job has if it names them ([ladder](#the-ladder)). Each row
adds one to the estimate as it is, under the newest release. The published layout takes the fastest recompute, switches and
placement that then fit; the best plan stays. The rows bound what a mechanism could explain; they do not predict it.

{table(header, rows)}
As estimated, the published layout reaches {rows[0][3]} of the published throughput, with all of these {rows[-1][3]}. If a
mechanism is at work and was not in the fitted runs, something else takes longer than its price and compensates for it.

- **Streams.** Pangu runs the gather between nodes and the all-to-all inside in parallel streams (`moe_tier_streams`); HCCL's
  tiers take turns.
- **Contention.** Hidden communication slows the compute beside it by a share of its own time.
- **Balance.** Load prediction, expert migration and rearrangement of attention data are published at +25.5 %. The job assumes
  that the fullest of {STRUCTURE["ep"]} expert ranks has {load} more than the mean. The imbalance of Pangu's experts before is
  not published; attention data are taken as even.
- **Loss.** The last rank runs the output head and the loss of the model and of its prediction layer. Their memory traffic is
  one fitted constant of eager code, for a vocabulary of {workload.model.vocab_size:,}. It is a fixed load on one rank: a
  placement can take layers off it, but cannot separate the two heads.
- **Operators.** Published: attention forward +50 % and backward +30 %, matmul utilisation +10 %, vector operators +300 %,
  together +15 % end to end ([packs](../switches.md#operator-packs-and-host-options)). The fitted runs include part of that,
  most of all those of 2025; the row applies all of it on top.
- **Host.** Published: host-bound time below 2 %. The fitted constants include a wait in each MoE layer for the sizes of its
  all-to-all, and one a micro batch.
- **Memory.** Recompute and swap by tensor let Pangu double the micro batch. Here `moe_zero_memory` does. The row with twice
  the memory shows the gain of more.
"""


def page() -> str:
    workload = workload_of()
    looped = searched(workload, {**NEARBY, **LOOPED}, top=RANKED)
    whole = searched(workload, {}, top=RANKED)
    sections = "\n".join(
        (
            head(workload),
            publication_section(),
            ladder_section(),
            legality_section(workload),
            memory_section(workload),
            placement_section(workload),
            degree_section(workload),
            dispatch_section(workload),
            overlap_section(workload),
            ranking_section(workload, whole, looped),
            time_section(workload, whole, looped),
            what_if_section(workload, looped.plans[0].parallel),
            throughput_section(),
            scale_section(),
            batch_section(),
        )
    )
    return wrapped(sections)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
