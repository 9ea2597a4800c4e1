"""What a file that a command refuses is, and which command reads it: one table of kinds, recognised by their content."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from documents.errors import InputError
from documents.late_methods import dataclass
from documents.reading import read_bytes, shown_path
from documents.sentences import Sentence

_MOST_BYTES = 64 * 2**20
_LISTED = "[]"  # the key of a JSON list
_JOB_READERS = ("search", "estimate", "sweep", "explain", "goodput", "check", "verify", "--job", "--suggest")
_LAUNCH_READERS = ("tune", "estimate")
_RECIPE_READERS = ("rl estimate", "rl search")


@dataclass(frozen=True)
class Kind:
    """A kind of file, with ``keys`` at its top or a text that ``start`` matches; ``readers``: commands and flags that take it."""

    said: Sentence
    readers: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()
    start: str = ""

    def holds(self, text: str, keys: set[str]) -> bool:
        """Whether a file of this text, with these keys, is of this kind."""
        return self.keys <= keys if self.keys else re.match(self.start, text, re.IGNORECASE) is not None


# Most telling first.
KINDS = (
    Kind(Sentence("a PDF document"), start="%PDF-"),
    Kind(Sentence("a ZIP archive or an office document"), start="PK\x03\x04"),
    Kind(Sentence("a compressed archive"), ("compare-trace",), start="\x1f\x8b"),
    Kind(Sentence("a picture"), start="\x89PNG"),
    Kind(Sentence("a database"), ("db restore",), start="SQLite format 3"),
    Kind(Sentence("an empty file"), start=r"\s*\Z"),
    Kind(Sentence("a page for a browser, as `meshplan report` writes it"), start=r"\s*<(?:!doctype html|html)"),
    Kind(Sentence("a report for CI, which no command reads"), start=r"\s*<\?xml|### meshplan check"),
    Kind(Sentence("a report for CI, which no command reads"), keys=frozenset({"$schema", "runs", "version"})),
    Kind(Sentence("a table of a sweep, which no command reads"), start="point,hardware,stack,"),
    Kind(
        Sentence("a launch file, which `meshplan tune` and `meshplan estimate` read"),
        _LAUNCH_READERS,
        start=r"(?:#[^\n]*\n){1,9}?# launch: ",
    ),
    Kind(
        Sentence("a script that starts verl, which `meshplan rl` reads"),
        _RECIPE_READERS,
        start=r"#!(?:.|\n)*?-m (?:verl|recipe)\.\w+",
    ),
    Kind(Sentence("a launch script, which `meshplan tune` and `meshplan estimate` read"), _LAUNCH_READERS, start="#!"),
    Kind(Sentence("an answer for people, which no command reads"), start=r"[^\n{:]+(?: on |，)[\d,]+ x [^\n]+\n|# How to train "),
    Kind(Sentence("a profiler's trace, which `meshplan compare-trace` reads"), ("compare-trace",), frozenset({"traceEvents"})),
    Kind(
        Sentence(
            "the answer of a search, which `meshplan report` reads; its plans are jobs in plan-N.job.yaml of the same folder"
        ),
        ("report", "--baseline"),
        frozenset({"plans", "priced_with"}),
    ),
    Kind(
        Sentence("the answer of an estimate or a check, which `meshplan check --baseline` reads"),
        ("--baseline",),
        frozenset({"estimate", "priced_with"}),
    ),
    Kind(
        Sentence("a study of a server, which `meshplan report ID` and the dashboard read"),
        keys=frozenset({"id", "kind", "state"}),
    ),
    Kind(
        Sentence("records of measured runs, which `meshplan validate` and `meshplan calibrate` read"),
        ("validate", "calibrate", "rl validate"),
        frozenset({"measured", "cluster"}),
    ),
    Kind(Sentence("a calibration, which --calibration reads"), ("--calibration",), frozenset({"format", "family", "bands"})),
    Kind(Sentence("counts of a run, which `meshplan verify --counts` reads"), ("--counts",), frozenset({"protocol", "ranks"})),
    Kind(
        Sentence("runs that `meshplan calibrate --suggest` proposes, which no command reads; each has its job"),
        keys=frozenset({"runs", "schema_version"}),
    ),
    Kind(
        Sentence("the answer of another command, which no command reads; its job is under `job`"),
        keys=frozenset({"job", "assumptions", "schema_version"}),
    ),
    Kind(Sentence("a JSON Schema, which editors read"), keys=frozenset({"$schema", "properties"})),
    Kind(Sentence("meshplan's list of the files in a folder"), keys=frozenset({"files"})),
    Kind(Sentence("an order of sequences, which a data loader reads"), keys=frozenset({"step_replica_microbatch_sequence"})),
    Kind(Sentence("the description of a preset; commands take the preset's name"), keys=frozenset({"title", "published"})),
    *(
        Kind(
            Sentence("a hardware profile, which --hardware reads"),
            ("--hardware", "--like", "hardware show", "hardware calibrate"),
            frozenset({key, "name"}),
        )
        for key in ("hbm_bytes", "like")
    ),
    Kind(
        Sentence("a file of MindSpeed-LLM's FSDP2 backend, which `meshplan tune` and `meshplan estimate` read"),
        _LAUNCH_READERS,
        frozenset({"parallel", "training"}),
    ),
    Kind(
        Sentence("a file of MindFormers, which `meshplan tune` and `meshplan estimate` read"),
        _LAUNCH_READERS,
        frozenset({"parallel_config", "runner_config"}),
    ),
    Kind(
        Sentence("a file of MindSpeed-RL, which `meshplan rl` reads"),
        _RECIPE_READERS,
        frozenset({"rl_config", "actor_config"}),
    ),
    Kind(
        Sentence("a configuration of verl, which `meshplan rl` reads"),
        _RECIPE_READERS,
        frozenset({"actor_rollout_ref", "defaults"}),
    ),
    Kind(
        Sentence("a job of post-training, which `meshplan rl` reads"),
        ("rl estimate", "rl search"),
        frozenset({"post_training", "model"}),
    ),
    Kind(
        Sentence("a job of a service, which `meshplan serving` reads"),
        ("serving estimate", "serving search"),
        frozenset({"serving", "model"}),
    ),
    Kind(
        Sentence("a job file, which `meshplan search` and `meshplan estimate` read"),
        _JOB_READERS,
        frozenset({"model", "cluster"}),
    ),
    Kind(Sentence("the model of a job, which a job file takes under `model`"), _JOB_READERS, frozenset({"model"})),
    Kind(
        Sentence("a model's config.json, which `meshplan search` and `meshplan estimate` read"),
        (*_JOB_READERS, "models import", "serving estimate", "serving search"),
        frozenset({"model_type"}),
    ),
    *(
        Kind(Sentence("a budget, which `meshplan check --budget` reads"), ("--budget",), frozenset({key}))
        for key in ("step_time_s", "tokens_per_s", "headroom_bytes", "regression", "mfu_fraction")
    ),
    Kind(
        Sentence("a list without names, which no command reads as this"),
        ("sequences plan", "experts plan", "--lengths", "--expert-counts"),
        frozenset({_LISTED}),
    ),
)
_BINARY = Kind(Sentence("a binary file"), ("experts plan", "db restore", "compare-trace"))
_FLAGS = {reader for kind in KINDS for reader in kind.readers if reader.startswith("--")} | {
    *("--delivery", "--failure-log", "--measurements", "--placement", "--curve", "--op-summary", "--with", "--output"),
}
_WRITTEN = {"--output", "--write-baseline", "--save-dir", "--records", "--timeline", "--out", "--save-counts"}
_LABEL = re.compile(r"^(?:LENGTHS|[\w.]+ \(--[a-z-]+\)): ")  # in front of the path in a message on a field
_YAML_KEY = re.compile(r"^([A-Za-z_]\w*)\s*:", re.M)


def with_kind(error: InputError, arguments: Sequence[str]) -> str:
    """The error's message, with what a file is that was given in the place of another kind of file."""
    message = str(error)
    told = _LABEL.sub("", message)
    places = {arguments[0], " ".join(arguments[:2])} if arguments else set()
    for word, before in zip(arguments, ("", *arguments), strict=False):
        flag, _, value = word.partition("=") if word.startswith("--") else (before, "", word)
        if flag in _WRITTEN or not value:
            continue
        path = Path(value)
        names = (shown_path(path), shown_path(path.absolute()))
        is_about_it = told.startswith((*(f"{name}{end}" for name in names for end in ": "), f"{flag.removeprefix('--')}."))
        kind = _kind(path)
        if kind is None or (flag if flag in _FLAGS else "") in kind.readers:
            continue
        if (flag not in _FLAGS or not is_about_it) and places & {*kind.readers}:
            continue
        if told.startswith(names):
            return Sentence("{}. It is {}.", message.rstrip("."), kind.said)
        return Sentence("{}. {} is {}.", message.rstrip("."), shown_path(path), kind.said)
    return message


def kind_of(path: Path) -> Sentence | None:
    """What the file is; None if it cannot be read or is nothing that is known here."""
    kind = _kind(path)
    return None if kind is None else kind.said


def _kind(path: Path) -> Kind | None:
    try:
        content = read_bytes(path, _MOST_BYTES)
    except InputError:
        return None
    head = content[:4096].decode("latin-1")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return next((kind for kind in KINDS if kind.start and kind.holds(head, set())), _BINARY)
    if path.suffix in (".sh", ".bash", ".slurm", ".sbatch") and not text.startswith("#"):
        text = f"#!\n{text}"
    keys = _keys(text)
    return next((kind for kind in KINDS if kind.holds(text, keys)), None)


def _keys(text: str) -> set[str]:
    """Keys at the top of a JSON or YAML document, or of the first of JSON lines."""
    if text.lstrip()[:1] not in ("{", "["):
        return set(_YAML_KEY.findall(text))
    for part in (text, text.partition("\n")[0]):
        try:
            document = json.loads(part)
        except (ValueError, RecursionError):
            continue
        return set(document) if isinstance(document, dict) else {_LISTED}
    return set()
