"""Writes docs/case-studies/deepseek-v3.md: DualPipe and DualPipeV on DeepSeek-V3, under the shipped calibrations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from calibration.files.calibrations import calibration_for
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from frameworks.legality import violations
from frameworks.registry import TARGETS
from scripts.case_studies.deepseek import (
    DETACHED,
    HOURS_PER_TRILLION_TOKENS,
    MERGED,
    best_placed,
    chunk_seconds,
    published_bubble_s,
    recipe,
    trained,
    under,
    workload_of,
)
from scripts.case_studies.pangu import searched
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

PAGE = ROOT / "docs" / "case-studies" / "deepseek-v3.md"
NEARBY: dict[str, Any] = {"tp": [1, 2, 4], "pp": [4, 8, 16], "cp": 1, "ep": [16, 32, 64], "micro_batch_size": [1, 2]}
LEAN = "layernorm+mlp_act+mla_up_proj"  # the recompute of the report

HEAD = """# Case study: DeepSeek-V3 under DualPipeV

<!-- Written by scripts/case_studies/write_deepseek.py (`make docs`); do not edit. -->

DualPipe and its half, DualPipeV, exist to hide the expert communication of DeepSeek-V3. They run the forward
of one micro batch merged with the backward of another. This page compares them with simpler schedules, on
Atlas A3 with MindSpeed-LLM's recipe and on the GPUs that trained the model, where a throughput is published.
All times are those of simulated steps under the shipped calibrations ({ascend} runs on Ascend, {gpu} on
GPUs). None of these runs was on an A3 or an H800; DeepSeek-V3 on later GPUs is among them.

Sources are keys of [references.md](../references.md).
"""


def head() -> str:
    runs = [calibration_for(workload_of(name)).num_runs for name in ("recipe", "trained")]
    return HEAD.format(ascend=runs[0], gpu=runs[1])


def recipe_section(workload: Workload) -> str:
    strategy = recipe()
    layout = default_layout(workload.model, strategy.pp, strategy.vpp, strategy.schedule)
    ranks = ", ".join(f"{first} + {second}" for first, second in zip(layout[0], reversed(layout[1]), strict=True))
    family = workload.cluster.profile.family
    targets = [t for t in TARGETS if not t.families or family in t.families]
    legal = ", ".join(f"`{t.label}`" for t in targets if not violations(workload, strategy, t))
    training = workload.training
    return f"""## The recipe

{layout_text(strategy)} with DualPipeV, `--moe-fb-overlap`, `--swap-optimizer` and full recompute on
{workload.cluster.num_devices} dies, {training.global_batch_size:,} sequences of {training.seq_length:,} tokens (`mindspeed-llm`,
pretrain_deepseek3_671b_4k_A3_ptd.sh). Read as a job here it is legal for {legal}. Layers of the ranks, down the V and back up:
{ranks}. The first rank holds the embedding, the dense layers, the head and the prediction layer; three no-op layers make room.
"""


def schedule_rows(workload: Workload) -> list[tuple[str, ...]]:
    strategies = under(recipe())
    found = simulated(workload, strategies)
    first = found[0]["step_time_s"]
    rows: list[tuple[str, ...]] = []
    for strategy, e, moved in zip(strategies, found, best_placed(workload, strategies), strict=True):
        memory = e["memory_breakdown_bytes"]
        rows.append(
            (
                named(strategy),
                f"{e['step_time_s']:.2f} s",
                change(e["step_time_s"] / first - 1),
                f"{moved['step_time_s']:.2f} s",
                f"{e['time_breakdown_s']['pipeline_bubble']:.2f} s",
                percent(exposed_fraction(e)),
                gib(memory["weights"]),
                gib(sum(held for name, held in memory.items() if name.startswith("activations"))),
                peak_text(e),
                "legal" if not violations(workload, strategy, "mindspeed-llm") else "",
            )
        )
    return rows


def named(strategy: ParallelStrategy) -> str:
    """Name of the schedule with its switches."""
    return schedule_text(strategy) + (", dW detached" if DETACHED in strategy.features else "")


def schedule_section(workload: Workload) -> str:
    header = (
        "schedule",
        "step",
        "against 1F1B",
        "step, best placement",
        "bubble",
        "expert communication exposed",
        "weights, GiB",
        "activations, GiB",
        "peak, GiB",
        "MindSpeed-LLM",
    )
    layer = layer_exchange(workload, recipe())
    left, stretch, alone = (percent(s / layer.total_s) for s in (layer.left_s, layer.stretch_s, layer.left_alone_s))
    strategies = under(recipe())
    step_s = {named(s): float(e["step_time_s"]) for s, e in zip(strategies, simulated(workload, strategies), strict=True)}
    moved = best_placed(workload, strategies)
    moved_s = {named(s): float(e["step_time_s"]) for s, e in zip(strategies, moved, strict=True)}
    vee, in_turn = "DualPipeV, merged pairs", "interleaved, merged pairs"
    looped, plain, merged = step_s["interleaved"], step_s["DualPipeV"], step_s["DualPipeV, merged pairs"]
    detached = step_s["DualPipeV, merged pairs, dW detached"]
    return f"""## Schedules on Atlas A3

The table has the recipe's layout and recompute under every schedule, one switch at a time. *Exposed* is the
wait of the busiest rank over the whole step. Memory is that of the fullest rank; a bold peak fits.

{table(header, schedule_rows(workload))}
- **Overlap.** Dispatch and combine of a layer take {1e3 * layer.total_s:.1f} ms forward and backward. A
  merged pair leaves {left} of that exposed. The hidden part slows the compute beside it by {stretch}; a pass
  alone leaves {alone} exposed. MindSpeed claims that all of it is hidden in the steady phase and about half
  in warm-up and cool-down (`mindspeed`, fb-overlap).
- **Steps.** DualPipeV alone changes the step of interleaved virtual stages by {change(plain / looped - 1)}, by its layout and
  its bubble; merging changes DualPipeV's by {change(merged / plain - 1)}.
- **Placement.** All columns but one have the default placement of layers. With the best placement for each
  schedule, the step of merged interleaved stages is {change(moved_s[in_turn] / moved_s[vee] - 1)} from that
  of merged DualPipeV, against {change(step_s[in_turn] / step_s[vee] - 1)} by default. A V has both ends of
  the model on one rank, whose load the default placement already evens out. On other schedules the last rank
  delays the rest until layers move off it.
- **Bubble.** `dualpipev_dw_detach` splits the backwards of the cool-down too: {detached - merged:+.2f} s.
- **Memory.** DualPipe holds two stages of the model on every rank, the others one.
"""


def bubble_section(workload: Workload) -> str:
    strategies = under(recipe())
    rows = []
    for strategy, e in zip(strategies, simulated(workload, strategies), strict=True):
        times = chunk_seconds(workload, strategy)
        found = published_bubble_s(strategy, times)
        if found is None:
            continue
        formula, seconds = found
        rows.append(
            (
                named(strategy),
                formula,
                *(f"{1e3 * each:.0f}" for each in (times.forward, times.backward, times.weight, times.pair)),
                f"{seconds:.2f} s",
                f"{e['time_breakdown_s']['pipeline_bubble']:.2f} s",
            )
        )
    header = ("schedule", "formula", "F, ms", "B, ms", "W, ms", "FB, ms", "by the formula", "simulated")
    return f"""## Bubbles by formula

The table compares published bubbles (`dualpipe`, `mindspeed`, `zero-bubble`) of p equal ranks with the idle
time of the busiest rank in the simulation. The passes are those of one chunk on the middle rank. FB is a
merged pair.

{table(header, rows)}
Ranks are not equal here. Ends and dense layers differ from the middle, and a rank lighter than the busiest
shortens the bubble. With equal ranks the simulation returns the formulas, MindSpeed's plus one forward
(`tests/unit/cost_models/simulation`).
"""


def search_section(workload: Workload) -> str:
    found = searched(workload, NEARBY, top=3)
    (ours,) = simulated(workload, [recipe()])
    best_s = float(found.plans[0].estimate["step_time_s"])
    listed = [(f"{plan.rank}", plan.parallel, plan.estimate) for plan in found.plans] + [("recipe", recipe(), ours)]
    rows = [
        (
            name,
            f"{layout_text(strategy)}, {schedule_text(strategy)}",
            memory_text(workload, strategy),
            f"{e['step_time_s']:.2f} s",
            million(e["tokens_per_s"]),
            percent(e["mfu_fraction"]),
            peak_text(e),
            change(e["step_time_s"] / best_s - 1),
        )
        for name, strategy, e in listed
    ]
    header = ("rank", "layout", "memory", "step", "tokens/s", "MFU", "peak, GiB", "against best")
    return f"""## What the search finds

tp 1 to 4, pp 4 to 16, ep 16 to 64, micro batch 1 and 2, any schedule that the default search tries: {found.counts.legal:,}
legal strategies, {found.counts.simulated} simulated, {"proved best" if found.proof.proved_best else "not proved best"}.

{table(header, rows)}
The recipe recomputes everything. The search uses the memory for less recompute: norms, activations and the
up-projections of latent attention are left, which the report recomputes too (`deepseek-v3`).
"""


def trained_section(workload: Workload) -> str:
    published = 1e12 / (HOURS_PER_TRILLION_TOKENS * 3600.0)
    rows = []
    strategies = [
        trained(Schedule.ONE_F_ONE_B, 1, Feature(0)),
        trained(Schedule.ZB1P, 1, Feature(0)),
        trained(Schedule.DUALPIPE_V, 2, MERGED),
        trained(Schedule.DUALPIPE, 1, MERGED),
    ]
    found = simulated(workload, strategies)
    for strategy, e, moved in zip(strategies, found, best_placed(workload, strategies), strict=True):
        memory = e["memory_breakdown_bytes"]
        rows.append(
            (
                schedule_text(strategy),
                f"{e['step_time_s']:.2f} s",
                f"{e['tokens_per_s_per_device']:,.0f}",
                f"{e['tokens_per_s_per_device'] / published:.2f}",
                f"{moved['tokens_per_s_per_device'] / published:.2f}",
                f"{e['time_breakdown_s']['pipeline_bubble']:.2f} s",
                percent(exposed_fraction(e)),
                gib(memory["weights"]),
                peak_text(e),
            )
        )
    layer = layer_exchange(workload, strategies[-1])
    left = percent(layer.left_s / layer.total_s)
    header = (
        "schedule",
        "step",
        "tokens/s a device",
        "of the published",
        "best placement",
        "bubble",
        "expert communication exposed",
        "weights, GiB",
        "peak, GiB",
    )
    return f"""## Against the published training

DeepSeek-V3 was trained on {workload.cluster.num_devices:,} H800 with DualPipe over 16 stages, experts over 64
ranks in 8 nodes, ZeRO-1 and FP8 (`deepseek-v3`, section 3.2). Each token was sent to four nodes at most and
once to each. This took {HOURS_PER_TRILLION_TOKENS:,.0f} device-hours for 10¹² tokens, or {published:,.0f}
tokens/s a device. The table has the same layout with node de-duplication (`two_level`), recompute of `{LEAN}`
and {workload.training.global_batch_size:,} sequences a step:

{table(header, rows)}
Dispatch and combine of a layer take {1e3 * layer.total_s:.1f} ms forward and backward, of which a merged pair
leaves {left}. The busiest rank exposes more: it holds the leading dense layers and, from the other end of the
model, the head and the prediction layer. A dense layer hides the communication of the MoE layer it meets, and
saves nothing with another dense one (`mindspeed-fb-overlap`). No run on H800 is among those that were fitted.

Memory is that of the report: moments in BF16, inputs of linear layers and activation functions in FP8
(section 3.3), one embedding for the prediction layer and the model, and four layers a stage with 3 and 2 at
the ends. A rank with two chunks has the default placement, which is not published. *Best placement* has the
layers where each schedule is fastest. [accuracy.md](../accuracy.md#layouts-that-ran) has the memory by part.
"""


def page() -> str:
    on_a3 = workload_of("recipe")
    sections = "\n".join(
        (
            head(),
            recipe_section(on_a3),
            schedule_section(on_a3),
            bubble_section(on_a3),
            search_section(on_a3),
            trained_section(workload_of("trained")),
        )
    )
    return wrapped(sections)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
