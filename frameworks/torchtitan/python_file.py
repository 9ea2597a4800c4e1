"""Python configurations for ``torchtitan.train --module --config`` of torchtitan's main, from an entry of ``launch_block``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import Start
from frameworks.launch_text import PLACEHOLDER, comment, heading, on_every_node
from frameworks.options import Options, options_of
from frameworks.release import Release
from frameworks.torchtitan.classes import BUILT_BY, FAMILIES, IMPORTS, called
from frameworks.torchtitan.table import STAGES
from frameworks.torchtitan.table_main import FAMILY, NO_LAYER

FUNCTION = "plan"
TITLES = {
    "model_spec": Sentence("Model"),
    "training": Sentence("Tokens of a micro batch of one data-parallel rank, and of all of them in a step"),
    "parallelism": Sentence("Degrees, shards, pipeline"),
    "loss": Sentence("Loss"),
    "activation_checkpoint": Sentence("Recompute"),
    "compile": Sentence("Compilation of layers and loss"),
    "optimizer": Sentence("Optimizer"),
}
_DATA = Sentence("a name of torchtitan's data sets")
_YOURS: Mapping[str, Any] = {
    "hf_assets_path": PLACEHOLDER,
    "dataloader": "GrainDataLoader",
    "dataloader.dataset": "ConcatThenSplitPackingConfig",
    "dataloader.dataset.dataset": "c4",
    "lr_scheduler": "LRSchedulersContainer",
    "lr_scheduler.warmup_steps": 200,
    "checkpoint": "CheckpointManager",
    "checkpoint.enable": False,
}
_BESIDE: Mapping[str, Mapping[str, Any]] = {"training": {"steps": 1000}, "optimizer": {"lr": 3e-4}}
DATASET = "dataset.dataset"  # the end of a field that names a data set


def python_file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    """The file: a module with one function, whose values are literals."""
    say, options = start.say, options_of(launch["arguments"])
    family = options.pop(FAMILY)
    commands = (
        f"cp THIS-FILE {FUNCTION}.py",
        f"torchrun --nnodes {start.num_nodes} --nproc_per_node {start.processes_per_node} --rdzv_backend c10d "
        f"--rdzv_endpoint MASTER-ADDRESS:29500 -m torchtitan.train --module {FUNCTION} --config {FUNCTION}",
    )
    yours = Sentence("Yours: {} marks what is missing; the other values are placeholders as well.", PLACEHOLDER)
    body = ["    return Trainer.Config("]
    for field, values in _by_field(options).items():
        body.append(f"        # {say(TITLES[field])}")
        body += _field(field, {**values, **{f"{field}.{key}": value for key, value in _BESIDE.get(field, {}).items()}})
    body += [f"    {line}" for line in (f"    {each}" for each in comment(say, yours))]
    for field, values in _by_field(_YOURS).items():
        body += _field(field, values)
    body.append("    )")
    lines = [*heading(release, launch, start), *on_every_node(start, launch["environment"], purposes, *commands), ""]
    lines += [*_imports(str(family), "\n".join(body)), "", "", f"def {FUNCTION}() -> Trainer.Config:", *body]
    return "\n".join(lines) + "\n"


def _by_field(options: Mapping[str, Any]) -> dict[str, Options]:
    found: dict[str, Options] = {}
    for path, value in options.items():
        found.setdefault(path.partition(".")[0], {})[path] = value
    return found


def _field(field: str, options: Options) -> list[str]:
    """Lines of a field of ``Trainer.Config``."""
    return [f"        {line}" for line in _built(field, field, options)]


def _built(name: str, field: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Lines of ``name=value`` for a field and what is below it."""
    below = {path: value for path, value in options.items() if path.startswith(f"{field}.")}
    own = options.get(field)
    if (not below and not _is_class(field, own)) or own == NO_LAYER:
        yield f"{name}={_literal(field, own)},"
        return
    expression = called(field, str(own))
    if not below:
        yield f"{name}={expression}(),"
        return
    yield f"{name}={expression}("
    for key in dict.fromkeys(path.removeprefix(f"{field}.").partition(".")[0] for path in below):
        yield from (f"    {line}" for line in _built(key, f"{field}.{key}", below))
    yield "),"


def _is_class(field: str, value: Any) -> bool:
    return field in BUILT_BY or (isinstance(value, str) and value in IMPORTS)


def _literal(field: str, value: Any) -> str:
    if field.endswith(DATASET):
        return f'DATASETS["{value}"]'
    if value == NO_LAYER:
        return "None"
    if field == STAGES:
        return "[" + ", ".join(str(part).replace("'", '"') for part in value) + "]"
    return repr(value).replace("'", '"')  # no value has a quotation mark


def _imports(family: str, text: str) -> list[str]:
    """Import lines of the names in the text."""
    names: dict[str, list[str]] = {f"{FAMILIES}.{family}": [BUILT_BY["model_spec"]]}
    for name, module in IMPORTS.items():
        if f"{name}(" in text or f"{name}." in text or f"{name}[" in text:
            names.setdefault(module, []).append(name)
    return [f"from {module} import {', '.join(names[module])}" for module in sorted(names)]
