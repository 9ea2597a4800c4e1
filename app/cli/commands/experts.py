"""``meshplan experts``: placement of experts on ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json, Overwrite
from app.exit_codes import DONE
from documents.sentences import Sentence

commands = typer.Typer(no_args_is_help=True, help="Experts of MoE layers: forecasts of their loads, and placements that pay.")

GENERATED = "generated"


@commands.callback()
def _group() -> None:
    """Experts of MoE layers."""


@commands.command("plan")
def plan(
    loads: Annotated[
        str,
        typer.Argument(
            metavar="LOADS", help="tokens by step, layer and expert: a CSV, NPZ or JSON file, a folder; or `generated`"
        ),
    ],
    job: Annotated[str, typer.Option("--job", help="job file with a strategy")],
    valid_steps: Annotated[
        int | None, typer.Option(help="steps that pay for the moves, until the next plan (default 50)")
    ] = None,
    steps_held_back: Annotated[
        int | None, typer.Option(help="last steps that judge a plan (default: --valid-steps, or half the log)")
    ] = None,
    max_copies: Annotated[
        int | None, typer.Option(help="slots that each rank may get for copies of hot experts (default 1; 0: none)")
    ] = None,
    placement: Annotated[
        Path | None, typer.Option(help="map of where experts lie now, MindSpeed's or EPLB's (default: in order)")
    ] = None,
    write_maps: Annotated[Path | None, typer.Option(metavar="DIR", help="folder for the maps of MindSpeed and EPLB")] = None,
    overwrite: Overwrite = False,
    generate_steps: Annotated[int | None, typer.Option(help="with `generated`: steps of the trace (default 50)")] = None,
    domains: Annotated[int | None, typer.Option(help="with `generated`: domains of the data in a step (default 4)")] = None,
    early: Annotated[bool, typer.Option("--early", help="with `generated`: loads drift as early in a training")] = False,
    seed: Annotated[int | None, typer.Option(help="with `generated`: of its draws (default 0)")] = None,
    as_json: Json = False,
) -> int:
    """Forecasts the loads of experts and plans which to move or copy; what does not pay for its moves stays."""
    from app.calibrations.constants import own_calibrations
    from app.experts.counts import read_counts
    from app.experts.maps import check_maps, read_map
    from app.experts.maps import write_maps as write
    from app.experts.schemas import GeneratedLoads, PlanTerms
    from app.experts.service import expert_plan_document, expert_strategy, generated
    from app.experts.tables import print_expert_plan
    from app.jobs.job import load_job
    from app.text import terminal
    from documents.checking import check
    from documents.errors import InputError
    from search.experts.placement import Placement

    check_maps(write_maps, overwrite=overwrite)
    drawn = {"steps": generate_steps, "domains": domains, "early": early or None, "seed": seed}
    flags = {"steps": "--generate-steps", "domains": "--domains", "early": "--early", "seed": "--seed"}
    for name, value in drawn.items():
        if loads != GENERATED and value is not None:
            raise InputError(Sentence("{}: given beside {}; it is for `generated` loads.", flags[name], loads))
    limits = {"valid_steps": valid_steps, "steps_held_back": steps_held_back, "max_copies": max_copies}
    terms = check(PlanTerms, limits, labels={name: f"--{name.replace('_', '-')}" for name in limits})
    wanted = check(GeneratedLoads, drawn, labels=flags)
    given = load_job(job, {}, {})
    strategy, model = expert_strategy(given), given.workload.model
    counts = generated(given, wanted) if loads == GENERATED else read_counts(Path(loads), model)
    current = None if placement is None else read_map(placement, model, strategy.ep)
    document = expert_plan_document(given, counts, terms, current, own_calibrations(given))
    if write_maps is not None:
        import numpy as np

        for path in write(write_maps, Placement(np.array(document.placement)), document.num_experts):
            terminal.messages().print(Sentence("Written to {}", path), markup=False)
    terminal.answer(document, as_json, lambda console: print_expert_plan(console, document))
    return DONE


@commands.command("simulate")
def simulate(
    job: Annotated[str, typer.Option("--job", help="job file with a strategy")],
    steps: Annotated[int | None, typer.Option(help="of the training (default: those of its tokens, or 20,000)")] = None,
    valid_steps: Annotated[int | None, typer.Option(help="steps between two looks at the loads (default 50)")] = None,
    max_copies: Annotated[
        int | None, typer.Option(help="slots that each rank may get for copies of hot experts (default 1; 0: none)")
    ] = None,
    domains: Annotated[int | None, typer.Option(help="domains of the data in a step (default 4)")] = None,
    seed: Annotated[int | None, typer.Option(help="of the draws (default 0)")] = None,
    as_json: Json = False,
) -> int:
    """Plays a training whose expert loads drift: in order, planned once, and planned again where that pays."""
    from app.calibrations.constants import own_calibrations
    from app.experts.drift import expert_drift_document, print_expert_drift
    from app.experts.schemas import DriftTerms
    from app.jobs.job import load_job
    from app.text import terminal
    from documents.checking import check

    values = {"steps": steps, "valid_steps": valid_steps, "max_copies": max_copies, "domains": domains, "seed": seed}
    terms = check(DriftTerms, values, labels={name: f"--{name.replace('_', '-')}" for name in values})
    given = load_job(job, {}, {})
    document = expert_drift_document(given, terms, own_calibrations(given))
    terminal.answer(document, as_json, lambda console: print_expert_drift(console, document))
    return DONE
