"""No sentence that the packages make lacks its translation, and each translation keeps what its sentence says."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from app.language.translating import FOLDER, HEADERS, HELPS, translator
from scripts.language import write_sentences

CHINESE = re.compile(r"[\u4e00-\u9fff]")
PLACE = re.compile(r"\{(\d+)\}")
ROOMS = sorted(path.stem for path in (FOLDER / "zh").glob("*.json"))


@cache
def _found() -> dict[str, write_sentences.Sentence]:
    return write_sentences.sentences()


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
    for text, said in _room(room).items():
        given, kept = set(PLACE.findall(text)), set(PLACE.findall(said))
        values = _found()[text].values if text in _found() else ()
        may_lack = {str(number) for number, value in enumerate(values) if write_sentences.may_lack(value)}
        assert kept <= given, text
        assert given - kept <= may_lack, text


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in (HEADERS, HELPS)])
def test_each_template_is_found_again_in_its_sentence(room: str) -> None:
    """With numbers for its values, of which those that stand side by side have one."""
    for text, said in _room(room).items():
        beside = set(re.findall(r"\{(\d+)\}(?=\{)", text))

        def filled(template: str, empty: set[str] = beside) -> str:
            return PLACE.sub(lambda place: "" if place[1] in empty else str(7 + 11 * int(place[1])), template)

        got = translator("zh")(filled(text))
        assert re.sub(r"[ 。.]", "", got) == re.sub(r"[ 。.]", "", filled(said)), text


def test_hints_stay_at_the_end() -> None:
    """A problem's hint is what stands behind the last semicolon of its detail, in each language."""
    for room in ROOMS:
        for text, said in _room(room).items():
            if re.search(r"; (give|leave|did you mean) [^;]*$", text):
                assert "；" in said, text


def _texts(source: str) -> list[str]:
    return [found[0] for found in write_sentences._read(ast.parse(source))]


def test_sentences_are_read_from_all_forms() -> None:
    assert _texts('raise InputError(f"{name}: {show(value)} is not allowed; give {least} to {most}.")') == [
        "{0}: {1} is not allowed; give {2} to {3}"
    ]
    assert _texts('text = "One sentence " + "in two parts."') == ["One sentence in two parts"]
    assert _texts("said = f\"it is {gap:.1%} {'slower' if gap > 0 else 'faster'}\"") == ["it is {0} {1}", "slower", "faster"]
    assert _texts('plain_table("strategy", ">delivered a day")') == ["strategy", "delivered a day"]
    assert _texts('"the fastest takes {:,.1f} days"') == []  # an expression of its own is a docstring
    assert _texts('x = "the fastest takes {:,.1f} days"') == ["the fastest takes {0} days"]


@pytest.mark.parametrize(
    "source",
    [
        'kind = "closed_form"',
        'log.info("a study ended")',
        'seq: int = Field(description="tokens of one")',
        'raise TypeError("no such thing")',
    ],
)
def test_what_no_reader_sees_is_passed_over(source: str) -> None:
    assert _texts(source) == []


def test_the_rooms_that_are_passed_over_exist() -> None:
    root = Path(write_sentences.ROOT)
    assert [place for place in write_sentences.PASSED_OVER if not (root / place).exists()] == []
