"""Writes docs/switches.md from the entries of switches.py, recompute_modules.py and software_options.py in cost_models/shapes."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cost_models.shapes.recompute_modules import MODULES
from cost_models.shapes.software_options import HOST, SOFTWARE_OPTIONS, SoftwareOption
from cost_models.shapes.strategy import Schedule
from cost_models.shapes.switches import SWITCHES, Exclusive, Feature, Place, Scope, Switch, alternatives
from frameworks.registry import FRAMEWORKS

HEAD = """# Switches and recompute modules

<!-- Written by scripts/pages/write_switches.py (`make docs`) from tables of cost_models/shapes. -->

A switch that has nothing to act on changes neither price nor legality, and is left out of a plan. *Priced*
names the place of its effect: a layer, the parameters of a rank, the pipeline, the step as a whole, or
nowhere (only launch arguments). *Offered* lists the frameworks that have it; [legality.md](legality.md) has
their further conditions. Sources are keys of [references.md](references.md). Jobs name switches in
`strategy.features`; *default* is the value of a strategy that does not name it. In a hybrid, whose layers have
one block each, a switch acts on the layers that have its block.

*In a search* says which values a search tries if the target offers the switch, unless limits, `allow` or
`forbid` say otherwise. A switch that saves time and costs nothing is on wherever it acts and the target takes
it. A switch that trades time for memory, or memory for time, has its faster setting, and the memory-saving
one where a plan does not fit. The others are left out, for the reason given, and every answer states their
effect on the best plan.

| switch | what it does | acts on | default | in a search | priced | offered | source |
|---|---|---|---|---|---|---|---|
"""

EXCLUSIONS = """
A search tries one at a time of the switches that replace the same thing:

"""

MODULES_HEAD = """
## Recompute modules

A selective recompute drops these tensors from memory, and computes them again in the backward.

| module | what it is | drops | source |
|---|---|---|---|
"""

OPTIONS_HEAD = """
## Operator packs and host options

These are additions of a stack beside its release. Jobs name packs in `software.operators` (`--operators`),
and every option that an eager host has in `software.host` (`--host-options`). Each multiplies named
[constants](model.md#constants), as far as their bounds, or a stop of its own, allow. The calibrated constants
describe the options *in the runs*: a job has them unless it says what else its host has, and pays the inverse
factor if one is missing. `meshplan estimate` gives the effect of each (`software` of `--json`), and the time
that the step waits for the host.

| option | field | what it is | changes | in the runs | devices | basis | source |
|---|---|---|---|---|---|---|---|
"""

ACTS_ON = {
    Scope.TENSOR_PARALLEL: "tp above 1",
    Scope.CONTEXT_PARALLEL: "cp above 1",
    Scope.REPLICAS: "parameters on several ranks",
    Scope.SHARDED_OPTIMIZER: "zero_stage above 0",
    Scope.INTERLEAVED: f"schedule {Schedule.INTERLEAVED.label}",
    Scope.DUALPIPEV: f"schedule {Schedule.DUALPIPE_V.label}",
    Scope.ROUTED: "ep x etp above 1",
    Scope.GATHERED: "dispatcher allgather",
    Scope.EXCHANGED: "any dispatcher but allgather",
    Scope.EXPERTS: "MoE layers",
    Scope.CAPACITY: "a capacity factor",
    Scope.GATED_MLP: "gated MLPs",
    Scope.ROTARY: "rotary positions",
    Scope.SHARED_EXPERTS: "shared experts",
    Scope.STAGED: "dispatcher two_level or hierarchical",
    Scope.INDEXED: "sparse attention",
}
PRICED = {Place.LAYER: "layer", Place.SHARDING: "parameters", Place.PIPELINE: "pipeline", Place.ROW: "step"}


def name(member: Feature) -> str:
    return f"`{str(member.name).lower()}`"


def acts_on(switch: Switch) -> str:
    scopes = [
        scope for scope in Scope if scope in switch.acts_on and not (scope is Scope.EXPERTS and Scope.ROUTED in switch.acts_on)
    ]
    return ", ".join(ACTS_ON[scope] for scope in scopes) or "always"


def option_cells(option: SoftwareOption) -> tuple[str, ...]:
    changes = ", ".join(
        f"`{change.constant}` x {change.factor:.3g}" + ("" if change.stop is None else f", to {change.stop:g} at most")
        for change in option.changes
    )
    field = f"software.{'host' if option.kind == HOST else 'operators'}"
    in_runs = "yes" if option.in_runs else "no"
    devices = option.library.value if option.library else "any"
    return (f"`{option.name}`", f"`{field}`", option.meaning, changes, in_runs, devices, option.basis, option.source[1:-1])


def document() -> str:
    """The page."""
    by_framework: dict[str, Feature] = {}
    for framework in FRAMEWORKS:  # switches that some release offers
        by_framework[framework.name] = by_framework.get(framework.name, Feature(0)) | framework.table.offered
    rows = []
    for feature, switch in SWITCHES.items():
        default = "on" if switch.by_default else "off"
        in_search = switch.in_search.value + (f": {switch.why}" if switch.why else "")
        places = ", ".join(PRICED[place] for place in Place if place in switch.priced) or "nowhere"
        having = ", ".join(framework for framework, features in by_framework.items() if feature in features) or "none"
        cells = (name(feature), switch.meaning, acts_on(switch), default, in_search, places, having, switch.source[1:-1])
        rows.append(f"| {' | '.join(cells)} |\n")
    exclusive = [f"- {kind.value}: {', '.join(name(feature) for feature in alternatives(kind))}\n" for kind in Exclusive]
    modules = [
        f"| `{str(module.name).lower()}` | {entry.meaning} | {', '.join(sorted(entry.drops))} | {entry.source[1:-1]} |\n"
        for module, entry in MODULES.items()
    ]
    options = [f"| {' | '.join(option_cells(option))} |\n" for option in SOFTWARE_OPTIONS]
    return "".join((HEAD, *rows, EXCLUSIONS, *exclusive, MODULES_HEAD, *modules, OPTIONS_HEAD, *options))


if __name__ == "__main__":
    (ROOT / "docs" / "switches.md").write_text(document(), encoding="utf-8")
