"""Language of the output: the setting of a command, or the header of a request."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, get_args

from documents.errors import hint_of, unknown_name

if TYPE_CHECKING:
    from app.language.translator import Translator

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
VARIABLE = "MESHPLAN_LANGUAGE"
_LOCALES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as POSIX has it
_MAX_HEADER = 1000  # characters; browsers send some dozen

_spoken: ContextVar[Language] = ContextVar("spoken", default="en")


def checked(name: str, given: str) -> Language:
    """``InputError`` for a language that nothing is translated into; ``name`` is the flag or the variable that gave it."""
    for language in LANGUAGES:
        if given == language:
            return language
    raise unknown_name(name, given, LANGUAGES, what="language")


def of_environment(environment: Mapping[str, str]) -> Language:
    """Language from the variable of meshplan, otherwise from the locale."""
    given = environment.get(VARIABLE, "")
    if given:
        return checked(VARIABLE, given)
    locale = next((environment[name] for name in _LOCALES if environment.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"


def of_header(accepted: str) -> Language:
    """The language of ``Accept-Language`` (RFC 9110) that is wanted most; English where neither is named."""
    weights = dict.fromkeys(LANGUAGES, 0.0)
    for part in accepted[:_MAX_HEADER].split(","):
        tag, _, parameters = part.strip().partition(";")
        language = tag.strip().lower().partition("-")[0]
        for known in LANGUAGES:
            if language == known:
                weights[known] = max(weights[known], _weight(parameters))
    return "zh" if weights["zh"] > weights["en"] else "en"


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    try:
        return min(max(float(value), 0.0), 1.0) if name.strip() == "q" else 1.0
    except ValueError:
        return 0.0


def speak(language: Language) -> None:
    """Set the language of the messages of this command."""
    _spoken.set(language)


def spoken() -> Language:
    """The language of the messages of this command."""
    return _spoken.get()


def said(text: str, language: Language | None = None) -> str:
    """Translation of a sentence, by default into the language of the command; a text without parts is returned unchanged."""
    language = language or spoken()
    return text if language == "en" else _translator(language)(text)


def hinted(text: str, language: Language) -> str | None:
    """The hint that ends a message about input, in the language."""
    return hint_of(text) if language == "en" else _translator(language).hint(text)


def headed(text: str) -> str:
    """The head of a column in the language of the command."""
    return text if spoken() == "en" else _translator(spoken()).head(text)


def helped(text: str) -> str:
    """A text of ``--help`` in the language of the command; these are known whole."""
    return text if spoken() == "en" else _translator(spoken()).helps.get(text, text)


def _translator(language: Language) -> Translator:
    from app.language.translator import translator  # a command in English never loads it

    return translator(language)
