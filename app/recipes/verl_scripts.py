"""Shell scripts that start verl, with the overrides of the command and their lines, and configurations of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from app.launch_scripts.launch import Given
from app.launch_scripts.launcher import slurm_variables
from app.recipes.yaml_settings import LIMITS, yaml_settings
from documents.errors import InputError, show
from documents.reading import parse_document
from documents.sentences import Sentence, joined
from documents.shell.reader import read_script
from documents.shell.text import Command, ShellScript, Word
from frameworks.post_training.recipe import ReadRecipe, Written
from frameworks.post_training.verl_reader import PROGRAMS, configurations, read

_CONFIGURATION, _FOLDER = "--config-name", "--config-path"
_SHIPPED = ("config", "./config")
_UNQUOTED = "'\""
_OF_HYDRA = ("hydra", "defaults")


def read_verl_script(text: str, given: Given) -> ReadRecipe:
    """The recipe that a script starts. Raises ``InputError``, and ``ReadingError`` for what the settings do not decide."""
    script = read_script(text, name=given.name, given={**slurm_variables(text), **given.values}, files=given.files)
    command, program, words = _started(script, given.name)
    if command.condition:
        raise InputError(Sentence("{}: line {}: {}.", given.name, command.line, command.condition))
    settings, flags = _overrides(words, given.name)
    shipped = configurations(program)
    configuration = flags.get(_CONFIGURATION, Written(next(iter(shipped)), None))
    name = configuration.text.removesuffix(".yaml")
    if not configuration.unknown and f"{name}.yaml" in given.files:
        base, own = _own(name, given, shipped)
        return read({**own, **settings}, program, base)
    if configuration.unknown or name not in shipped or flags.get(_FOLDER, Written("config", None)).text not in _SHIPPED:
        where = flags.get(_FOLDER, configuration)
        raise InputError(
            Sentence(
                "{}: line {}: {} {} is no configuration that verl ships, and it changes the whole step; give --with {}.yaml, "
                "or one of {}.",
                given.name,
                configuration.line or where.line or command.line,
                _CONFIGURATION,
                show(name),
                name,
                joined(", ", shipped),
            )
        )
    return read(settings, program, name)


def read_verl_configuration(text: str, given: Given) -> ReadRecipe:
    """The recipe of a configuration that builds on a shipped one. Raises ``InputError`` and ``ReadingError``."""
    programs = {base: program for program in reversed(list(PROGRAMS)) for base in configurations(program)}
    base, settings = _built_on(text, given.name, programs)
    return read(settings, programs[base], base)


def _own(name: str, given: Given, shipped: Mapping[str, str]) -> tuple[str, dict[str, Written]]:
    """The shipped configuration on which one that the script names builds, and its changes; lines are the script's alone."""
    base, settings = _built_on(given.files[f"{name}.yaml"], f"{name}.yaml", shipped)
    return base, {key: Written(one.text, None) for key, one in settings.items()}


def _built_on(text: str, file: str, shipped: Iterable[str]) -> tuple[str, dict[str, Written]]:
    """The one of the shipped configurations on which a text builds, and what it changes."""
    document = parse_document(text, file, limits=LIMITS)
    defaults = document.get("defaults") or []
    bases = [one for one in defaults if one != "_self_"] if isinstance(defaults, list) else []
    if len(bases) != 1 or bases[0] not in shipped:
        raise InputError(
            Sentence("{}: defaults: {} is not allowed; give one of {}.", file, show(defaults), joined(", ", shipped))
        )
    return str(bases[0]), yaml_settings({key: value for key, value in document.items() if key not in _OF_HYDRA}, text)


def _started(script: ShellScript, name: str) -> tuple[Command, str, Sequence[Word]]:
    """The command that starts a program of verl, the program, and the words behind it."""
    found: list[tuple[Command, str, Sequence[Word]]] = []
    other: list[tuple[int, str]] = []
    for command in script.commands:
        texts = [word.text for word in command.words]
        at = texts.index("-m") + 1 if "-m" in texts[:-1] else 0
        if at and texts[at] in PROGRAMS:
            found.append((command, texts[at], command.words[at + 1 :]))
        elif at or any(text.endswith(".py") for text in texts[:3]):
            other.append((command.line, texts[at] if at else next(text for text in texts if text.endswith(".py"))))
    if not found:
        programs = joined(", ", PROGRAMS)
        if other:
            raise InputError(
                Sentence("{}: line {}: {} is not read; programs that are read are {}.", name, other[0][0], other[0][1], programs)
            )
        raise InputError(Sentence("{}: no command in it starts {}.", name, programs))
    if len({tuple(word.text for word in words) for _, _, words in found}) > 1:
        lines = joined(" and ", (str(command.line) for command, _, _ in found[:3]))
        raise InputError(
            Sentence("{}: lines {} each start a training, and the script does not decide which; leave one of them.", name, lines)
        )
    return found[-1]


def _overrides(words: Sequence[Word], name: str) -> tuple[dict[str, Written], Mapping[str, Written]]:
    """Settings by name, of which the last of a name holds, and flags of Hydra."""
    settings: dict[str, Written] = {}
    flags: dict[str, Written] = {}
    flag = ""
    for word in words:
        key, equals, value = word.text.partition("=")
        written = Written(value.strip(_UNQUOTED), word.line, word.unknown)
        if flag:
            flags[flag] = Written(word.text, word.line, word.unknown)
            flag = ""
        elif key in (_CONFIGURATION, _FOLDER):
            flags[key] = written
            flag = "" if equals else key
        elif equals and not key.startswith(("-", "~", "$")):
            settings[key.lstrip("+")] = written
        elif not (word.is_unset or not word.text.strip()):
            reason = word.unknown or Sentence("it is no override of a setting")
            raise InputError(Sentence("{}: line {}: {}: {}.", name, word.line, show(word.text), reason))
    return settings, flags
