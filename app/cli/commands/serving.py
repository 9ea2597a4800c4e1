"""``meshplan serving``: latency, throughput and layouts of an inference service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.commands import options
from app.exit_codes import DONE
from documents.errors import InputError, show
from documents.sentences import Sentence, joined

commands = typer.Typer(no_args_is_help=True, help="Inference: prefill and decode pools, their layouts, TTFT and TPOT.")

_SERVING = "Serving"
_SHORT = {"tp": "tp", "pp": "pp", "dp": "dp", "ep": "ep", "x": "instances", "r": "redundant_experts"}


_HARDWARE = Annotated[str | None, typer.Option(help="profile name or file", rich_help_panel=_SERVING)]
_DEVICES = Annotated[int | None, typer.Option(help="devices of the cluster", rich_help_panel=_SERVING)]
_PROMPT = Annotated[int | None, typer.Option(help="tokens of a prompt", rich_help_panel=_SERVING)]
_RESPONSE = Annotated[int | None, typer.Option(help="tokens of a response", rich_help_panel=_SERVING)]
_CONCURRENCY = Annotated[
    int | None,
    typer.Option(help="requests that decode at once (default: the most that limits and memory allow)", rich_help_panel=_SERVING),
]
_PRECISION = Annotated[str | None, typer.Option(help="of linear layers: bf16 (default), fp8, int8", rich_help_panel=_SERVING)]
_TTFT = Annotated[float | None, typer.Option(help="limit of the time to the first token, in seconds", rich_help_panel=_SERVING)]
_TPOT = Annotated[float | None, typer.Option(help="limit of the time per output token, in seconds", rich_help_panel=_SERVING)]
_OVERLAP = Annotated[str | None, typer.Option(help="none (default), exchange, streams, fastest", rich_help_panel=_SERVING)]
_DRAFTS = Annotated[int | None, typer.Option(help="draft tokens a step (default 0)", rich_help_panel=_SERVING)]
_ACCEPTANCE = Annotated[
    float | None, typer.Option(help="share of draft tokens that are accepted (default 0.7)", rich_help_panel=_SERVING)
]
_EXECUTION = Annotated[str | None, typer.Option(help="graph (default) or eager", rich_help_panel=_SERVING)]
_ASYNCHRONOUS = Annotated[
    bool | None, typer.Option("--asynchronous", help="a step is scheduled while another runs", rich_help_panel=_SERVING)
]
_TOP = Annotated[int | None, typer.Option(help="plans to report (default 10)", rich_help_panel=_SERVING)]
_LAYOUT = Sentence("layout as in tp4,dp8,x2: x instances, ep = tp x dp where dp is above 1, r copies of experts")
_DECODE = Annotated[str | None, typer.Option(help=f"decode: {_LAYOUT}", rich_help_panel=_SERVING)]
_PREFILL = Annotated[str | None, typer.Option(help=f"prefill, of instances of their own: {_LAYOUT}", rich_help_panel=_SERVING)]


@commands.callback()
def _group() -> None:
    """Inference of a model."""


@commands.command("estimate")
def estimate(
    model: options.Model,
    hardware: _HARDWARE = None,
    devices: _DEVICES = None,
    prompt_tokens: _PROMPT = None,
    response_tokens: _RESPONSE = None,
    concurrency: _CONCURRENCY = None,
    precision: _PRECISION = None,
    ttft_limit: _TTFT = None,
    tpot_limit: _TPOT = None,
    overlap: _OVERLAP = None,
    draft_tokens: _DRAFTS = None,
    acceptance: _ACCEPTANCE = None,
    execution: _EXECUTION = None,
    asynchronous: _ASYNCHRONOUS = None,
    decode: _DECODE = None,
    prefill: _PREFILL = None,
    calibration: options.Calibration = None,
    details: options.Details = False,
    as_json: options.Json = False,
) -> int:
    """TTFT, TPOT and tokens/s of given layouts, what bounds them, and what memory holds."""
    from app.serving.job import load_serving_job
    from app.serving.service import serving_document
    from app.serving.tables import print_serving
    from app.text import terminal

    given = dict(locals())
    job = load_serving_job(model, *_sections(given))
    document = serving_document(job)
    terminal.answer(document, as_json, lambda console: print_serving(console, document, details=details))
    return DONE


@commands.command("search")
def search(
    model: options.Model,
    hardware: _HARDWARE = None,
    devices: _DEVICES = None,
    prompt_tokens: _PROMPT = None,
    response_tokens: _RESPONSE = None,
    concurrency: _CONCURRENCY = None,
    precision: _PRECISION = None,
    ttft_limit: _TTFT = None,
    tpot_limit: _TPOT = None,
    overlap: _OVERLAP = None,
    draft_tokens: _DRAFTS = None,
    acceptance: _ACCEPTANCE = None,
    execution: _EXECUTION = None,
    asynchronous: _ASYNCHRONOUS = None,
    top: _TOP = None,
    calibration: options.Calibration = None,
    executor: options.Executor = None,
    details: options.Details = False,
    as_json: options.Json = False,
) -> int:
    """The layouts and the split between prefill and decode with most tokens/s within the limits."""
    from app.answers.executors import opened
    from app.serving.job import load_serving_job
    from app.serving.service import serving_search_document
    from app.serving.tables import print_serving_search
    from app.text import terminal

    given = dict(locals())
    job = load_serving_job(model, *_sections(given))
    with opened(executor, "--executor") as workers:
        document = serving_search_document(job, workers)
    terminal.answer(document, as_json, lambda console: print_serving_search(console, document, details=details))
    return DONE


# Flag -> section and field of the job.
_FIELDS = {
    "hardware": ("cluster", "hardware"),
    "devices": ("cluster", "num_devices"),
    "calibration": ("software", "calibration"),
    "ttft_limit": ("serving", "ttft_limit_s"),
    "tpot_limit": ("serving", "tpot_limit_s"),
    **{
        name: ("serving", name)
        for name in (
            "prompt_tokens",
            "response_tokens",
            "concurrency",
            "precision",
            "overlap",
            "draft_tokens",
            "acceptance",
            "execution",
            "asynchronous",
            "top",
            "decode",
            "prefill",
        )
    },
}


def _sections(given: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    for pool in ("decode", "prefill"):
        if given.get(pool) is not None:
            given[pool] = _layout(given[pool], f"--{pool}")
    labels: dict[str, str] = {
        Sentence("{}.{}", section, field): options.flag(name)
        if given.get(name) is not None
        else Sentence("{}.{} ({})", section, field, options.flag(name))
        for name, (section, field) in _FIELDS.items()
        if given.get(name) is not None or name in ("hardware", "devices", "prompt_tokens", "response_tokens")
    }
    return options.sections(_FIELDS, given), labels


def _layout(text: str, flag: str) -> dict[str, int]:
    """Parts such as tp4,dp8,x2."""
    found: dict[str, int] = {}
    for part in text.lower().replace(" ", "").split(","):
        name = part.rstrip("0123456789")
        number = part[len(name) :]
        if name not in _SHORT or not number or len(number) > 7 or _SHORT[name] in found:
            raise InputError(
                Sentence("{}: {} is not allowed; give parts of {}, as in tp4,dp8,x2.", flag, show(text), joined(", ", _SHORT))
            )
        found[_SHORT[name]] = int(number)
    return found
