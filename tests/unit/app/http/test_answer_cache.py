"""Answers that are kept are those that were given, as many as there is room for."""

from __future__ import annotations

from app.http.answer_cache import AnswerCache


def test_an_equal_question_finds_its_answer() -> None:
    kept = AnswerCache()
    kept.keep("a", b"1")
    assert (kept.find("a"), kept.find("b")) == (b"1", None)


def test_what_was_asked_longest_ago_makes_room() -> None:
    kept = AnswerCache(max_bytes=10)
    for question in ("a", "b"):
        kept.keep(question, b"12345")
    assert kept.find("a") == b"12345"
    kept.keep("c", b"12345")
    assert [kept.find(question) for question in ("a", "b", "c")] == [b"12345", None, b"12345"]
    kept.keep("large", b"x" * 100)
    assert kept.find("large") is None
