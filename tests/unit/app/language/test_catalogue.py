"""The catalogues hold the templates of the sources and no others, and each translation keeps what its sentence says."""

import json
import re
from functools import cache

import pytest

from app.language.translator import FOLDER
from scripts.language import write_sentences
from tests.language import CHINESE

PLACE = re.compile(r"\{(\d+)\}")
ROOMS = sorted(path.stem for path in (FOLDER / "zh").glob("*.json"))


@cache
def _room(name: str) -> dict[str, str]:
    read: dict[str, str] = json.loads((FOLDER / "zh" / f"{name}.json").read_text(encoding="utf-8"))
    return read


def _is_all_names(text: str, said: str) -> bool:
    """Whether all words are flags, fields, units or products, which stay."""
    words = set(re.findall(r"[A-Za-z_]{3,}", text)) - {"and", "the", "tokens", "with"}
    return bool(said) and words <= set(re.findall(r"[A-Za-z_]{3,}", said))


def test_the_catalogues_hold_what_the_sources_say_and_no_more() -> None:
    wanted = {room: list(texts) for room, texts in write_sentences.wanted().items()}
    assert wanted == {room: list(_room(room)) for room in wanted}
    assert sorted(wanted) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_every_sentence_has_its_translation(room: str) -> None:
    lacking = [text for text, said in _room(room).items() if not (CHINESE.search(said) or _is_all_names(text, said))]
    assert lacking == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_translation_keeps_every_value(room: str) -> None:
    found = write_sentences.sentences()
    for text, said in _room(room).items():
        given, kept = set(PLACE.findall(text)), set(PLACE.findall(said))
        values = found[text].values if text in found else ()
        may_lack = {str(number) for number, value in enumerate(values) if write_sentences.may_lack(value)}
        assert kept <= given, text
        assert given - kept <= may_lack, text


def test_hints_stay_at_the_end() -> None:
    """A problem's hint is the text behind the last semicolon of its detail, in each language."""
    for room in ROOMS:
        for text, said in _room(room).items():
            if re.search(r"; (give|leave|did you mean) [^;]*$", text):
                assert "；" in said, text


def _keys(source: str) -> list[str]:
    return [found.key for found in write_sentences.in_source(source, "app/answers/price.py")]


def test_templates_are_read_from_calls() -> None:
    assert _keys('raise InputError(Sentence("{}: {!r} is not allowed; give {:,} to {}.", a, b, c, d))') == [
        "{0}: {1} is not allowed; give {2} to {3}"
    ]
    assert _keys('x = Sentence("One sentence " "in two {{parts}}.")') == ["One sentence in two {parts}"]
    assert _keys('plain_table("strategy", ">delivered a day")') == ["strategy", "delivered a day"]
    assert _keys('Sentence("{}: {}", name, error)') == []
    assert _keys('kind = "closed form"') == []


def test_a_template_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="the template is no text"):
        _keys('Sentence("one" if x else "other")')
