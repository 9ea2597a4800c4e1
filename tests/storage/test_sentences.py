"""Columns keep the parts of sentences; what an older version stored is read as plain text."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Column, MetaData, Table, create_engine, insert, select, text

from app.storage.session import _from_json, _to_json
from app.storage.tables import JSON, SaidText
from documents.sentences import Sentence

SENTENCE = Sentence("{}: {} fit", "a, b", Sentence("{} of {}", 1, 2))


def test_parts_survive_in_texts_and_in_json() -> None:
    engine = create_engine("sqlite://", json_serializer=_to_json, json_deserializer=_from_json)
    table = Table("t", MetaData(), Column("error", SaidText), Column("document", JSON))
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(table), {"error": SENTENCE, "document": {"why": [SENTENCE, "a, b"], "n": 1.5}})
        connection.execute(insert(table), {"error": None, "document": []})
        connection.execute(text("insert into t values ('It failed; try again.', '{\"why\": [\"It failed.\"]}')"))
        (error, document), (nothing, empty), (old, old_document) = connection.execute(select(table)).all()
    assert (error, error.template, error.values[1].template) == (SENTENCE, "{0}: {1} fit", "{0} of {1}")
    assert document == {"why": [SENTENCE, "a, b"], "n": 1.5}
    assert document["why"][0].values == SENTENCE.values
    assert not isinstance(document["why"][1], Sentence)
    assert (nothing, empty) == (None, [])
    assert (old, old_document) == ("It failed; try again.", {"why": ["It failed."]})
    assert not isinstance(old, Sentence)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_drivers_may_give_bytes(as_bytes: bool) -> None:
    written = _to_json([SENTENCE])
    (read,) = _from_json(written.encode() if as_bytes else written)
    assert read.template == "{0}: {1} fit"
    assert json.loads(written)[0].startswith("a, b: 1 of 2 fit")
