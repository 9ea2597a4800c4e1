"""``meshplan models``: the presets, and the import of a ``config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import completion
from app.cli.commands.options import Json
from app.exit_codes import DONE

commands = typer.Typer(no_args_is_help=True, help="Model presets, and import of a Hugging Face config.json.")


@commands.command("list")
def list_presets(as_json: Json = False) -> int:
    """The presets that ship with meshplan."""
    from app.catalogue.models import presets
    from app.catalogue.tables import models_table
    from app.text import terminal

    rows = presets.rows()
    terminal.answer({"schema_version": 1, "items": rows}, as_json, lambda console: console.print(models_table(rows)))
    return DONE


@commands.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a preset's name", autocompletion=completion.models)],
    as_json: Json = False,
) -> int:
    """One preset: dimensions, published sizes, default training, each with its source."""
    from app.catalogue.models import presets

    return _print(presets.preset_details(name), as_json)


@commands.command("import")
def import_config(
    path: Annotated[Path, typer.Argument(metavar="CONFIG.json", help="a Hugging Face config.json")], as_json: Json = False
) -> int:
    """Reads a config.json and prints the `model` part of a job."""
    from app.catalogue.models import presets
    from app.catalogue.models.huggingface.reading import model_from_config_file

    imported = model_from_config_file(path)
    document = {**presets.model_details(imported.model), "notes": list(imported.notes)}
    if as_json:
        return _print(document, as_json)
    return _print_model(document)


def _print(document: dict[str, Any], as_json: bool) -> int:
    from app.text import terminal

    if as_json:
        terminal.write_json({"schema_version": 1, **document})
    else:
        terminal.write_yaml(document)
    return DONE


def _print_model(document: dict[str, Any]) -> int:
    """Print the `model` part of a job, with what is no part of one as comments."""
    from app.language.choice import said
    from app.text import terminal
    from documents.quantities import count
    from documents.sentences import Sentence

    counts = document["num_parameters"]
    lines = [Sentence("{} parameters, {} of them active for a token", count(counts["total"]), count(counts["active"]))]
    if counts["mtp"]:
        lines.append(Sentence("{} more in modules that predict further tokens", count(counts["mtp"])))
    terminal.write_text("".join(f"# {said(line)}\n" for line in [*lines, *document["notes"]]))
    terminal.write_yaml({"model": document["model"]})
    return DONE
