"""Writes docs/systems.md: the gain of each system of a training stack on one job, switched on and off one at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.calibrations.constants import constants_for
from app.experts.drift import played
from app.experts.schemas import DriftTerms
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.software_options import HOST, OPTION_NAMES
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.steady_masking import steady_masked_fraction
from scripts.case_studies.pangu import (
    JOB,
    OPERATOR_PACKS,
    best_nearby,
    best_of_structure,
    published,
    with_expert_load,
    with_options,
    workload_of,
)
from scripts.case_studies.prices import exposed_fraction, simulated
from scripts.pages.text import (
    change,
    gib,
    layout_text,
    memory_text,
    peak_text,
    percent,
    schedule_text,
    table,
    wrapped,
)
from search.plans.baseline import default_baseline
from search.plans.plan import strategy_to_mapping
from search.tensor_choice.tensor_plan import with_tensors

PAGE = ROOT / "docs" / "systems.md"
Turn = Callable[[Workload, ParallelStrategy], tuple[Workload, ParallelStrategy]]

MOST_LOADED = 4.0  # upper end of the search for an imbalance that explains a gain
DRIFT_STEPS = 20_000
EDPB_GAIN = 0.255  # published throughput gain [pangu-ultra-moe-2]

HEAD = """# What each system buys

<!-- Written by scripts/case_studies/write_systems.py (`make docs`); do not edit. -->

Published training stacks credit their speed to a handful of systems. This page turns each of them off, and on
alone, for one job: {model} on {devices:,} devices of {hardware}, {batch:,} sequences of {seq:,} tokens, laid
out as {layout}. Steps are simulated under the shipped calibration. The [case
study](case-studies/pangu-ultra-moe.md) has the speed of the published stack with these systems, and the
reasons for the difference; DualPipe and DualPipeV are in [another](case-studies/deepseek-v3.md).

The command line prices each row; with everything on it is `{command}`.
"""


@dataclass(frozen=True)
class System:
    """A switch, and how a stack without it differs."""

    name: str
    switch: str
    published: str
    off: Turn


def _strategy(change_of: Callable[[ParallelStrategy], ParallelStrategy]) -> Turn:
    return lambda workload, strategy: (workload, change_of(strategy))


def _without(features: Feature) -> Turn:
    return _strategy(lambda s: replace(s, features=s.features & ~features))


def _unbalanced(workload: Workload, strategy: ParallelStrategy) -> tuple[Workload, ParallelStrategy]:
    usual = workload_of(workload.cluster.num_devices).training
    return replace(workload, training=usual), strategy


def _full_recompute(strategy: ParallelStrategy) -> ParallelStrategy:
    return replace(
        strategy,
        recompute=Recompute.FULL,
        recompute_method=RecomputeMethod.UNIFORM,
        recompute_num_layers=1,
        recompute_modules=RecomputeModule(0),
    )


HELD = ("activations", "recompute_checkpoints")
MEMORY_PLANS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("none", ()),
    ("layernorm+mlp_act", ()),
    ("layernorm+mlp_act+mla_up_proj", ()),
    ("layernorm+mlp_act+mla_up_proj", ("swap_attention",)),
    ("layernorm+mla_up_proj+mlp+moe", ()),
    ("full", ()),
)
OPERATORS = Feature.FUSED_NORM | Feature.FUSED_SWIGLU | Feature.FUSED_ROPE | Feature.MOE_PERMUTE_FUSION
EXCHANGES = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
SYSTEMS = (
    System(
        "hierarchical all-to-all",
        "`moe_dispatcher: hierarchical` for `alltoall`",
        "about 2x communication speed",
        _strategy(lambda s: replace(s, dispatcher=Dispatcher.ALLTOALL)),
    ),
    System("streams of the tiers", "`moe_tier_streams`", "part of the 2x", _without(Feature.MOE_TIER_STREAMS)),
    System("Adaptive Pipe", "`moe_comm_overlap`", "more than 98 % hidden", _without(Feature.MOE_COMM_OVERLAP)),
    System(
        "balanced experts (EDPB)",
        "`router_balance: forced` for the usual `auxiliary-loss`",
        "+25.5 %, from an imbalance that is not published",
        _unbalanced,
    ),
    System(
        "operator packs",
        "`software.operators`: " + ", ".join(f"`{name}`" for name in OPERATOR_PACKS),
        "+15 %",
        lambda workload, strategy: (with_options(workload, (), workload.software.host), strategy),
    ),
    System(
        "host dispatch",
        "`software.host`: `no-synchronisation`",
        "+4 %, below 2 % host-bound",
        lambda workload, strategy: (with_options(workload, workload.software.operators), strategy),
    ),
    System(
        "fused operators",
        "`fused_norm`, `fused_swiglu`, `fused_rope`, `moe_permute_fusion`",
        "",
        _without(OPERATORS),
    ),
    System("fused attention", "`flash_attention`", "", _without(Feature.FLASH_ATTENTION)),
    System("grouped matmul", "`moe_grouped_gemm`", "", _without(Feature.MOE_GROUPED_GEMM)),
    System(
        "selective recompute",
        "modules instead of `full`",
        "more than 70 % of activation memory saved",
        _strategy(_full_recompute),
    ),
    System("distributed optimizer", "`zero_stage` 1 for 0", "", _strategy(lambda s: replace(s, zero_stage=0))),
    System("overlapped gradients and weights", "`overlap_grad_reduce`, `overlap_param_gather`", "", _without(EXCHANGES)),
    System("overlapped pipeline sends", "`overlap_p2p`", "", _without(Feature.OVERLAP_P2P)),
)


def everything_on() -> tuple[Workload, ParallelStrategy]:
    """Pangu's published structure with every system of the list."""
    workload = with_options(with_expert_load(workload_of(), 1.0), OPERATOR_PACKS, OPTION_NAMES[HOST])
    return workload, published("layernorm+mlp_act", ["moe_comm_overlap", "moe_tier_streams"], micro_batch_size=1)


def without(*systems: System) -> tuple[Workload, ParallelStrategy]:
    """Everything on but these."""
    workload, strategy = everything_on()
    for system in systems:
        workload, strategy = system.off(workload, strategy)
    return workload, strategy


def head() -> str:
    workload, strategy = everything_on()
    return HEAD.format(
        model="Pangu Ultra MoE 718B",
        devices=workload.cluster.num_devices,
        hardware=workload.cluster.profile.name,
        batch=workload.training.global_batch_size,
        seq=workload.training.seq_length,
        layout=layout_text(strategy),
        command=" ".join(("meshplan", *command())),
    )


def command() -> list[str]:
    """Arguments of `meshplan` that price the job with every system on."""
    workload, strategy = everything_on()
    section = strategy_to_mapping(workload, strategy)
    training = workload.training
    flags = {
        "hardware": workload.cluster.profile.name,
        "devices": workload.cluster.num_devices,
        "seq-length": training.seq_length,
        "global-batch-size": training.global_batch_size,
        "router-balance": "forced",
        "operators": ",".join(workload.software.operators),
        "host-options": ",".join(workload.software.host or ()),
        **{name: section[name] for name in ("tp", "pp", "vpp", "ep")},
        "moe-dispatcher": section["moe_dispatcher"],
        "recompute": "+".join(section["recompute"]["modules"]),
        "features": ",".join(section["features"]),
    }
    return [
        "estimate",
        JOB["model"],
        *(word for name, value in flags.items() for word in (f"--{name}", str(value))),
        "--simulate",
    ]


def step_and_peak(*systems: System) -> dict[str, Any]:
    """The simulated estimate without these systems."""
    workload, strategy = without(*systems)
    return simulated(workload, [strategy])[0]


def systems_section() -> str:
    on, off = step_and_peak(), step_and_peak(*SYSTEMS)
    rows = []
    for system in SYSTEMS:
        less, alone = step_and_peak(system), step_and_peak(*(other for other in SYSTEMS if other is not system))
        rows.append(
            (
                system.name,
                system.switch,
                change(less["step_time_s"] / on["step_time_s"] - 1),
                change(alone["step_time_s"] / off["step_time_s"] - 1),
                percent(exposed_fraction(less)),
                peak_text(less),
                system.published,
            )
        )
    workload, strategy = everything_on()
    steady = steady_masked_fraction(workload, strategy, constants_for(workload)) or 0.0
    header = (
        "system",
        "switch",
        "step without it",
        "step with it alone",
        "expert communication exposed without it",
        "peak without it, GiB",
        "published",
    )
    return f"""## One switch at a time

With everything on ({schedule_text(strategy)}; {memory_text(workload, strategy)}) a step takes {on["step_time_s"]:.2f} s, exposes
{percent(exposed_fraction(on))} of the expert communication and peaks at {peak_text(on)} GiB; with everything off it takes
{off["step_time_s"]:.2f} s. A bold peak fits. The exposed shares here are those of whole steps; of a [steady
step](model.md#breakdown), which publications state, {percent(steady)} are hidden with everything on. Published gains are those of
`pangu-ultra-moe-2` in [references.md](references.md).

{table(header, rows)}
The two columns differ where systems save the same time: a faster all-to-all is worth less once it is hidden.
Shares are of the busiest rank. The slowest rank fixes the bubble in a step, so a saving elsewhere does not
show.
"""


def load_that_explains(gain_fraction: float) -> float | None:
    """The load factor from which perfect balance gains that much throughput; ``None`` beyond ``MOST_LOADED``."""
    workload, strategy = everything_on()
    balanced_s = simulated(workload, [strategy])[0]["step_time_s"]

    def gain(load: float) -> float:
        return float(simulated(with_expert_load(workload, load), [strategy])[0]["step_time_s"] / balanced_s - 1)

    low, high = 1.0, MOST_LOADED
    if gain(high) < gain_fraction:
        return None
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) < gain_fraction else (low, middle)
    return high


def balance_section() -> str:
    load, (workload, strategy) = load_that_explains(EDPB_GAIN), _unbalanced(*everything_on())
    spread = workload.training.expert_spread
    assert spread is not None
    usual = float(spread.load_factor(strategy.ep))
    rows = []
    for domains in (4, 1):
        drifted, balanced_s = played(workload, strategy, DriftTerms(domains=domains), DRIFT_STEPS)
        in_order_s = balanced_s + drifted.in_order_s
        loads = (drifted.load_in_order, drifted.load_planned_once, drifted.load_replanned)
        gains = (in_order_s / (balanced_s + one_s) - 1.0 for one_s in (drifted.planned_once_s, drifted.replanned_s))
        means = (f"{one.mean():.2f}" for one in loads)
        rows.append((str(domains), *means, *map(change, gains), str(sum(drifted.is_planned)), change(EDPB_GAIN)))
    found = f"a fullest expert rank with {load:.2f} times the mean" if load else f"more than {MOST_LOADED:.0f} times the mean"
    return f"""## Balance

The balancing method of the router (`training.router_balance`) gives the load of the fullest expert rank over
the mean: {usual:.2f} at EP{strategy.ep} with an auxiliary loss ([how](model.md#assumed-routing)). EDPB
predicts loads and moves experts until it is near 1. The published {change(EDPB_GAIN)} would need {found}
before. Balance of attention over data-parallel ranks, the other half of EDPB, is not modelled.

The table plays the first {DRIFT_STEPS:,} steps with loads that [drift](experts.md#a-whole-training), by the
number of domains in a step. Experts stay in order, are placed once, or again whenever that pays for its moves
(`meshplan experts simulate`); gains are over experts in order. The router is that of an auxiliary loss.

{table(("domains", "load in order", "planned once", "replanned", "gain, once", "gain, replanned", "plans", "published"), rows)}
"""


def memory_section() -> str:
    workload, _ = everything_on()
    plans = [
        published(mode, ("moe_comm_overlap", "moe_tier_streams", *swap), micro_batch_size=size)
        for mode, swap in MEMORY_PLANS
        for size in (1, 2)
    ]
    found = simulated(workload, plans)
    held = [sum(b for name, b in e["memory_breakdown_bytes"].items() if name.startswith(HELD)) for e in found]
    rows = []
    for index, (mode, swap) in enumerate(MEMORY_PLANS):
        one, two = found[2 * index : 2 * index + 2]
        rows.append(
            (
                " + ".join((f"`{mode}`", *(f"`{name}`" for name in swap))),
                gib(held[2 * index]),
                percent(1 - held[2 * index] / held[0]),
                f"{one['step_time_s']:.2f} s",
                peak_text(one),
                f"{two['step_time_s']:.2f} s",
                peak_text(two),
            )
        )
    header = ("recompute and swap", "activations, GiB", "saved", "step, MBS1", "peak, MBS1", "step, MBS2", "peak, MBS2")
    fitting = [one for one in found if one["fits"]]
    return f"""## Recompute and swap

The table shows the memory that the fullest rank holds from forward to backward, and the cost of dropping it.
Published: more than 70 % of activation memory saved, and the micro batch doubled, with recompute and swap of
single tensors. First by module. Bold peaks fit.

{table(header, rows)}
{_by_tensor(workload, min(one["step_time_s"] for one in fitting))}"""


def _by_tensor(workload: Workload, best_s: float) -> str:
    """The layout with recompute and swap by tensor; ``best_s`` is the time of the fastest layout by module that fits."""
    constants = constants_for(workload)
    rows, steps_s, kept_s = [], [], []
    for size in (1, 2, 4):
        given = published("none", ("moe_comm_overlap", "moe_tier_streams"), micro_batch_size=size)
        answer = with_tensors(workload, given, constants)
        if answer is None:
            rows.append((str(size), *[""] * 8))
            continue
        whole, chosen = simulated(workload, [given, answer.strategy])
        steps_s.append(chosen["step_time_s"])
        kept_s.append(whole["step_time_s"])
        held = [sum(b for name, b in e["memory_breakdown_bytes"].items() if name.startswith(HELD)) for e in (whole, chosen)]
        rows.append(
            (
                str(size),
                gib(held[0]),
                percent(1 - held[1] / held[0]),
                gib(answer.host_bytes),
                f"{whole['step_time_s']:.2f} s",
                percent(chosen["step_time_s"] / whole["step_time_s"] - 1),
                f"{chosen['step_time_s']:.2f} s",
                percent(chosen["step_time_s"] / best_s - 1),
                peak_text(chosen),
            )
        )
    header = (
        "micro batch",
        "activations, all kept",
        "saved",
        "on the host",
        "step, all kept",
        "paid, of the step",
        "step",
        "against the fastest above that fits",
        "peak, GiB",
    )
    link = workload.cluster.profile.host_link_bytes_per_s / 1e9
    doubled = len(steps_s) > 1 and steps_s[1] < steps_s[0]
    return f"""Tensor by tensor (`--memory-plan`), each virtual stage drops just enough for its rank to fit, at least time.
It computes cheap tensors again (norms, up-projections of latent attention, activation functions, routing).
Copies to the host fill the compute that hides them at {link:.1f} GB/s a device each way. Sizes are in GiB.
*On the host* is the size for one device; whether the host has that much is not known here.

{table(header, rows)}
Twice the micro batch {"fits and is faster, as published" if doubled else "is not faster, other than published"}. With
everything kept it would take {percent(kept_s[1] / kept_s[0] - 1)} longer in this structure, by longer ramps of the pipeline. No
public release can be told such a plan, and MindSpeed swaps nothing beside merged pairs.
"""


def search_section() -> str:
    workload = workload_of()
    baseline = default_baseline(workload, constants_for(workload))
    training, spread = workload.training, workload.training.expert_spread
    assert spread is not None
    job = workload.cluster.num_devices, training.seq_length, training.global_batch_size
    best, ours = best_nearby(*job), best_of_structure(*job)
    assert baseline is not None
    assert ours is not None
    named = [("rule of thumb", baseline), ("published structure", ours.parallel), ("best of the search", best.parallel)]
    found = simulated(workload, [strategy for _, strategy in named])
    rows = [
        (
            name,
            f"{layout_text(strategy)}, {schedule_text(strategy)}",
            memory_text(workload, strategy),
            f"{e['step_time_s']:.2f} s",
            f"{found[0]['step_time_s'] / e['step_time_s']:.2f}",
            peak_text(e),
        )
        for (name, strategy), e in zip(named, found, strict=True)
    ]
    return f"""## The search itself

The table compares three plans for the job as given (`router_balance: {spread.balance}`): the plan that an
engineer would try first, by the rule of thumb of `narayanan2021`; the published structure at its best; and
the best of what Ascend stacks can dispatch.

{table(("plan", "layout", "memory", "step", "speed", "peak, GiB"), rows)}"""


def page() -> str:
    return wrapped("\n".join((head(), systems_section(), balance_section(), memory_section(), search_section())))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
