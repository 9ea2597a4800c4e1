"""A launch file read back: what its arguments say of the strategy, the model and the batch.

The release's table gives every type and default, so that what is not written has the framework's value, not ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cost_models.shapes.strategy import ParallelStrategy
from frameworks.registry import BY_NAME
from frameworks.release import problems, read_tokens
from tests.oracle.launch_files import reading_megatron, reading_mindformers
from tests.oracle.launch_files.shell import MAX_CHARACTERS, LaunchFileError, Script, read_script

RELEASES = {name: framework.release for name, framework in BY_NAME.items()}
MAX_DEVICES = 1_000_000
MAX_DEPTH = 8
ASCEND_MARKS = (
    "use-ascend-",
    "noop-layers",
    "use-fused-rmsnorm",
    "use-fused-swiglu",
    "use-fused-rotary-pos-emb",
    "context-parallel-algo",
)


@dataclass(frozen=True)
class LaunchFile:
    """``model`` and ``training`` hold facts under the names of a job.

    ``problems`` is a sentence for each argument or combination that the release does not take.
    """

    framework: str
    num_devices: int
    strategy: ParallelStrategy
    model: Mapping[str, Any]
    training: Mapping[str, Any]
    problems: tuple[str, ...]


def parse_launch(text: str, *, framework: str | None = None, num_devices: int | None = None) -> LaunchFile:
    """A shell script, a list of arguments, or MindFormers' YAML.

    ``framework`` is told from the text unless given; ``num_devices`` from the launcher's arguments or the degrees.
    Raises ``LaunchFileError`` with one sentence where the text is none of these or its numbers do not fit together.
    """
    document = None if framework in ("megatron-lm", "mindspeed-llm") else _yaml_document(text)
    if document is not None:
        return _parse_options(_flat(document))
    if framework == "mindformers":
        raise LaunchFileError("launch file: no YAML with a section parallel_config")
    script = read_script(text)
    return parse_arguments(
        script.arguments,
        framework=framework or _framework(script),
        num_devices=num_devices or _devices(script),
    )


def parse_arguments(arguments: list[str], *, framework: str, num_devices: int | None = None) -> LaunchFile:
    """As ``parse_launch``, of the arguments in an entry of ``launch_block``."""
    if framework not in RELEASES:
        raise LaunchFileError(f"framework: {framework!r} is not known; use one of {', '.join(RELEASES)}")
    if framework == "mindformers":
        return _parse_options(dict(_option(argument) for argument in arguments))
    release = RELEASES[framework]
    given, stray = read_tokens(release, arguments)
    found = [*stray, *problems(release, given)]
    reading = reading_megatron.Reading(release, {n: v for n, v in given.items() if not _unreadable(found, n)}, num_devices)
    return LaunchFile(framework, reading.num_devices, reading.strategy(), reading.model(), reading.training(), tuple(found))


def _unreadable(found: list[str], name: str) -> bool:
    return any(sentence.startswith((f"{name} is no argument", f"{name}: ")) for sentence in found)


def _parse_options(options: Mapping[str, Any]) -> LaunchFile:
    release = RELEASES["mindformers"]
    given = {n: reading_mindformers.written(value) for n, value in options.items() if n in _KNOWN and value is not None}
    found = problems(release, given)
    unknown = [name for name in options if name not in _KNOWN and not name.startswith(reading_mindformers.FREE_SECTIONS)]
    for name in unknown:
        near = release.nearest(name)
        found.append(f"{name} is no key of mindformers {release.version}{f'; the nearest is {near}' if near else ''}.")
    reading = reading_mindformers.Reading(options)
    return LaunchFile("mindformers", reading.num_devices, reading.strategy(), reading.model(), reading.training(), tuple(found))


_KNOWN = frozenset(argument.name for group in RELEASES["mindformers"].groups.values() for argument in group)


def _option(argument: str) -> tuple[str, Any]:
    name, _, value = argument.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise LaunchFileError(f"launch file: {argument[:80]!r} is not path=value with the value in JSON") from None


def _yaml_document(text: str) -> Mapping[str, Any] | None:
    if len(text) > MAX_CHARACTERS:
        raise LaunchFileError(f"launch file: {len(text)} characters; {MAX_CHARACTERS} are allowed")
    if "parallel_config" not in text or text.lstrip().startswith("#!"):
        return None
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise LaunchFileError("launch file: no valid YAML") from None
    return document if isinstance(document, Mapping) and isinstance(document.get("parallel_config"), Mapping) else None


def _flat(document: Mapping[str, Any], path: str = "", depth: int = 0) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and name not in _KNOWN and depth < MAX_DEPTH:
            flat |= _flat(value, f"{name}.", depth + 1)
        else:
            flat[name] = value
    return flat


def _framework(script: Script) -> str:
    written = [argument.lstrip("-") for argument in script.arguments if argument.startswith("--")]
    ascend = any(name.startswith(ASCEND_MARKS) for name in written) or "TASK_QUEUE_ENABLE" in script.variables
    return "mindspeed-llm" if ascend else "megatron-lm"


def _devices(script: Script) -> int | None:
    """Nodes x processes of torchrun; None where they are not plain numbers."""
    counts = []
    for names in (("nproc-per-node", "nproc_per_node"), ("nnodes",)):
        value = None
        for i, word in enumerate(script.launcher):
            name, equals, joined = word.lstrip("-").partition("=")
            if name in names:
                value = joined if equals else (script.launcher[i + 1] if i + 1 < len(script.launcher) else None)
        if value is None or not value.isdecimal() or not 1 <= int(value[:9]) <= MAX_DEVICES:
            return None
        counts.append(int(value))
    return counts[0] * counts[1]
