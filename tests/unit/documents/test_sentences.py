"""Sentences are English texts that keep their template and values through all that is done to them."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.sentences import Sentence, all_packed, all_unpacked, ending, joined, packed, recognized, separators, unpacked

TAKES = Sentence("{} takes {:.1%} of {}.", "tp, ep", 0.25, joined(", ", ["a", "b", "c"], " or "))


def parts(text: str) -> Any:
    return [str.__str__(text), text.template, *map(parts, text.values)] if isinstance(text, Sentence) else text


def test_a_sentence_is_its_english_text() -> None:
    assert TAKES == "tp, ep takes 25.0% of a, b or c."
    assert json.dumps([TAKES]) == '["tp, ep takes 25.0% of a, b or c."]'
    assert {TAKES: 1}["tp, ep takes 25.0% of a, b or c."] == 1
    assert TAKES.template == "{0} takes {1} of {2}."
    assert TAKES.values[:2] == ("tp, ep", "25.0%")


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{} {!r} {:>8} {:,}", ("a", "b'", "c", 12345)),
        ("100 % of {{x}}, {}", (None,)),
        ("no values", ()),
        ("{:.3g}{}", (1e-9, "")),
    ],
)
def test_it_is_formatted_as_str_format_does(template: str, values: tuple[Any, ...]) -> None:
    assert Sentence(template, *values) == template.format(*values)


@pytest.mark.parametrize("values", [(), (1, 2)])
def test_every_place_has_one_value(values: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Sentence("one {}", *values)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda text: pickle.loads(pickle.dumps(text)), lambda text: unpacked(packed(text))]
)
def test_copies_keep_the_parts(copied: Any) -> None:
    assert parts(copied(TAKES)) == parts(TAKES)


def test_errors_keep_the_parts_of_their_message() -> None:
    error = ValueError(TAKES)
    assert str(error) is TAKES
    assert Sentence("file: {}", error).values[0] is TAKES


def test_sentences_are_put_together() -> None:
    whole = TAKES + " " + Sentence("{} fit.", 3)
    assert whole == "tp, ep takes 25.0% of a, b or c. 3 fit."
    assert parts("so: " + TAKES)[2:] == ["so: ", parts(TAKES)]
    assert separators(joined(", ", "abc", " or ").template) == (", ", " or ")
    assert separators(TAKES.template) is None
    for items in ([], ["a"], ["a", "b"], ["", "b"], ["a", "b", "c"]):
        assert joined("; ", items) == "; ".join(items)


def test_an_end_is_cut_where_it_is() -> None:
    assert parts(TAKES.rstrip("."))[:2] == ["tp, ep takes 25.0% of a, b or c", "{0} takes {1} of {2}"]
    inner = Sentence("{}: {}", "x", TAKES).rstrip(".")
    assert inner.template == "{0}: {1}"
    assert parts(inner.values[1])[1] == "{0} takes {1} of {2}"
    assert Sentence("at {}", "end.").rstrip(".").values == ("end",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (Sentence("{}: {} is not allowed; give {}.", "a; b", "c; d", "e"), "give e."),
        (Sentence("{}: {}", "a; b", Sentence("no; do {}", "this; that")), "do this; that"),
        (Sentence("{} is no file", "a; b"), None),
        ("a plain text; with a hint", "with a hint"),
    ],
)
def test_a_hint_begins_at_a_semicolon_of_the_sentence_and_not_of_a_value(text: str, expected: str | None) -> None:
    assert ending(text, "; ") == expected


@given(text=st.text(max_size=50))
def test_what_is_no_sentence_stays_as_it_is(text: str) -> None:
    assert packed(text) == text
    assert unpacked(text.replace("\x1e", "")) == text.replace("\x1e", "")


@given(value=st.text(alphabet=st.characters(exclude_characters="\x1e", exclude_categories=["Cs"]), max_size=30))
def test_documents_are_packed_and_unpacked(value: str) -> None:
    document = {"a": [Sentence("{} is {}", value, Sentence("not {}", value)), value, 1.5, None], "b": {"c": value}}
    again = all_unpacked(json.loads(json.dumps(all_packed(document))))
    assert again == document
    assert parts(again["a"][0]) == parts(document["a"][0])
    assert not isinstance(again["a"][1], Sentence)


def test_a_text_without_parts_is_recognized_by_its_template() -> None:
    found = recognized("from the preset (vendor: arXiv 1: x)", ["(not given)", "from the preset ({}: {})"])
    assert parts(found) == [
        "from the preset (vendor: arXiv 1: x)",
        "from the preset ({0}: {1})",
        ["vendor", "vendor"],
        ["arXiv 1: x", "arXiv 1: x"],
    ]
    assert recognized("as somebody says", ["(not given)"]) == "as somebody says"
