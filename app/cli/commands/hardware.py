"""``meshplan hardware``: the profiles and where their numbers come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.options import Json
from app.exit_codes import DONE

commands = typer.Typer(no_args_is_help=True, help="Hardware profiles: devices, networks, and the source of each number.")


@commands.command("list")
def list_profiles(as_json: Json = False) -> int:
    """The profiles that ship with meshplan."""
    from app.catalogue import hardware, tables
    from app.text import terminal
    from app.text.documents import plain
    from hardware_profiles import catalogue

    profiles = [catalogue.named(name) for name in catalogue.names()]
    document = {"schema_version": 1, "items": [plain(hardware.summary(profile)) for profile in profiles]}
    terminal.answer(document, as_json, lambda console: console.print(tables.hardware_table(profiles)))
    return DONE


@commands.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a profile's name, or the path of a profile file")],
    as_json: Json = False,
) -> int:
    """One profile, every number with its unit, basis and source."""
    from app.catalogue import hardware, tables
    from app.text import terminal
    from app.text.documents import plain
    from hardware_profiles import catalogue

    profile = catalogue.profile(name)
    document = {"schema_version": 1, **plain(hardware.details(profile))}
    terminal.answer(document, as_json, lambda console: tables.print_profile(console, profile))
    return DONE


@commands.command("calibrate")
def calibrate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the profile to start from, or its path")],
    output: Annotated[Path, typer.Option("--output", help="profile to write; its name without the suffix is the profile's")],
    curve: Annotated[
        list[str] | None,
        typer.Option(
            "--curve",
            metavar="OPERATION:RANKS=LOG",
            help="log of HCCL Test or nccl-tests, as in all_reduce:8=all_reduce.log; repeat",
        ),
    ] = None,
    op_summary: Annotated[
        Path | None, typer.Option("--op-summary", help="op_summary CSV of msprof: the best matmul rate goes into the profile")
    ] = None,
) -> int:
    """Writes a profile of your own with the collective times and matmul rates that you measured."""
    from app.catalogue import tables
    from app.catalogue.measured_profile import measured_profile, read_op_summary, written_matmuls
    from app.text import terminal
    from app.text.files import save_text
    from documents.errors import InputError
    from hardware_profiles import catalogue

    if not curve and op_summary is None:
        raise InputError("--curve: missing; give the log of a benchmark, or --op-summary FILE.")
    if output.suffix not in (".yaml", ".yml") or not output.parent.is_dir():
        raise InputError(f"--output: {output} is not allowed; give a file that ends in .yaml, in a folder that exists.")
    profile = catalogue.profile(name)
    rates = () if op_summary is None else read_op_summary(op_summary)
    written = written_matmuls(profile, rates)
    file = "" if op_summary is None else op_summary.name
    text = measured_profile(profile, output.stem, curve or [], written, file)
    save_text(output, text, "--output")
    if rates:
        tables.print_rates(terminal.output(), profile, rates, written)
    terminal.output().print(f"Written to {output}; use it with --hardware {output}", markup=False)
    return DONE
