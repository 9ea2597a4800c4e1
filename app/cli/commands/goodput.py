"""``meshplan goodput``: throughput of a plan on a site with failures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.commands import options
from app.cli.commands.estimate import STRATEGY, job_of_flags
from app.exit_codes import DONE
from documents.errors import InputError
from documents.sentences import Sentence

_SITE = "Site"


def _flag(kind: Any, text: str) -> Any:
    return Annotated[kind, typer.Option(help=text, rich_help_panel=_SITE)]


_NUMBER, _COUNT = float | None, int | None
SITE = {
    "mtbf": _flag(str | None, Sentence("mean time between interruptions of this job, as in 3.1h or 45min")),
    "failures_per_node_day": _flag(_NUMBER, Sentence("interruptions by a node and its software (default 4e-3)")),
    "recovery": _flag(str | None, Sentence("how far the job is taken down: job (default), pod, process, step")),
    "dying_gasp": _flag(bool | None, Sentence("a checkpoint after each fault that leaves a replica whole")),
    "elastic": _flag(bool | None, Sentence("goes on with fewer replicas where no spare is left")),
    "detection": _flag(str | None, Sentence("from a fault until it is noticed (default 60s)")),
    "checkpoint_interval": _flag(str | None, Sentence("useful time between checkpoints (default: the best)")),
    "in_memory_interval": _flag(str | None, Sentence("between copies of the state in other nodes' memory (default: none)")),
    "storage_bytes_per_s": _flag(_NUMBER, Sentence("write and read bandwidth of storage (default 1e11)")),
    "spares": _flag(_COUNT, Sentence("spare nodes (default 2 %)")),
    "repair": _flag(str | None, Sentence("until a node is back (default 3d)")),
    "price_per_device_hour": _flag(_NUMBER, Sentence("USD; default: what the profile's price of purchase makes")),
    "price_per_kwh": _flag(_NUMBER, Sentence("USD (default: not counted)")),
    "pue": _flag(_NUMBER, Sentence("power of the site over that of its machines (default 1.25)")),
    "co2_kg_per_kwh": _flag(_NUMBER, Sentence("default: not counted")),
    "histories": _flag(_COUNT, Sentence("simulated for the quantiles (default 2000)")),
    "seed": _flag(_COUNT, Sentence("of the simulated histories (default 0)")),
}
# Flag -> fields of the section with another name.
_FIELDS = {
    "mtbf": ("mtbf_s",),
    "detection": ("detection_s",),
    "checkpoint_interval": ("checkpoint_interval_s",),
    "in_memory_interval": ("in_memory_interval_s",),
    "storage_bytes_per_s": ("storage_write_bytes_per_s", "storage_read_bytes_per_s"),
    "repair": ("repair_s",),
    "price_per_device_hour": ("price_per_device_hour_usd",),
    "price_per_kwh": ("price_per_kwh_usd",),
}
_TIMES = ("mtbf", "detection", "checkpoint_interval", "in_memory_interval", "repair")


@options.with_job_options({**STRATEGY, **SITE})
def goodput(
    context: typer.Context,
    model: options.Model,
    delivery: Annotated[Path | None, typer.Option(help="YAML or JSON of the site; flags go before it")] = None,
    failure_log: Annotated[
        Path | None, typer.Option(help="CSV of interruptions (a column `time`), in place of a rate; with --log-nodes")
    ] = None,
    log_nodes: Annotated[int | None, typer.Option(help="nodes that the log covers")] = None,
    log_days: Annotated[
        float | None, typer.Option(help="days that the log covers (default: from its first to its last line)")
    ] = None,
    executor: options.Executor = None,
    details: options.Details = False,
    as_json: options.Json = False,
) -> int:
    """Tokens a day, days and cost of a plan on a site whose nodes fail; without a strategy, of the plan that delivers most."""
    from app.calibrations.constants import own_calibrations
    from app.cli.searching import searching
    from app.goodput.failure_log import read_failure_log
    from app.goodput.service import goodput_document
    from app.goodput.tables import print_goodput
    from app.jobs.job import load_job
    from app.jobs.written_numbers import given_number
    from app.text import terminal
    from documents.reading import read_document

    params = context.params
    sections, labels = job_of_flags(context)
    values = {} if delivery is None else dict(read_document(delivery))
    rates = {"--mtbf": params["mtbf"], "--failures-per-node-day": params["failures_per_node_day"], "--failure-log": failure_log}
    given = [flag for flag, value in rates.items() if value is not None]
    if len(given) > 1:
        raise InputError(Sentence("{}: given beside {}; give one of the two.", given[0], given[1]))
    if given:
        values |= {"mtbf_s": None, "failures_per_node_day": None}  # the flag replaces the value of the file
    for name in SITE:
        if params.get(name) is None:
            continue
        value = params[name]
        if name in _TIMES:
            value = given_number(value, "time_s", options.flag(name), needs_unit=value != "0")
        for field in _FIELDS.get(name, (name,)):
            values[field] = value
            labels[f"delivery.{field}"] = options.flag(name)
    if (failure_log is None) != (log_nodes is None) or (log_days is not None and failure_log is None):
        raise InputError(
            Sentence("--failure-log: give it together with --log-nodes, and with --log-days if the log does not tell.")
        )
    told = None
    if failure_log is not None and log_nodes is not None:
        told = read_failure_log(failure_log, log_nodes, log_days)
        values["failures_per_node_day"] = told.per_node_day
    job = load_job(model, {**sections, "delivery": values}, labels)
    with searching(executor) as (on_progress, workers):
        document = goodput_document(job, own_calibrations(job), on_progress=on_progress, log=told, executor=workers)
    terminal.answer(document, as_json, lambda console: print_goodput(console, document, details=details))
    return DONE
