"""``meshplan estimate``: time and memory of one strategy."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import options
from app.commands.options import JOB_FIELDS
from app.errors import InputError
from app.exit_codes import DONE

_LAYOUT = "Strategy"
Degree = Annotated[int | None, typer.Option(rich_help_panel=_LAYOUT)]
Choice = Annotated[str | None, typer.Option(rich_help_panel=_LAYOUT)]

STRATEGY_FIELDS = {
    name: ("strategy", name)
    for name in (
        "tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch_size", "cp_algo", "ulysses_degree", "sequence_parallel",
        "zero_stage", "moe_dispatcher", "recompute", "features",
    )
}  # fmt: skip


def estimate(
    context: typer.Context,
    model: options.Model,
    hardware: options.Hardware = None,
    devices: options.Devices = None,
    inter_node_bytes_per_s: options.InterNode = None,
    seq_length: options.SeqLength = None,
    global_batch_size: options.GlobalBatch = None,
    precision: options.Precision = None,
    train_tokens: options.TrainTokens = None,
    expert_load_factor: options.ExpertLoad = None,
    stack: options.Stack = None,
    target: options.Target = None,
    tp: Degree = None,
    pp: Degree = None,
    vpp: Degree = None,
    cp: Degree = None,
    ep: Degree = None,
    etp: Degree = None,
    dp: Degree = None,
    micro_batch_size: Degree = None,
    cp_algo: Choice = None,
    ulysses_degree: Degree = None,
    sequence_parallel: Annotated[bool | None, typer.Option(rich_help_panel=_LAYOUT)] = None,
    zero_stage: Degree = None,
    moe_dispatcher: Choice = None,
    recompute: Annotated[
        str | None, typer.Option(help="none, full, full:K, block:K, or modules joined by '+'", rich_help_panel=_LAYOUT)
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="all switches that are on, comma-separated", rich_help_panel=_LAYOUT)
    ] = None,
    calibration: options.Calibration = None,
    as_json: options.Json = False,
) -> int:
    """Step time and memory of one strategy, to the last part."""
    from app.calibrating import own_calibrations
    from app.job import load_job
    from app.pricing import estimate_document
    from app.reports import terminal
    from app.reports.estimate import print_estimate

    given = dict(context.params)
    if features is not None:
        given["features"] = [name.strip() for name in features.split(",") if name.strip()]
    fields = {**JOB_FIELDS, **STRATEGY_FIELDS}
    job = load_job(model, options.sections(fields, given), options.labels(fields, given))
    if job.strategy is None:
        raise InputError("strategy: missing; give it in the job file, or flags such as --tp 8 --pp 4.")
    document = estimate_document(job, job.strategy, own_calibrations(calibration, job.workload))
    if as_json:
        terminal.write_json(document)
    else:
        print_estimate(terminal.output(), document)
    return DONE
