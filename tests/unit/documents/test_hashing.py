"""The canonical form of a document, by whose hash it is stored."""

import pytest

from documents.hashing import canonical_json, sha256_of

DOCUMENT = {"b": [1, 2.5], "a": {"ö": None}}


def test_the_canonical_form_keeps_its_characters() -> None:
    assert canonical_json(DOCUMENT) == '{"a":{"\\u00f6":null},"b":[1,2.5]}'
    assert canonical_json(DOCUMENT, ascii_only=False) == '{"a":{"ö":null},"b":[1,2.5]}'
    assert sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_infinity_has_a_canonical_form_only_where_it_is_allowed() -> None:
    assert canonical_json([float("inf")], allow_nan=True) == "[Infinity]"
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([float("inf")])
