"""The flags that several commands share, and the job fields that they set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from app.cli import completion
from cost_models.shapes.optimizers import OPTIMIZERS, STATE_BYTES, TpMode
from cost_models.shapes.precision import RECIPES
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.software_options import HOST, OPERATORS, OPTION_NAMES
from cost_models.shapes.training_task import Task
from documents.errors import InputError, show, unknown_name
from documents.sentences import Sentence

if TYPE_CHECKING:
    from app.jobs.job import Job

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="a preset's name, a config.json, or a job file (YAML or JSON)", autocompletion=completion.models
    ),
]
Calibration = Annotated[
    Path | None, typer.Option("--calibration", help="file that `meshplan calibrate` wrote, in place of the shipped constants")
]
# Values that a launch script does not state.
VocabSize = Annotated[int | None, typer.Option(help="rows of the embedding, where the script leaves them to the tokenizer")]
Values = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="a variable of the environment; 1=VALUE is the script's first argument"),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(metavar="ARG=ignored", help="an argument of the script to ignore although the price depends on it"),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|HISTOGRAM|MEAN:MAX",
        help="lengths of samples that are packed into sequences: a file, LENGTH:COUNT pairs with commas, or MEAN:MAX",
    ),
]
Files = Annotated[list[Path] | None, typer.Option("--with", metavar="FILE", help="a file that the script sources")]
CALIBRATION_FIELD = {"calibration": ("software", "calibration")}
Executor = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="who works on it: serial, process://N or dask://HOST:PORT (default: processes on all cores once it takes a while)",
    ),
]
EXECUTOR_AND_SERVER = Sentence("--executor: given beside --server, which works by itself; give one of the two.")
Json = Annotated[bool, typer.Option("--json", help="one JSON document on standard output")]
# Parts of an answer that are printed after its first lines.
Details = Annotated[bool, typer.Option("--details", help="print the whole answer after its first lines")]


def _show(sections: str) -> Any:
    return typer.Option(
        "--show", metavar="SECTIONS", help=f"print these sections after the first lines, between commas: {sections}"
    )


Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace the file to write, if it exists already")]


# Sections that the tables of an answer have; help names them without the tables, which take long to load.
SearchSections = Annotated[
    list[str] | None, _show("warnings, evidence, physics, counts, switches, plans, reasons, assumptions, rejections")
]
EstimateSections = Annotated[
    list[str] | None, _show("warnings, evidence, time, memory, software, simulation, tensors, runs, assumptions")
]
TuneSections = Annotated[list[str] | None, _show("warnings, passed, evidence, assumptions, diff")]
ExplainSections = Annotated[list[str] | None, _show("warnings, evidence, beside, changes, sensitivity, assumptions")]
# Labels of a study on a server.
Server = Annotated[
    str | None, typer.Option(metavar="URL", help="run it on this server (key in MESHPLAN_API_KEY)", rich_help_panel="Server")
]
Name = Annotated[str | None, typer.Option(help="what the server calls the study", rich_help_panel="Server")]
Tag = Annotated[
    list[str] | None, typer.Option(metavar="WORDS", help="under which to find it; may be repeated", rich_help_panel="Server")
]
Note = Annotated[str | None, typer.Option(help="plain text to keep with the study", rich_help_panel="Server")]


def _job_option(
    kind: Any, section: str, field: str, text: str, completed: Callable[[str], list[str]] | None = None
) -> tuple[Any, tuple[str, str]]:
    return Annotated[kind, typer.Option(help=text, rich_help_panel="Job", autocompletion=completed)], (section, field)


_TEXT, _COUNT, _NUMBER, _NAMES = str | None, int | None, float | None, list[str] | None
# Parameter -> type for typer, and (section, path in it) of the job: flags of every command that takes a job as flags.
_JOB_OPTIONS: dict[str, tuple[Any, tuple[str, str]]] = {
    "hardware": _job_option(_TEXT, "cluster", "hardware", "profile name or file", completion.hardware),
    "devices": _job_option(_COUNT, "cluster", "num_devices", "number of devices"),
    "devices_per_node": _job_option(_COUNT, "cluster", "devices_per_node", "devices of a node, where it has fewer than usual"),
    "inter_node_bytes_per_s": _job_option(
        _NUMBER, "cluster", "inter_node_bytes_per_s", "one device's share of the network between nodes"
    ),
    "seq_length": _job_option(_COUNT, "training", "seq_length", "tokens of a sequence"),
    "global_batch_size": _job_option(_COUNT, "training", "global_batch_size", "sequences in a step"),
    "precision": _job_option(_TEXT, "training", "precision", "bf16, fp16, fp8, ..."),
    "fp8_recipe": _job_option(_TEXT, "training", "fp8_recipe", f"how operands in 8 bits are scaled: {', '.join(RECIPES)}"),
    "fp8_param_gather": _job_option(
        bool | None, "training", "fp8_param_gather", "a sharded optimizer gathers weights in 8 bits and keeps none in 16"
    ),
    "train_tokens": _job_option(_NUMBER, "training", "train_tokens", "token budget, for days"),
    "task": _job_option(_TEXT, "training", "task", f"what is trained: {', '.join(Task)}"),
    "optimizer": _job_option(_TEXT, "training", "optimizer", f"what updates the weights: {', '.join(OPTIMIZERS)}"),
    "muon_tp_mode": _job_option(_TEXT, "training", "muon_tp_mode", f"matrices that tp divides, with muon: {', '.join(TpMode)}"),
    "muon_num_ns_steps": _job_option(_COUNT, "training", "muon_num_ns_steps", "Newton-Schulz steps of muon (default 5)"),
    "main_params_dtype": _job_option(_TEXT, "training", "main_params_dtype", "master weights of adam: fp32 or fp16"),
    "exp_avg_dtype": _job_option(_TEXT, "training", "exp_avg_dtype", f"first moment of adam: {', '.join(STATE_BYTES)}"),
    "exp_avg_sq_dtype": _job_option(_TEXT, "training", "exp_avg_sq_dtype", f"second moment of adam: {', '.join(STATE_BYTES)}"),
    "adapter_rank": _job_option(_COUNT, "training", "adapter.rank", "channels of each adapter, with lora, qlora or dpo"),
    "expert_load_factor": _job_option(_NUMBER, "training", "expert_load_factor", "fullest expert rank over the mean"),
    "expert_counts": _job_option(Path | None, "training", "expert_counts", "JSON file of tokens per expert, by MoE layer"),
    "router_balance": _job_option(_TEXT, "training", "router_balance", f"what balances the router: {', '.join(RouterBalance)}"),
    "expert_capacity_factor": _job_option(
        _NUMBER,
        "training",
        "expert_capacity_factor",
        "what an expert takes, times the mean, before it drops",
    ),
    "stack": _job_option(_TEXT, "software", "stack", "framework whose efficiency applies"),
    "target": _job_option(
        _TEXT,
        "software",
        "target",
        "framework that must be able to run the plan; any: the physics alone",
        completion.targets,
    ),
    "operators": _job_option(_NAMES, "software", "operators", f"packs of faster operators: {', '.join(OPTION_NAMES[OPERATORS])}"),
    "host_options": _job_option(
        _NAMES, "software", "host", f"how an eager host dispatches, all of it: {', '.join(OPTION_NAMES[HOST])}; '': none of it"
    ),
    "cluster_time_factor": _job_option(_NUMBER, "cluster", "time_factor", "multiplies device and communication time (default 1)"),
    "software_time_factor": _job_option(_NUMBER, "software", "time_factor", "multiplies device time (default 1)"),
    "min_headroom": _job_option(_TEXT, "search", "min_headroom", "device memory that must stay free: bytes, 4GiB, or 5% of it"),
    "fit_confidence": _job_option(_NUMBER, "search", "fit_confidence", "how sure a fit must be, 0.5 to 0.99 (default 0.9)"),
    "calibration": (Calibration, CALIBRATION_FIELD["calibration"]),
}
JOB_FIELDS = {name: field for name, (_, field) in _JOB_OPTIONS.items()}


def with_job_options(others: Mapping[str, Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the flags of a job and ``others`` after a command's model; their values are in the context's parameters."""
    flags = {**{name: option for name, (option, _) in _JOB_OPTIONS.items()}, **others}
    return partial(with_flags, flags=flags, behind="model")


def with_flags(
    command: Callable[..., int], *, flags: Mapping[str, Any], behind: str, collected: str | None = None
) -> Callable[..., int]:
    """The command with ``flags`` after a parameter of its own, for typer.

    The command gets their values as the mapping ``collected``, or not at all: they are in the context's parameters too.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in signature(command).parameters.items()
        if name != collected
    ]
    added = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=flag) for name, flag in flags.items()]
    place = 1 + [parameter.name for parameter in own].index(behind)
    parameters = [*own[:place], *added, *own[place:]]

    @wraps(command)
    def run(**given: Any) -> int:
        values = {name: given.pop(name) for name in flags if name in given}
        return command(**given, **({} if collected is None else {collected: values}))

    # What typer reads.
    run.__signature__ = Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def flag(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


def labels(fields: Mapping[str, tuple[str, str]], given: Mapping[str, Any]) -> dict[str, str]:
    """Names of the job's fields for the user: the flag, if the field has one."""
    missing = ("hardware", "devices", "seq_length", "global_batch_size")
    return {
        Sentence("{}.{}", section, field): flag(name)
        if given.get(name) is not None
        else Sentence("{}.{} ({})", section, field, flag(name))
        for name, (section, field) in fields.items()
        if given.get(name) not in (None, (), []) or name in missing
    }


def sections(fields: Mapping[str, tuple[str, str]], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The given flags as parts of a job."""
    found: dict[str, dict[str, Any]] = {}
    for name, (section, field) in fields.items():
        if given.get(name) not in (None, (), []):  # a repeatable flag that was not given
            *path, last = (section, *field.split("."))
            place: dict[str, Any] = found
            for key in path:
                place = place.setdefault(key, {})
            place[last] = _as_in_a_job(given[name])
    return found


def _as_in_a_job(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return [name for name in names(value) if name]
    return str(value) if isinstance(value, Path) else value


def assignments(given: list[str], example: str) -> dict[str, str]:
    """Each ``--switch NAME=VALUES`` by the feature's name; ``example`` is for the message about a malformed one."""
    found = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals:
            raise InputError(Sentence("--switch: {} is not allowed; give a feature and {}.", show(text), example))
        found[name.strip().replace("-", "_")] = values.strip()
    return found


def study_labels(server: str | None, name: str | None, tag: list[str] | None, note: str | None) -> dict[str, Any]:
    """Labels of a study on a server; empty without a server."""
    given = {"name": name, "tag": tag, "note": note}
    for parameter, value in given.items():
        if value and server is None:
            raise InputError(Sentence("{}: only a server keeps studies, which it labels; give --server, too.", flag(parameter)))
    return {"name": name or "", "tags": [each for each in names(tag or ()) if each], "note": note or ""}


def sections_shown(details: bool, asked: Iterable[str] | None, known: Sequence[str], also: Iterable[str] = ()) -> list[str]:
    """The sections of an answer to print, in its order; ``also`` are those that other flags ask for."""
    wanted = {*names(asked or ()), *also}
    for name in wanted:
        if name not in known:
            raise unknown_name("--show", name, known, what=Sentence("section"))
    return [name for name in known if details or name in wanted]


def names(given: Iterable[str]) -> list[str]:
    """The names in a flag that is repeated or has commas."""
    return [name.strip() for text in given for name in text.split(",")]


def _word(text: str) -> int | bool | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def limit(text: str, parameter: str) -> Any:
    """A flag such as ``8``, ``1,2,4``, ``2..8`` or ``full,none``, in the form of a job."""
    low, dots, high = text.partition("..")
    if dots:
        ends = {name: _word(end.strip()) for name, end in (("min", low), ("max", high)) if end.strip()}
        if not ends:
            raise InputError(
                Sentence("{}: {} is not allowed; give a range such as 2..8, 2.. or ..8.", flag(parameter), show(text))
            )
        return ends
    words = [_word(word.strip()) for word in text.split(",")]
    return words[0] if len(words) == 1 else words


def with_lengths(given: str | None, sections: dict[str, dict[str, Any]], job: Callable[[], Job]) -> dict[str, dict[str, Any]]:
    """The sections with the share of attention that packed samples of given lengths have, in the job's sequences."""
    if given is None:
        return sections
    from app.sequences.packing import packed_fraction

    fraction = packed_fraction(given, job().workload.training.seq_length)
    return {**sections, "training": {**sections.get("training", {}), "mean_squared_length_fraction": fraction}}
