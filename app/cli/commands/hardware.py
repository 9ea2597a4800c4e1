"""``meshplan hardware``: the profiles and where their numbers come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli import completion
from app.cli.commands.options import Json, Overwrite
from app.exit_codes import DONE
from documents.sentences import Sentence

commands = typer.Typer(no_args_is_help=True, help="Hardware profiles: devices, networks, and the source of each number.")


@commands.command("list")
def list_profiles(as_json: Json = False) -> int:
    """The profiles that ship with meshplan."""
    from app.catalogue import hardware, tables
    from app.text import terminal
    from app.text.json_documents import plain
    from hardware_profiles import catalogue

    profiles = [catalogue.named(name) for name in catalogue.names()]
    document = {"schema_version": 1, "items": [plain(hardware.summary(profile)) for profile in profiles]}
    terminal.answer(document, as_json, lambda console: console.print(tables.hardware_table(profiles)))
    return DONE


@commands.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="a profile's name, or the path of a profile file", autocompletion=completion.hardware
        ),
    ],
    as_json: Json = False,
) -> int:
    """One profile, every number with its unit, basis and source."""
    from app.catalogue import hardware, tables
    from app.text import terminal
    from app.text.json_documents import plain
    from hardware_profiles import catalogue

    profile = catalogue.profile(name)
    document = {"schema_version": 1, **plain(hardware.details(profile))}
    terminal.answer(document, as_json, lambda console: tables.print_profile(console, profile))
    return DONE


@commands.command("new")
def new(
    like: Annotated[
        str, typer.Option("--like", help="the profile that is nearest to your machines", autocompletion=completion.hardware)
    ],
    output: Annotated[Path, typer.Option("--output", help="file to write; its name without the suffix is the profile's")],
    overwrite: Overwrite = False,
) -> int:
    """Begins a profile of your own: another one but for the numbers that you change."""
    from app.text import terminal
    from app.text.files import save_text
    from hardware_profiles import catalogue
    from hardware_profiles.likeness import first_draft
    from hardware_profiles.loader import parse_profile
    from hardware_profiles.writer import profile_document

    base = catalogue.named(like)
    _check_profile_file(output, overwrite=overwrite)
    parse_profile({**profile_document(base), "name": output.stem}, "--output")  # refuses a name that no profile may have
    save_text(output, first_draft(output.stem, base), "--output")
    terminal.output().print(Sentence("Written to {}; change it, then use it with --hardware {}", output, output), markup=False)
    return DONE


def _check_profile_file(output: Path, *, overwrite: bool) -> None:
    from app.text.files import check_new_file
    from documents.errors import InputError

    if output.suffix not in (".yaml", ".yml") or not output.parent.is_dir():
        raise InputError(
            Sentence("--output: {} is not allowed; give a file that ends in .yaml, in a folder that exists.", output)
        )
    check_new_file(output, "--output", overwrite=overwrite)


@commands.command("calibrate")
def calibrate(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="the profile to start from, or its path", autocompletion=completion.hardware)
    ],
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
    measurements: Annotated[
        Path | None,
        typer.Option("--measurements", help="file of `hardware measure`: sustained matmul rates and collectives go in"),
    ] = None,
    overwrite: Overwrite = False,
) -> int:
    """Writes a profile of your own with the collective times and matmul rates that you measured."""
    from app.catalogue import tables
    from app.catalogue.measured_profile import curves_of, measured_profile, measurements_of, rates_of, written_matmuls
    from app.text import terminal
    from app.text.files import save_text
    from documents.errors import InputError
    from hardware_profiles import catalogue

    if not curve and op_summary is None and measurements is None:
        raise InputError(Sentence("--curve: missing; give the log of a benchmark, --op-summary FILE, or --measurements FILE."))
    if op_summary is not None and measurements is not None:
        raise InputError(Sentence("--op-summary: given beside --measurements, which has matmul rates too; give one of the two."))
    _check_profile_file(output, overwrite=overwrite)
    profile = catalogue.profile(name)
    found = None if measurements is None else measurements_of(measurements, profile)
    rates = rates_of(op_summary, found)
    written = written_matmuls(profile, rates)
    rates_from = ("--op-summary", op_summary) if op_summary else ("--measurements", measurements) if measurements else None
    capability = None if found is None else found.device.compute_capability
    curves = curves_of(curve or [], measurements, found)
    text = measured_profile(profile, output.stem, curves, written, rates_from, capability)
    save_text(output, text, "--output")
    if rates:
        tables.print_rates(terminal.output(), profile, rates, written)
    terminal.output().print(Sentence("Written to {}; use it with --hardware {}", output, output), markup=False)
    return DONE


@commands.command("measure")
def measure(
    device: Annotated[str | None, typer.Option(help="cuda, npu or cpu; default: the accelerator that PyTorch finds")] = None,
    hardware: Annotated[
        str | None, typer.Option(help="profile name or file: prints what the model says beside what is measured")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="file to write (default measurements.json)")] = None,
    overwrite: Overwrite = False,
    seconds: Annotated[float, typer.Option(min=0.01, max=600.0, help="for which each operation is repeated")] = 3.0,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="after commas: matmul, attention, grouped_matmul, vector, dispatch, collective, layer"
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Times kernels and collectives on this machine's devices, with the PyTorch that is installed here."""
    from app.measuring.session import measure_document, run
    from app.measuring.tables import print_measured
    from app.measuring.torch_backend import TorchBackend
    from app.text import terminal
    from app.text.files import check_new_file
    from calibration.measurements.timing import Measured, Skipped
    from hardware_profiles import catalogue

    path = out or Path("measurements.json")
    check_new_file(path, "--out", overwrite=overwrite)
    profile = None if hardware is None else catalogue.profile(hardware)
    names = [] if only is None else [name.strip() for name in only.split(",") if name.strip()]
    backend = TorchBackend(device)

    def show(result: Measured | Skipped, number: int, total: int) -> None:
        if backend.rank == 0:
            outcome = "" if isinstance(result, Measured) else Sentence(": {}", result.reason)
            terminal.messages().print(
                Sentence("{} of {}: {} {}{}", number, total, result.case.kind, result.case.title, outcome), markup=False
            )

    try:
        found = run(backend, path, seconds, names, show)
    finally:
        backend.close()
    if backend.rank == 0:
        document = measure_document(found, path, profile)
        terminal.answer(document, as_json, lambda console: print_measured(console, document))
    return DONE
