"""Answers that are kept are those that were given, as many as there is room for."""

from __future__ import annotations

import pytest

from app.http.kept import KeptAnswers


def test_an_equal_question_is_answered_once() -> None:
    kept, asked = KeptAnswers(), []

    def answer(question: str) -> bytes:
        return kept.get(question, lambda: asked.append(question) or question.encode())

    assert [answer("a"), answer("b"), answer("a")] == [b"a", b"b", b"a"]
    assert asked == ["a", "b"]


def test_what_was_asked_longest_ago_makes_room() -> None:
    kept = KeptAnswers(max_bytes=10)
    for question in ("a", "b", "a", "c"):
        kept.get(question, lambda: b"12345")
    assert kept.get("a", lambda: b"new") == b"12345"
    assert kept.get("b", lambda: b"new") == b"new"
    assert kept.get("large", lambda: b"x" * 100) == b"x" * 100
    assert kept.get("large", lambda: b"y") == b"y"


def test_a_refusal_is_not_kept() -> None:
    kept = KeptAnswers()

    def refuse() -> bytes:
        raise LookupError

    with pytest.raises(LookupError):
        kept.get("a", refuse)
    assert kept.get("a", lambda: b"fine") == b"fine"
