"""Writes docs/accuracy.md, its plots, the dashboard's rows and the README's line from the runs and the shipped calibrations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from calibration.fitting.tuned_numbers import TUNED
from calibration.leave_out.ablation import Ablation
from calibration.leave_out.family_errors import ROLLING, SPLITS
from calibration.procedure.calibrate import ABLATED_EVERY
from calibration.records.categories import CATEGORIES
from calibration.records.training import RunRecord
from calibration.splits.groups import MODEL_KINDS, model_kind
from calibration.validation.predictions import predict
from cost_models.shapes.strategy import Schedule
from scripts.accuracy.aims import CHINESE, CHINESE_PAGE, ENGLISH, Reached, aims_rows, cell
from scripts.accuracy.blind import BlindRuns, generation
from scripts.accuracy.blind import table as blind_table
from scripts.accuracy.error_rows import write_rows
from scripts.accuracy.figures import Errors, FamilyAccuracy, LeftOutPeaks, Mask
from scripts.accuracy.plot import scatter_svg
from scripts.accuracy.readme import chinese_line, readme_line, with_line
from scripts.accuracy.text import EVERY_RUN, EXPLANATIONS, HEAD, NOT_COVERED, PEERS_HEAD
from scripts.case_studies.ran_layouts import ran_section

PAGE, CHINESE_AIMS, IMAGES = ROOT / "docs/accuracy.md", ROOT / "docs/zh/accuracy.md", ROOT / "docs/images"
SHOWN_WORST = 10
SURE_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
Wanted = Callable[[RunRecord], bool]


def is_moe(record: RunRecord) -> bool:
    return record.workload.model.moe is not None


def of_source(prefix: str) -> Wanted:
    return lambda record: record.id.startswith(prefix)


def is_sure(record: RunRecord) -> bool:
    return record.hardware_basis != "unclear"


def in_category(category: str, *, sure: bool) -> Wanted:
    return lambda r: r.category == category and (not sure or is_sure(r))


def of_generation(name: str, *, moe: bool) -> Wanted:
    return lambda r: generation(r) == name and is_moe(r) == moe


ASCEND_GROUPS = {name.replace("_", " "): in_category(name, sure=True) for name in CATEGORIES}
GPU_GROUPS: dict[str, Wanted] = {
    "Volta dense": of_generation("Volta", moe=False),
    "Ampere dense": of_generation("Ampere", moe=False),
    "Hopper dense": of_generation("Hopper", moe=False),
    "Blackwell dense": of_generation("Blackwell", moe=False),
    "Hopper MoE": of_generation("Hopper", moe=True),
    "Blackwell MoE": of_generation("Blackwell", moe=True),
    "AMD MoE": of_generation("AMD", moe=True),
}
SCHEDULE_GROUPS: dict[str, Wanted] = {
    "none": lambda r: r.strategy.pp == 1,
    "1F1B": lambda r: r.strategy.schedule is Schedule.ONE_F_ONE_B,
    "interleaved": lambda r: r.strategy.schedule is Schedule.INTERLEAVED,
    "zero bubble": lambda r: r.strategy.schedule.rules.splits_backward,
}
GPU_SOURCES: dict[str, Wanted] = {
    "vTrain, several nodes": of_source("vtrain-multi"),
    "vTrain, one node": of_source("vtrain-single"),
    "BigScience": of_source("bigscience"),
    "FSDP (llm-foundry, torchtitan)": lambda r: r.workload.software.stack == "fsdp",
    "NeMo and Megatron-Bridge": lambda r: r.workload.software.stack == "nemo",
    "MoE Parallel Folding": of_source("mpf"),
    "zero bubble": of_source("zerobubble"),
    "SimuMax": of_source("simumax"),
    "Korthikanti": of_source("korthikanti"),
}
STACK_GROUPS: dict[str, Wanted] = {
    "Ampere dense Megatron": lambda r: generation(r) == "Ampere" and not is_moe(r) and r.workload.software.stack != "fsdp",
    "Hopper dense Megatron": lambda r: generation(r) == "Hopper" and not is_moe(r) and r.workload.software.stack != "fsdp",
}
STEP_NAMES = {
    "stack": "stack",
    "chip": "chip",
    "combination": "hardware, stack and kind together",
    "mechanism": "mechanism (switch, schedule, precision or kind)",
}
SPLIT_NAMES = {"framework": "stack", "combination": "hardware, stack and kind"}
UNTAUGHT: dict[str, Wanted] = {
    "FP8 dense": lambda r: r.workload.training.precision == "fp8" and not is_moe(r),
    "FP8 MoE": lambda r: r.workload.training.precision == "fp8" and is_moe(r),
    "NVFP4": lambda r: r.workload.training.precision == "nvfp4",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def errors_table(family: FamilyAccuracy, groups: dict[str, Wanted]) -> str:
    """Errors of each group under every split; the last four columns are nested."""
    splits, rows = family.splits, []
    for name, mask in ((name, family.chosen(wanted)) for name, wanted in groups.items()):
        left_out = Errors.of(family.publication[mask])
        if left_out is None:
            continue
        plain = (Errors.of(errors[mask]) for errors in (splits.utilisation, splits.fitted, splits.architecture))
        others = (Errors.of(errors[mask]) for errors in (family.rolling, family.nested("framework")))
        rows.append(
            [name, str(left_out.count), *map(cell, plain), f"**{cell(left_out)}**", f"{100 * left_out.p90:.1f}",
             f"{100 * left_out.bias:+.1f}", *map(cell, others)]
        )  # fmt: skip
    header = (
        "",
        "runs",
        "one utilisation",
        "fitted",
        "fitted without its architecture",
        "publication left out",
        "its p90",
        "its bias",
        "rolling origin",
        "stack left out",
    )
    return table(header, rows)


def splits_section(families: dict[str, FamilyAccuracy]) -> str:
    """All runs of a family under every split."""
    rows = []
    for family in families.values():
        plain = Errors.of(family.splits.architecture)
        assert plain is not None
        rows.append([f"{family.family}: architecture, the fit alone", *split_cells(plain)])
        for split in SPLITS:
            errors = Errors.of(family.nested(split))
            assert errors is not None
            rows.append([f"{family.family}: {SPLIT_NAMES.get(split, split)}", *split_cells(errors)])
    return table(("left out", "runs judged", "median / mean error", "p90", "bias"), rows)


def split_cells(errors: Errors) -> list[str]:
    return [str(errors.count), cell(errors), f"{100 * errors.p90:.1f}", f"{100 * errors.bias:+.1f}"]


def reached(families: dict[str, FamilyAccuracy], split: str = "publication") -> dict[str, Errors | None]:
    """Nested left-out errors of the groups that have an aim, and of all runs on Ascend."""
    groups = {"ascend": {**ASCEND_GROUPS, EVERY_RUN: lambda r: True}, "gpu": {**GPU_GROUPS, **GPU_SOURCES, **STACK_GROUPS}}
    found = {
        f"{name}: {group}": Errors.of(families[name].nested(split)[families[name].chosen(wanted)])
        for name, of_family in groups.items()
        for group, wanted in of_family.items()
    }
    found.update({f"gpu: {name}": families["gpu"].untaught(wanted, split) for name, wanted in UNTAUGHT.items()})
    return found


def aims_table(reached: Reached, language: int) -> str:
    return table(*aims_rows(reached, language))


def small_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        splits = family.splits
        large = splits.is_large
        for kind, wanted in (("dense", False), ("MoE", True)):
            mask: Mask = large & family.chosen(lambda r, wanted=wanted: is_moe(r) == wanted)
            taught = Errors.of(splits.small[mask])
            if taught:
                name = f"{family.family}, {kind}, above {splits.small_devices}"
                rows.append([name, str(taught.count), cell(Errors.of(splits.fitted[mask])), cell(taught)])
    return table(("devices", "runs", "fitted", "fitted to smaller ones alone"), rows)


def framework_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        splits = family.splits
        for stack in sorted({r.workload.software.stack for r in family.used}):
            mask = family.chosen(lambda r, stack=stack: r.workload.software.stack == stack)
            left_out = Errors.of(family.nested("framework")[mask])
            assert left_out is not None
            fitted = cell(Errors.of(splits.fitted[mask]))
            rows.append([f"{family.family}, {stack}", str(left_out.count), fitted, cell(left_out), f"{100 * left_out.bias:+.1f}"])
    return table(("software", "runs", "fitted", "all of its runs left out", "its bias"), rows)


def fidelity_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        for name, wanted in SCHEDULE_GROUPS.items():
            closed, simulated = family.both_fidelities(wanted)
            if closed is not None:
                rows.append([f"{family.family}, {name}", str(closed.count), cell(closed), cell(simulated)])
    return table(("pipeline", "runs", "closed form", "simulated"), rows)


def interval_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        bands = {band.kind: band for band in family.calibration.bands}
        publications = [r.origin.publication for r in family.used]
        for kind in ("all", *MODEL_KINDS):
            mask = family.chosen(lambda r, kind=kind: kind in ("all", model_kind(r.workload)))
            band = bands.get(kind)
            if band is None or not mask.any():
                continue
            own = [publication for publication, chosen in zip(publications, mask, strict=True) if chosen]
            weights = [1.0 / own.count(publication) for publication in own]
            shares = (family.inside[mask].mean(), np.average(family.inside[mask], weights=weights))
            width = f"{100 * np.expm1(min(band.low, 0.0)):+.0f} % to {100 * np.expm1(max(band.high, 0.0)):+.0f} %"
            counts = (str(len(own)), str(len(set(own))))
            rows.append([f"{family.family}, {kind}", *counts, *(f"{100 * share:.0f} %" for share in shares), width])
    header = ("", "runs", "publications", "inside the interval of the others", "by publication", "shipped interval")
    return table(header, rows)


def coverage_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        for split in SPLITS:
            every = family.covered(split)
            if every is None:
                continue
            of_kinds = [family.covered(split, lambda r, kind=kind: model_kind(r.workload) == kind) for kind in MODEL_KINDS]
            kinds = [f"{100 * found[1]:.0f} % ({found[0]})" if found else "" for found in of_kinds]
            name = SPLIT_NAMES.get(split, split)
            rows.append([f"{family.family}: {name}", str(every[0]), f"{100 * every[1]:.0f} %", *kinds])
    return table(("left out", "runs judged", "inside", *MODEL_KINDS), rows)


def steps_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = [
        [f"{family.family}: {STEP_NAMES[step.kind]}", str(step.num_groups), str(step.num_runs), f"{step.factor:.2f}"]
        for family in families.values()
        for step in family.calibration.steps
    ]
    return table(("unseen", "left out in turn", "runs", "interval wider by"), rows)


def mechanisms_section(family: FamilyAccuracy) -> str:
    """Errors with a mechanism left out, the worst first."""
    found = {name: Errors.of(errors) for name, errors in family.left_out.mechanisms.items()}
    some = sorted(((n, e) for n, e in found.items() if e), key=lambda item: -item[1].mean)
    return table((f"{family.family}: without", "runs", "median / mean error"), [[n, str(e.count), cell(e)] for n, e in some])


def memory_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        after, peaks = family.memory_by_rank()
        kinds = {
            **{f"peak, {basis.replace('_', ' ')}, largest rank": e for basis, e in family.memory_errors().items()},
            **({"first-iteration peak, by rank": peaks, "what stays after a step, by rank": after} if len(after) else {}),
        }
        for kind, errors in kinds.items():
            size, low = 100 * np.abs(errors), 100 * np.mean(errors < -0.05)
            figures = f"{np.median(size):.1f} / {size.mean():.1f}"
            rows.append(
                [f"{family.family}: {kind}", str(len(errors)), figures, f"{100 * np.median(errors):+.1f}", f"{low:.0f} %"]
            )
    return table(("memory", "runs or ranks", "median / mean error", "bias", "under-estimated by more than 5 %"), rows)


def sure_section(families: dict[str, FamilyAccuracy]) -> str:
    found = LeftOutPeaks.of(families.values())
    rows = []
    for kind, mask in found.kinds.items():
        shares = [found.shares(mask, level) for level in SURE_LEVELS]
        band = found.bands[kind]
        width = f"{100 * np.expm1(band.low):+.0f} % to {100 * np.expm1(band.high):+.0f} %"
        cells = [f"{100 * by_run:.0f} / {100 * by_shape:.0f} %" for by_run, by_shape in shares]
        rows.append([kind, str(int(mask.sum())), str(found.num_shapes(mask)), *cells, width])
    header = ("held where it was", "peaks", "architectures", *(f"{100 * p:g} % sure" for p in SURE_LEVELS))
    return table((*header, "shipped 80 % interval"), rows)


def refused_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        over, refused, measured, refused_measured = family.refused_runs()
        counts = [str(len(family.records)), str(over), str(refused), str(measured), str(refused_measured)]
        rows.append([family.family, *counts])
    header = ("runs that took place", "runs", "predicted above the limit", "refused at 90 %", "with a measured peak")
    return table((*header, "of them refused"), rows)


def order_section(families: dict[str, FamilyAccuracy]) -> str:
    rows = []
    for family in families.values():
        groups = family.plan_groups()
        published = [g for g in groups if g.name.startswith("vtrain")]
        bubbles = [g for g in groups if g.name.startswith("zerobubble")]
        others = [g for g in groups if g not in bubbles]
        chosen = [(f"{family.family}, all", groups)]
        if bubbles:
            chosen += [(f"{family.family}, without zero-bubble schedules", others)]
            chosen += [(f"{family.family}, {group.name}", [group]) for group in published]
            chosen += [(f"{family.family}, zero-bubble groups", bubbles)]
        for name, some in chosen:
            pairs = [pair for group in some for pair in group.pairs]
            regrets = [group.regret_fraction for group in some]
            rows.append(
                [name, str(len(some)), str(len(pairs)), f"{100 * np.mean(pairs):.1f} %", f"{100 * np.mean(regrets):.1f} %",
                 f"{100 * max(regrets):.1f} %"]
            )  # fmt: skip
    return table(("groups that differ in their plan only", "groups", "pairs", "in order", "mean regret", "worst regret"), rows)


def peers_section(gpu: FamilyAccuracy) -> str:
    def ours(source: str) -> str:
        errors = Errors.of(gpu.publication[gpu.chosen(GPU_SOURCES[source])])
        assert errors is not None
        return f"{100 * errors.mean:.1f} % mean, {100 * errors.median:.1f} % median ({errors.count} runs)"

    memory = gpu.memory_errors()["allocated"]
    return PEERS_HEAD.format(
        vtrain=ours("vTrain, several nodes"),
        simumax=ours("SimuMax"),
        korthikanti=ours("Korthikanti"),
        memory=f"{100 * np.abs(memory).mean():.1f} % mean ({len(memory)} runs)",
    )


def ablation_section(family: FamilyAccuracy) -> str:
    base, *held = family.left_out.ablations
    free = {entry.name: entry.value for entry in family.calibration.fitted}

    def worth(ablation: Ablation) -> float:
        return max((pair[1] for pair in (ablation.at_neutral, ablation.switched_off) if pair), default=0.0)

    acts = [a for a in held if any(pair_cell(p) != pair_cell(base.switched_off) for p in (a.at_neutral, a.switched_off) if p)]
    idle = ", ".join(f"`{a.name}`" for a in held if a not in acts)
    values = {name: getattr(family.calibration.constants, name) for name in (a.name for a in held)}
    rows = [
        [f"`{a.name}`", "fitted" if a.name in free else "prior", f"{values[a.name]:.4g}", pair_cell(a.at_neutral),
         pair_cell(a.switched_off)]
        for a in sorted(acts, key=worth, reverse=True)
    ]  # fmt: skip
    every = ABLATED_EVERY[family.family]
    sample = "" if every == 1 else f", one in {every} of each architecture"
    title = f"{family.family} ({len(family.used)} runs{sample}): {pair_cell(base.switched_off)} with everything"
    shown = table(("constant", "basis", "value", "as without runs", "mechanism off"), rows)
    return f"{title}\n\n{shown}\nWithout effect on the pooled error of these runs: {idle}.\n"


def pair_cell(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else f"{100 * pair[0]:.1f} / {100 * pair[1]:.1f}"


def worst_section(family: FamilyAccuracy) -> str:
    errors, rows = family.publication, []
    for i in np.argsort(-np.abs(errors))[:SHOWN_WORST]:
        record = family.used[i]
        found, _ = predict(record, family.calibration.constants, breakdown=True)
        assert found.breakdown is not None
        shares = {name: float(part[0] / found.step_time_s[0]) for name, part in found.breakdown.time_s.items()}
        largest = sorted(shares.items(), key=lambda item: -item[1])[:3]
        parts = ", ".join(f"{name.replace('_', ' ')} {share:.0%}" for name, share in largest)
        why = next((text for prefix, text in EXPLANATIONS.items() if record.id.startswith(prefix)), "unexplained")
        rows.append([f"`{record.id}`", f"{100 * np.expm1(errors[i]):+.0f} %", parts, why])
    return table((family.family, "error", "largest parts of the prediction", "likely why"), rows)


def plot(family: FamilyAccuracy, groups: dict[str, Wanted], title: str) -> None:
    kinds = {}
    for name, wanted in groups.items():
        mask = family.chosen(wanted)
        measured = np.array([r.measured.step_time_s for r in family.used], dtype=np.float64)[mask]
        kinds[name] = list(zip(measured.tolist(), (measured * np.exp(family.publication[mask])).tolist(), strict=True))
    path = IMAGES / f"accuracy_{family.family}.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(scatter_svg(title, kinds), encoding="utf-8")


def page(families: dict[str, FamilyAccuracy], goals: Reached) -> str:
    ascend, gpu = families["ascend"], families["gpu"]
    unsure = {f"{c.replace('_', ' ')}, unclear too": in_category(c, sure=False) for c in CATEGORIES}
    untaught = [
        [name, str(e.count), cell(e), f"{100 * e.bias:+.1f}", cell(gpu.untaught(w, ROLLING))]
        for name, w in UNTAUGHT.items()
        if (e := gpu.untaught(w))
    ]
    return HEAD.format(
        ascend_rows=len(ascend.records) + ascend.num_refused,
        ascend_used=len(ascend.used),
        gpu_rows=len(gpu.records) + gpu.num_refused,
        gpu_used=len(gpu.used),
        ascend_constants=len(ascend.calibration.fitted),
        gpu_constants=len(gpu.calibration.fitted),
        blind=blind_table(BlindRuns()),
        opened=blind_table(BlindRuns("opened")),
        release=BlindRuns().release,
        aims=aims_table(goals, ENGLISH),
        ascend=errors_table(ascend, {**ASCEND_GROUPS, **unsure, EVERY_RUN: lambda r: True}),
        gpu=errors_table(gpu, {**GPU_GROUPS, "all": lambda r: True}),
        sources=errors_table(gpu, GPU_SOURCES),
        untaught=table(("8 and 4 bits", "runs", "publication left out", "its bias", "rolling origin"), untaught),
        splits=splits_section(families),
        tuned=len(TUNED),
        steps=steps_section(families),
        mechanisms="\n".join(map(mechanisms_section, families.values())),
        frameworks=framework_section(families),
        fidelities=fidelity_section(families),
        small=small_section(families),
        intervals=interval_section(families),
        coverage=coverage_section(families),
        memory=memory_section(families),
        sure=sure_section(families),
        refused=refused_section(families),
        ran=ran_section(),
        order=order_section(families),
        peers=peers_section(gpu),
        ablations="\n".join(map(ablation_section, families.values())),
        worst="\n".join(map(worst_section, families.values())),
        not_covered=NOT_COVERED,
    )


def main() -> None:
    families = {name: FamilyAccuracy(name) for name in ("ascend", "gpu")}
    for family in families.values():  # a run is in the plot once, under its own kind
        groups = ASCEND_GROUPS if family.family == "ascend" else GPU_GROUPS
        shown = (
            {n: in_category(c, sure=False) for n, c in zip(groups, CATEGORIES, strict=True)}
            if groups is ASCEND_GROUPS
            else groups
        )
        plot(family, shown, f"Predicted against measured step time, {family.family}")
        write_rows(family)
    nested = reached(families)
    goals = Reached(nested, reached(families, ROLLING))
    PAGE.write_text(page(families, goals), encoding="utf-8")
    CHINESE_AIMS.write_text(CHINESE_PAGE.format(aims=aims_table(goals, CHINESE)), encoding="utf-8")
    for name, line in (("README.md", readme_line(nested)), ("README.zh.md", chinese_line(nested))):
        path = ROOT / name
        path.write_text(with_line(path.read_text(encoding="utf-8"), line), encoding="utf-8")


if __name__ == "__main__":
    main()
