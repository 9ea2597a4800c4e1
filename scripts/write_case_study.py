"""Writes docs/case-studies/pangu-ultra-moe.md: the published layout of Pangu Ultra MoE 718B under the shipped calibration."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from app.pricing import constants_for  # noqa: E402
from app.reports.estimate import recompute_text  # noqa: E402
from calibration.files import calibration_for  # noqa: E402
from cost_models.constants import CONSTANTS  # noqa: E402
from cost_models.step import estimate  # noqa: E402
from cost_models.strategy import Dispatcher, Feature, ParallelStrategy, StrategyBatch  # noqa: E402
from cost_models.workload import Workload  # noqa: E402
from scripts.pangu_case import (  # noqa: E402
    BATCHES,
    LATER_MFU_FRACTION,
    MFU_FRACTION,
    MODES,
    NEARBY,
    ON_ASCEND,
    SEQUENCES,
    STATED_PEAK_FLOPS_PER_S,
    SWAPS,
    TOKENS_PER_S,
    Ranking,
    flops_per_token,
    priced,
    published,
    published_fitting,
    ranked,
    what_ifs,
    workload_of,
)
from search.explanation import compared, part_name  # noqa: E402
from search.legality import TARGETS, violations  # noqa: E402
from search.plan import strategy_to_mapping  # noqa: E402

PAGE = ROOT / "docs" / "case-studies" / "pangu-ultra-moe.md"
GIB = 2.0**30
SHOWN_PLANS = 5
SHOWN_CONSTANTS = ("matmul_fraction", "expert_comm_factor", "cross_entropy_bytes")

HEAD = """# Case study: the layout of Pangu Ultra MoE 718B

<!-- Written by scripts/write_case_study.py (`make docs`); do not edit. -->

Huawei published the layout in which Pangu Ultra MoE 718B was trained on about 6,000 Atlas 800T A2 NPUs, and the throughput. A
simulation-driven search chose it. This page asks what meshplan makes of it: is it legal, does it fit, where does it rank, and why
does it not come first. Nothing was tuned to make it first, and no run of this model is among those that calibrate the estimates.

Made by `python scripts/write_case_study.py` with the shipped {family} calibration: {fitted} of {constants} constants fitted to
{runs} runs by `{command}`, among them {values}.
All numbers are closed-form estimates for {devices:,} devices and, where nothing else is said, {batch:,} sequences of {seq:,}
tokens a step.
"""


def layout_text(strategy: ParallelStrategy) -> str:
    """Degrees, micro batch and dispatcher on one line."""
    names = ("tp", "pp", "vpp", "cp", "ep")
    degrees = [f"{name.upper()}{getattr(strategy, name)}" for name in names if getattr(strategy, name) > 1]
    return " ".join([*degrees, f"MBS{strategy.micro_batch_size}", strategy.dispatcher.label])


def memory_text(workload: Workload, strategy: ParallelStrategy) -> str:
    """Recompute and swap."""
    swaps = [str(f.name).lower() for f in (Feature.SWAP_OPTIMIZER, Feature.SWAP_ATTENTION) if f in strategy.features]
    return ", ".join([recompute_text(strategy_to_mapping(workload, strategy)["recompute"]), *swaps])


def million(tokens_per_s: float) -> str:
    return f"{tokens_per_s / 1e6:.2f} M"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def place_text(ranking: Ranking) -> str:
    return "does not fit" if ranking.place is None else f"is number {ranking.place + 1} of {len(ranking.plans)} that fit"


def ours_text(found: Ranking, tokens: int) -> tuple[str, str, str]:
    """Step, throughput and rank of the published structure."""
    if found.published is None or found.place is None:
        return "does not fit", "", ""
    step_time_s = found.published.step_time_s
    return f"{step_time_s:.2f} s", million(tokens / step_time_s), f"{found.place + 1} of {len(found.plans)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns of numbers are aligned to the right."""
    body = list(rows)
    align = ["---:" if all(re.match(r"[*+-]*[0-9]", row[column]) for row in body) else "---" for column in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, align, *body)) + "\n"


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
    )


def publication_section() -> str:
    rows = [
        ("layout", "TP8, PP16, VPP2, EP32 (EP4, which tp extends to 32 ranks), micro batch 2", "`pangu-ultra-moe`"),
        ("expert traffic", "hierarchical all-to-all, hidden behind compute for more than 98 %", "`pangu-ultra-moe-2`"),
        ("memory", "selective recompute and swap, from modules to tensors", "`pangu-ultra-moe-2`"),
        ("first system, 4K NPUs", "0.61 M tokens/s, MFU 18.9 %", "`pangu-ultra-moe`"),
        ("this layout, 6K NPUs", "1.46 M tokens/s, MFU 30.0 %", "`pangu-ultra-moe`"),
        ("later system, sequence 8K", f"MFU {percent(LATER_MFU_FRACTION)}", "`pangu-ultra-moe-2`"),
    ]
    return f"""## What was published

{table(("what", "published", "source"), rows)}
Sources are keys of [references.md](../references.md); the second one is coverage, not the report. Not published: the global
batch, the sequence of the first two throughputs, which modules are recomputed and which tensors swapped, and what MFU counts.
*6K* and *4K* are read as 6,144 and 4,096.
"""


def legality_section(workload: Workload) -> str:
    plan = published("none", [], micro_batch_size=2, dispatcher="hierarchical")
    plain = replace(plan, dispatcher=Dispatcher.ALLTOALL)
    rows = []
    for target in TARGETS:
        cells = ["; ".join(f"`{v.rule}`" for v in violations(workload, s, target)) or "legal" for s in (plan, plain)]
        if target.families and workload.cluster.profile.family not in target.families:
            cells = ["does not run on these devices", ""]
        rows.append((f"`{target.label}`", *cells))
    mapping = strategy_to_mapping(workload, plan)
    layout, noops = mapping["layer_layout"], mapping["noop_layers"]
    slots = max(map(max, layout))
    ranks = [sum(chunk[rank] for chunk in layout) for rank in range(plan.pp)]
    return f"""## Is it legal

{table(("target", "hierarchical dispatch", "plain all-to-all"), rows)}
A cell names the [rules](../legality.md) that are broken. The {workload.model.num_layers} layers fill {plan.pp * plan.vpp} virtual
stages of {slots} slots. The {noops} slots over hold no-op layers, on the last ranks, which also run the output head and the
multi-token-prediction layer: {ranks[0]} layers on the first rank, {ranks[-2]} and {ranks[-1]} on the last two.

So the recipe is legal for `any`, the physics alone, and no public release combines it: its hierarchical dispatch is in MindSpeed
core_r0.8.0 only, its overlap in later branches.
"""


def memory_section(workload: Workload) -> str:
    cells = [(size, swap) for size in (1, 2) for swap in SWAPS]
    grid = [
        published(mode, SWAPS[swap], micro_batch_size=size, dispatcher="hierarchical") for mode in MODES for size, swap in cells
    ]
    found = priced(workload, grid)
    shown = [f"{'**' * e['fits']}{e['peak_memory_bytes'] / GIB:.1f}{'**' * e['fits']}" for e in found]
    rows = [(f"`{mode}`", *shown[index * len(cells) : (index + 1) * len(cells)]) for index, mode in enumerate(MODES)]
    each = len(MODES) * len(SWAPS)
    one, two = (sum(e["fits"] for e, s in zip(found, grid, strict=True) if s.micro_batch_size == size) for size in (1, 2))
    return f"""## What fits

Peak of the fullest rank in GiB, of {found[0]["memory_limit_bytes"] / GIB:.1f} that can be used; **bold** fits. With micro batch 1
{one} of {each} settings fit, with micro batch 2 {two}.

{table(("recompute", *(f"MBS{size}, {swap}" for size, swap in cells)), rows)}
Columns differ in the micro batch and in what is swapped to the host: Adam states and master weights (*optimizer*), saved inputs
of attention (*attention*). `block:1` recomputes one layer of each virtual stage, `full` all. Pangu's recompute and swap choose
single tensors; here the unit is the module.
"""


def ranking_section(workload: Workload, whole: Ranking, on_ascend: Ranking) -> str:
    plans, best = on_ascend.plans, whole.plans[0]
    shown = list(range(min(SHOWN_PLANS, len(plans))))
    if on_ascend.place is not None and on_ascend.place not in shown:
        shown.append(on_ascend.place)
    found = priced(workload, [plans[index].strategy for index in shown])
    listed = [(str(index + 1), plans[index].strategy, e) for index, e in zip(shown, found, strict=True)]
    listed += [("published, MBS2", strategy, e) for strategy, e in published_fitting(workload)[:1]]
    rows = [
        (
            name,
            layout_text(strategy),
            memory_text(workload, strategy),
            f"{e['step_time_s']:.2f} s",
            million(e["tokens_per_s"]),
            percent(e["mfu_fraction"]),
            f"{100 * (e['step_time_s'] / plans[0].step_time_s - 1):+.1f} %",
        )
        for name, strategy, e in listed
    ]
    return f"""## Where it ranks

Plans are grouped by structure (tp, pp, cp, ep, vpp), the best of each counts. Among dispatchers that some published stack runs on
Ascend ({", ".join(ON_ASCEND)}), the published structure {place_text(on_ascend)}.

{table(("rank", "layout", "memory", "step", "tokens/s", "MFU", "against best"), rows)}
The default search also tries node-deduplicated dispatch (`two_level`), which no framework here offers on Ascend. Of
{whole.enumerated:,} strategies {whole.legal:,} are legal and {whole.fits:,} fit; the best is {layout_text(best.strategy)}
({memory_text(workload, best.strategy)}) in {best.step_time_s:.2f} s, and the published structure {place_text(whole)}.
"""


def time_section(workload: Workload, on_ascend: Ranking) -> str:
    columns = [("best", on_ascend.plans[0].strategy)]
    if on_ascend.place and on_ascend.published:
        columns.append(("published structure", on_ascend.published.strategy))
    columns += [("published, MBS2", strategy) for strategy, _ in published_fitting(workload)[:1]]
    strategies = [strategy for _, strategy in columns]
    found = priced(workload, strategies)
    parts = {part: max(e["time_breakdown_s"][part] for e in found) for part in found[0]["time_breakdown_s"]}
    rows = [
        (part_name(part), *(f"{e['time_breakdown_s'][part]:.2f}" for e in found))
        for part in sorted(parts, key=lambda part: (-parts[part], part))
        if parts[part] >= 0.005
    ]
    rows.append(("**step**", *(f"**{e['step_time_s']:.2f}**" for e in found)))
    stages = estimate(workload, StrategyBatch.of(strategies), constants_for(workload), breakdown=True).stage_time_s
    assert stages is not None
    busy = [stages[: strategy.pp, row] for row, strategy in enumerate(strategies)]
    rows.append(("busiest rank over the mean of ranks", *(f"{times.max() / times.mean():.2f}" for times in busy)))
    rows.append(("which rank", *(f"{int(times.argmax())} of 0 to {len(times) - 1}" for times in busy)))
    sentences = "\n".join(comparisons(found))
    return f"""## Where the time goes

Seconds of a step, on the rank that sets the pace: where that is the last one, it runs the head and fewer layers.

{table(("part", *(f"{name}: {layout_text(strategy)}" for name, strategy in columns)), rows)}
{sentences}
{interval_text(workload, found[0]["step_time_s"])}
"""


def comparisons(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the published structure, then the published micro batch, loses and saves against the best plan."""
    names = ("The published layout",) if len(found) == 2 else ("The published structure", "The published layout")
    for name, e in zip(names, found[1:], strict=False):
        yield re.sub(r"(?<=[0-9])%", " %", compared(name, e, found[0], "the best plan"))


def interval_text(workload: Workload, step_time_s: float) -> str:
    found = calibration_for(workload).interval(workload, step_time_s)
    runs = f"{found.num_runs} runs of at most {found.max_devices:,} devices" if found.max_devices else "no run of such a job"
    return (
        f"The 80 % interval of the best plan's step is {found.low_s:.1f} to {found.high_s:.1f} s. It rests on {runs}. "
        f"Extrapolated: {'; '.join(found.extrapolated) or 'nothing'}."
    )


def what_if_section(workload: Workload) -> str:
    training = workload.training
    tokens = training.global_batch_size * training.seq_length
    studied = [(w.name, ranked(w.workload, w.constants, {**NEARBY, **w.limits})) for w in what_ifs(workload)]
    rows = [
        (name, *ours_text(found, tokens), layout_text(found.plans[0].strategy), f"{found.plans[0].step_time_s:.2f} s")
        for name, found in studied
    ]
    ends = [tokens / found.published.step_time_s for _, found in (studied[0], studied[-1]) if found.published]
    reached = " to ".join(f"{end / TOKENS_PER_S[6144]:.2f}" for end in ends) or "none"
    load = percent(training.expert_load_factor - 1)
    first = [name for name, found in studied if found.place == 0]
    verdict = f"The published structure comes first {first[0]}" if first else "No row makes the published structure the best"
    return f"""## What the estimate leaves out

Pangu's stack has mechanisms that the closed form lacks, or prices as the public frameworks run them. Each row changes one input
and searches the neighbourhood of the published layout again (tp 4 and 8, pp 4 to 32, ep 8 to 64, micro batch 1 and 2). The rows
bound what a mechanism could explain; they do not predict it.

{table(("what if", "published structure", "tokens/s", "rank", "best", "its step"), rows)}
{verdict}. From the first row to the last it reaches {reached} of the published 1.46 M tokens/s.

- **Overlap.** Adaptive Pipe hides more than 98 % of expert communication behind compute of other micro batches. The default
  search leaves overlap off; the switch prices it against the expert matmuls of the same layer alone.
- **Streams.** Pangu runs the gather between nodes and the all-to-all inside in parallel streams; here HCCL's tiers take turns.
- **Balance.** Load prediction, expert migration and rearrangement of attention data are published at +25.5 %. The job assumes
  that the fullest expert rank has {load} more than the mean. How uneven Pangu's experts were before is not published;
  attention data are taken as even.
- **Loss.** The last rank runs the output head and the loss of the model and of its prediction layer, whose memory traffic is one
  fitted constant of eager code, for a vocabulary of {workload.model.vocab_size:,}. It is a fixed load on one rank, so it weighs
  more where stages are small, as at pp 16; placing that layer or the head elsewhere is not modelled.
- **Operators.** Published: attention forward +50 % and backward +30 %, matmul utilisation +10 %, vector operators +300 %,
  together +15 % end to end. Part of that is in the runs that were fitted; the row applies matmul and attention on top.
- **Host.** Published: host-bound time below 2 %. The fitted constants hold a wait in each MoE layer for the sizes of its
  all-to-all.
- **Memory.** Recompute and swap by tensor let Pangu double the micro batch. The row with twice the memory shows what that can
  buy.
"""


def throughput_section() -> str:
    model = workload_of().model
    peak = workload_of().cluster.profile.matmul_flops_per_s["bf16"]
    per_device = TOKENS_PER_S[6144] / 6144
    rows = []
    for seq_length in SEQUENCES:
        for mask in ("causal", "full"):
            flops = flops_per_token(model, seq_length, mask)
            bare = flops_per_token(replace(model, mtp_num_layers=0), seq_length, mask)
            rows.append(
                (
                    f"{seq_length:,}, {mask}",
                    f"{flops / 1e9:.1f}",
                    f"{flops * per_device / MFU_FRACTION[6144] / 1e12:.0f}",
                    percent(flops * per_device / STATED_PEAK_FLOPS_PER_S),
                    percent(flops * per_device / peak),
                    percent(bare * per_device / peak),
                )
            )
    header = (
        "sequence, mask",
        "GFLOPs/token",
        "peak implied by 30.0 %, TFLOPS",
        "at 256 TFLOPS",
        f"at {peak / 1e12:.1f} TFLOPS",
        "the same, without MTP",
    )
    ours = [throughput_row(num_devices, seq_length) for num_devices in TOKENS_PER_S for seq_length in SEQUENCES]
    gain = (TOKENS_PER_S[6144] / 6144) / (TOKENS_PER_S[4096] / 4096)
    return f"""## Against the published throughput

The MFU of the published 1.46 M tokens/s on 6,144 NPUs, by convention. meshplan counts causal attention, the prediction layer and
the head, against the Cube peak of {peak / 1e12:.1f} TFLOPS; the report on Pangu Pro MoE (`pangu-pro-moe`) states 256 TFLOPS.

{table(header, rows)}
The reports do not state theirs, so tokens/s compare and MFU does not. Ours: the fastest setting of the published structure that
fits, and the best plan of the neighbourhood, at one sequence a device; on 4,096 NPUs, for the system before its optimisations,
both with plain all-to-all.

{table(("devices, sequence", "published", "published structure", "best", "published MFU", "MFU of our best"), ours)}
From the first system to this layout the published throughput of a device rose by a factor of {gain:.2f}.
"""


def throughput_row(num_devices: int, seq_length: int) -> tuple[str, ...]:
    workload = workload_of(num_devices, seq_length, num_devices)
    dispatchers = list(ON_ASCEND) if num_devices == max(TOKENS_PER_S) else ["alltoall"]
    found = ranked(workload, constants_for(workload), {**NEARBY, "dispatcher": dispatchers})
    (best,) = priced(workload, [found.plans[0].strategy])
    return (
        f"{num_devices:,}, {seq_length:,}",
        million(TOKENS_PER_S[num_devices]),
        ours_text(found, num_devices * seq_length)[1] or "does not fit",
        f"{million(best['tokens_per_s'])} ({layout_text(found.plans[0].strategy)})",
        percent(MFU_FRACTION[num_devices]),
        percent(best["mfu_fraction"]),
    )


def batch_section() -> str:
    header = ("sequence, batch", "published structure", "tokens/s", "rank", "best", "tokens/s", "step against best")
    rows = [batch_row(seq_length, batch) for seq_length in SEQUENCES for batch in BATCHES]
    return f"""## Batch and sequence

The global batch is not published. The same comparison in the neighbourhood, for other batches and for sequences of 4,096:

{table(header, rows)}"""


def batch_row(seq_length: int, global_batch_size: int) -> tuple[str, ...]:
    workload = workload_of(6144, seq_length, global_batch_size)
    found = ranked(workload, constants_for(workload), NEARBY)
    best, ours, tokens = found.plans[0], found.published, seq_length * global_batch_size
    return (
        f"{seq_length:,}, {global_batch_size:,}",
        "does not fit" if ours is None else layout_text(ours.strategy),
        *ours_text(found, tokens)[1:],
        layout_text(best.strategy),
        million(tokens / best.step_time_s),
        "" if ours is None else f"{100 * (ours.step_time_s / best.step_time_s - 1):+.1f} %",
    )


def page() -> str:
    workload = workload_of()
    constants = constants_for(workload)
    on_ascend = ranked(workload, constants, {"dispatcher": list(ON_ASCEND)})
    return "\n".join(
        (
            head(workload),
            publication_section(),
            legality_section(workload),
            memory_section(workload),
            ranking_section(workload, ranked(workload, constants, {}), on_ascend),
            time_section(workload, on_ascend),
            what_if_section(workload),
            throughput_section(),
            batch_section(),
        )
    )


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
