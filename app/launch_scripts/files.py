"""Launch scripts on this machine, and the files that they source. They are read, and never run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.launch_scripts.forms import FSDP2_SCRIPT, form_of, is_launch_script
from app.launch_scripts.launch import Given
from app.launch_scripts.named_models import CONFIG
from app.launch_scripts.reading import ReadScript, Sections, read_script_job
from app.launch_scripts.yaml_launch import YAML_LIMITS
from documents.errors import InputError, show
from documents.reading import parse_document, read_text
from documents.sentences import Sentence
from documents.shell.syntax import ShellError
from frameworks.mindformers.table import FOLDER
from hardware_profiles import catalogue

MAX_COMPANIONS = 4
_YAML = re.compile(r"[^\s'\"=]+\.ya?ml\b")
_FOLDER = re.compile(rf"^{FOLDER}:[ \t]*[\"']?([^\"'\s#]+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*|[1-9]\d?")


def load_script(
    path: Path,
    hardware: str,
    *,
    devices: int | None = None,
    target: str | None = None,
    values: Sequence[str] = (),
    files: Sequence[Path] = (),
    sections: Sections | None = None,
    vocab_size: int | None = None,
    assume: Sequence[str] = (),
) -> ReadScript:
    """The job in a script's file; ``values`` are ``NAME=VALUE``, ``files`` are sourced by the script.

    ``assume`` are ``ARGUMENT=ignored``.
    """
    profile = catalogue.profile(hardware)
    text = read_text(path)
    given = Given(str(path), script_values(values), {**_companions(path, text), **file_texts(files)})
    try:
        return read_script_job(
            text,
            given,
            profile,
            hardware,
            devices=devices,
            target=target,
            sections=sections,
            folder=Path(),
            vocab_size=vocab_size,
            assume=assumed_arguments(assume),
        )
    except ShellError as error:
        if is_launch_script(str(path)):
            raise
        raise InputError(
            Sentence(
                "{}: not a launch script ({}); give a Bash script, its arguments alone, or a YAML or TOML file of a framework.",
                path,
                str(error).removeprefix(f"{path}: ").rstrip("."),
            )
        ) from None


def script_job(
    path: str,
    sections: Sections,
    *,
    values: Sequence[str] = (),
    files: Sequence[Path] = (),
    vocab_size: int | None = None,
    assume: Sequence[str] = (),
) -> ReadScript:
    """The job of a script, with flags by section in place of its values."""
    cluster, software = dict(sections.get("cluster", {})), dict(sections.get("software", {}))
    hardware, devices, target = cluster.pop("hardware", None), cluster.pop("num_devices", None), software.pop("target", None)
    if hardware is None:
        if Path(path).suffix in (".yaml", ".yml"):
            parse_document(read_text(Path(path)), path, limits=YAML_LIMITS)  # whose kind is unknown if it is broken
        raise InputError(Sentence("cluster.hardware (--hardware): missing; a launch script does not say it."))
    others = {**sections, "cluster": cluster, "software": software}
    return load_script(
        Path(path),
        hardware,
        devices=devices,
        target=target,
        values=values,
        files=files,
        sections=others,
        vocab_size=vocab_size,
        assume=assume,
    )


def _companions(path: Path, text: str) -> Mapping[str, str]:
    """Files that a file names, by name, where they are on this machine.

    They are YAML files of a script of the FSDP2 backend, beside it or where the path leads from here, and the model's
    configuration in the folder that a MindFormers file names.
    """
    found: dict[str, str] = {}
    if (folder := _FOLDER.search(text)) and (configuration := Path(folder[1]) / CONFIG).is_file():
        found[CONFIG] = read_text(configuration)
    for named in map(Path, dict.fromkeys(_YAML.findall(text)) if form_of(text) == FSDP2_SCRIPT else ()):
        place = next((place for place in (path.parent / named.name, named) if place.is_file()), None)
        if place is not None and len(found) < MAX_COMPANIONS:
            found[named.name] = read_text(place)
    return found


def assumed_arguments(given: Sequence[str]) -> Mapping[str, str]:
    return {name.lstrip("-"): value for name, _, value in (text.partition("=") for text in given)}


def script_values(given: Sequence[str]) -> Mapping[str, str]:
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise InputError(
                Sentence("--set: {} is not allowed; give NAME=VALUE, or 1=VALUE for an argument of the script.", show(text))
            )
        values[name] = value
    return values


def file_texts(paths: Sequence[Path]) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for path in paths:
        if path.name in texts:
            raise InputError(Sentence("--with: two files are named {}; give one of them.", path.name))
        texts[path.name] = read_text(path)
    return texts
