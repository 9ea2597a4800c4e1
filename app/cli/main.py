"""The command line: the list of commands, and the exit code of the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any

import typer
from typer.main import get_command
from typer.models import CommandInfo

from app.cli.commands import (
    audit,
    calibrate,
    check,
    compare_trace,
    db,
    doctor,
    estimate,
    experts,
    explain,
    goodput,
    hardware,
    keys,
    models,
    report,
    rl,
    schema,
    search,
    sequences,
    serve,
    serving,
    sweep,
    tune,
    validate,
    verify,
    worker,
)
from app.cli.flags import with_own_reading
from app.exit_codes import BAD_INPUT, DONE, NOTHING_FEASIBLE, OUR_FAULT
from app.language.choice import LANGUAGES, checked, of_environment, said, speak, spoken
from documents.errors import InfeasibleError, InputError, cause_of
from documents.other_names import usual_setting
from documents.printable import printable
from documents.sentences import Sentence

LANGUAGE = "--language"
HELP = Sentence("Plans how to lay a large-model training job over an Ascend or GPU cluster, without touching a device.")

application = typer.Typer(
    name="meshplan",
    help=HELP,
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
application.command()(search.search)
application.command()(estimate.estimate)
application.command()(sweep.sweep)
application.command()(explain.explain)
application.command()(goodput.goodput)
application.command()(tune.tune)
application.command()(report.report)
application.command()(check.check)
application.command("compare-trace")(compare_trace.compare_trace)
application.command()(validate.validate)
application.command()(verify.verify)
application.command()(calibrate.calibrate)
application.command()(serve.serve)
application.command()(worker.worker)
application.add_typer(db.commands, name="db")
application.add_typer(keys.commands, name="keys")
application.command()(audit.audit)
application.command()(doctor.doctor)
application.add_typer(hardware.commands, name="hardware")
application.add_typer(models.commands, name="models")
application.add_typer(experts.commands, name="experts")
application.add_typer(sequences.commands, name="sequences")
application.add_typer(rl.commands, name="rl")
application.add_typer(serving.commands, name="serving")
application.command()(schema.schema)


def _print_version(wanted: bool) -> None:
    if wanted:
        from meshplan import __version__

        typer.echo(Sentence("meshplan {}", __version__))
        raise typer.Exit


@application.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    language: Annotated[
        str | None,
        typer.Option(
            LANGUAGE,
            metavar="|".join(LANGUAGES),
            help="Language of what is printed for people, before or behind a command; without it that of MESHPLAN_LANGUAGE, "
            "else of the locale. JSON stays English.",
        ),
    ] = None,
) -> None:
    """Options of the program itself."""


def _say(message: str) -> None:
    text = printable(" ".join(said(message).split())).rstrip(".。")
    stop = "" if text.endswith(("?", "？")) else "." if spoken() == "en" else "。"
    sys.stderr.write(f"meshplan: {text}{stop}\n")


def _spoken(argv: Sequence[str]) -> list[str]:
    """The arguments without ``--language``, which applies to all commands; the last one wins."""
    speak("en")  # until the language is known
    language, left, given = of_environment(os.environ), [], iter(argv)
    for word in given:
        name, equals, value = word.partition("=")
        if word == "--":
            left.append(word)
            break
        if name == LANGUAGE:
            language = checked(LANGUAGE, value if equals else next(given, ""))
        else:
            left.append(word)
    speak(language)
    return [*left, *given]


def _called(argv: Sequence[str]) -> typer.Typer:
    """The command line with only the called command, because building all commands takes longer than most of them run."""
    called = copy(application)
    called.registered_commands = [each for each in application.registered_commands if _name(each) in argv[:1]]
    called.registered_groups = [each for each in application.registered_groups if each.name in argv[:1]]
    return called if called.registered_commands or called.registered_groups else application


def _name(command: CommandInfo) -> str:
    assert command.callback is not None
    return command.name or command.callback.__name__


def _run(words: list[str]) -> object:
    called = _called(words)
    if spoken() == "en":
        return _ran(get_command(called), words)
    from app.cli.help import translated

    with translated(called) as command:
        return _ran(command, words)


def _ran(command: Any, words: list[str]) -> object:
    return with_own_reading(command)(args=words, prog_name="meshplan", standalone_mode=False)


def _with_setting(error: typer.TyperException) -> Sentence:
    """The message of the library; for a flag of a framework, with the setting that means the same here."""
    flag = getattr(error, "option_name", None)
    if flag is not None:
        from cost_models.shapes.switches import Feature

        setting = usual_setting(flag, {str(feature.name).lower() for feature in Feature})
        if setting is not None:
            return Sentence("{}: no such option; the setting is {}", flag, setting)
    return Sentence.whole(error.format_message())


def main(argv: list[str] | None = None) -> int:
    """Runs one command; ``app.exit_codes`` lists what it returns."""
    words: list[str] = []
    try:
        words = _spoken(sys.argv[1:] if argv is None else argv)
        code = _run(words)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except InputError as error:
        from app.cli.file_kinds import with_kind

        _say(with_kind(error, words))
        return BAD_INPUT
    except InfeasibleError as error:
        _say(str(error))
        return NOTHING_FEASIBLE
    except typer.TyperException as error:
        if error.format_message():  # none where help was printed in place of a missing command
            _say(_with_setting(error))
        return BAD_INPUT
    except BrokenPipeError:
        from app.text.terminal import handle_closed_pipe

        handle_closed_pipe(sys.stdout)
        return DONE
    except OSError as error:
        _say(Sentence("{}: {}", error.filename or Sentence("standard output"), cause_of(error)))
        return OUR_FAULT
    except Exception as error:
        if os.environ.get("MESHPLAN_DEBUG"):
            raise
        _say(
            Sentence(
                "internal error: {}: {}. Please report it; MESHPLAN_DEBUG=1 shows where it happened", type(error).__name__, error
            )
        )
        return OUR_FAULT
