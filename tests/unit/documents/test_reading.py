"""Files from outside are read strictly and never end in a traceback."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from documents import reading
from documents.errors import InputError
from documents.reading import LIMITS, Limits, check_present, opened, parse_document, read_bytes, read_document, read_text


def test_scalars_are_those_of_yaml_1_2() -> None:
    text = "a: 1e12\nb: off\nc: 1:30\nd: 010\ne: 6_144\nf: true\ng: ~\nh: .5\n"
    assert parse_document(text, "job") == {
        "a": 1e12,
        "b": "off",
        "c": "1:30",
        "d": 10,
        "e": 6144,
        "f": True,
        "g": None,
        "h": 0.5,
    }


@pytest.mark.parametrize(
    "text", ["a: [1, 2.5, true, null, b, 2026-01-01, 0x1f]\n", "a: &x 1\n", "[" * 5000, "a: b: c", "a: 1\na: 2"]
)
def test_the_result_does_not_depend_on_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def result() -> object:
        try:
            return parse_document(text, "x.yaml")
        except InputError as error:
            return str(error).split(":")[0]  # the two parsers word syntax errors differently

    fast = result()
    monkeypatch.setattr("documents.reading._LOADER", reading._strict(yaml.SafeLoader))
    assert result() == fast


def test_a_date_is_text_where_text_belongs() -> None:
    assert parse_document("source: 2026-08-21\n", "x.yaml") == {"source": "2026-08-21"}


BOMB = "a: &a [x, x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(8))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (BOMB, "line 1: anchors and aliases (*name) are not allowed"),
        ("a: 1\na: 2\n", "line 2: the key 'a' occurs twice"),
        ("- 1\n- 2\n", "holds a list where a mapping"),
        ("", "holds nothing where a mapping"),
        ("just text", "holds text where a mapping"),
        ("a: [1, 2\n", "expected ',' or ']'"),
        ("? [1, 2]\n: 3\n", "a key must be plain text"),
        (
            "a: !!python/object/apply:os.system ['true']\n",
            "the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not",
        ),
        ("a: " + "[" * 60 + "]" * 60, "nested deeper than 32 levels"),
        ("a: [" + "1, " * 50_000 + "1]", "more than 40,000 values"),
        ("a: 1\n---\nb: 2\n", "another document"),
        ("a: " + "9" * 5000, "digits is too long"),
        ("a: !!int x\n", "'x' cannot be read (invalid literal"),
    ],
)
def test_bad_yaml_is_one_sentence(text: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, "job.yaml")
    message = str(caught.value)
    assert message.startswith("job.yaml:")
    assert part in message
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a": NaN}', "NaN is not a finite number"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": ', "line 1: not valid JSON"),
        ("[" * 100_000, "nested deeper"),
        ("[]", "holds a list"),
    ],
)
def test_bad_json_is_one_sentence(text: str, part: str) -> None:
    with pytest.raises(InputError, match=r"^job\.json:") as caught:
        parse_document(text, "job.json", is_json=True)
    assert part in str(caught.value)


def test_unreadable_files_name_the_path(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\x00\xff\xfe\x80")
    (tmp_path / "nul.yaml").write_bytes(b"a: \x00")
    (tmp_path / "large.yaml").write_bytes(b"#" * (LIMITS.num_bytes + 1))
    for name, part in (
        ("absent.yaml", "no such file"),
        (".", "is a directory"),
        ("binary.yaml", "not a text file"),
        ("nul.yaml", "not a text file"),
        ("large.yaml", "larger than 256 KiB"),
    ):
        with pytest.raises(InputError) as caught:
            read_document(tmp_path / name)
        assert part in str(caught.value)
        assert str(tmp_path) in str(caught.value)


ANY_BYTES = st.binary(max_size=300).map(lambda content: content.decode("utf-8", errors="surrogateescape"))
LIKE_YAML = st.text(alphabet="ab:{}[]&*!-?|>'\" \n\t#1.e", max_size=60)


@given(ANY_BYTES | LIKE_YAML | st.text(max_size=60))
def test_any_text_gives_a_mapping_or_an_input_error(text: str) -> None:
    for is_json in (False, True):
        message = ""
        try:
            assert isinstance(parse_document(text, "fuzz", is_json=is_json), dict)
        except InputError as error:
            message = str(error)
        assert not message or message.startswith("fuzz:")


PIECES = st.sampled_from(['"a"', '"b"', '"c"', "[", "]", "{", "}", ",", ":", "1", "null", " ", "\n", "x", '{"a": 1}', "[1, 2]"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
MAPPINGS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES)
BOUNDED = Limits(entries={"a": 1000, "b": 1000})


def read_under(text: str, limits: Limits) -> object:
    try:
        return parse_document(text, "body", is_json=True, limits=limits)
    except InputError as error:
        return str(error)


@given(MAPPINGS.map(json.dumps) | MAPPINGS.map(lambda value: json.dumps(value, indent=1)) | st.lists(PIECES).map("".join))
def test_a_document_with_bounded_lists_reads_as_any_other_and_is_refused_as_any_other(text: str) -> None:
    assert read_under(text, BOUNDED) == read_under(text, LIMITS)
    assert read_under("{" + text, BOUNDED) == read_under("{" + text, LIMITS)


def test_what_follows_the_entry_too_many_is_not_read() -> None:
    limits = Limits(entries={"a": 2})
    assert read_under('{"b": [1, 2, 3], "a": [{}, {}]}', limits) == {"b": [1, 2, 3], "a": [{}, {}]}
    assert (
        read_under('{"a": [{}, {}, this is no JSON', limits) == "a: a list of more than 2 is not allowed; send fewer at a time."
    )


KEYS = [f"{number:x}" for number in range(200_000)]
MANY = Limits(num_bytes=10**8, values=10**6)


@pytest.mark.parametrize(
    ("text", "is_json", "part"),
    [
        ("{" + ",".join(f'"{key}":0' for key in KEYS) + f',"{KEYS[-1]}":0}}', True, "'30d3f' occurs twice"),
        ("{" + ",".join(f'"{key}":0' for key in KEYS) + f',"{KEYS[0]}":0}}', True, "'0' occurs twice"),
        ('{"a": {' + ",".join(f'"{key}":0' for key in KEYS) + f',"{KEYS[-1]}":0}}}}', True, "'30d3f' occurs twice"),
        ("".join(f"k{key}: 0\n" for key in KEYS[:60_000]) + "kea5f: 0\n", False, "'kea5f' occurs twice"),
        ('{"a": ' + "[" * 200_000, True, "nested deeper"),
        ("[" * 100_000, False, "nested deeper"),
        ('{"a": "' + "\\" * 400_000, True, "Unterminated string"),
        ('{"a": 0.' + "1" * 1_000_000 + "}x", True, "Extra data"),
    ],
    ids=["last key", "first key", "inner key", "YAML key", "deep JSON", "deep YAML", "text without end", "digits"],
)
def test_hostile_documents_take_time_by_their_length(text: str, is_json: bool, part: str) -> None:
    for limits in (MANY, Limits(MANY.num_bytes, values=MANY.values, entries={"b": 3})):
        began_s = time.process_time()
        with pytest.raises(InputError) as refused:
            parse_document(text, "x", is_json=is_json, limits=limits)
        assert part in str(refused.value)
        assert time.process_time() - began_s < 6.0  # a quadratic reader takes minutes


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _entered(path: Path) -> object:
    with opened(path) as file:
        return file.read()


READERS = [read_text, lambda path: read_bytes(path, 10), _entered, read_document, lambda path: check_present(path, 10)]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "place", [_fifo, lambda folder: Path("/dev/zero"), lambda folder: folder], ids=["FIFO", "device", "folder"]
)
def test_what_is_not_a_regular_file_is_refused_at_once(
    read: Callable[[Path], object], place: Callable[[Path], Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"is (not a regular file|a directory); give a file"):
        read(place(tmp_path))


@pytest.mark.parametrize("there", [b"", b"model: x\n"], ids=["nothing", "a part"])
@pytest.mark.parametrize("read", READERS)
def test_what_waits_for_more_bytes_is_refused_though_the_system_calls_it_a_regular_file(
    there: bytes, read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _fifo(tmp_path)
    monkeypatch.setattr(reading.stat, "S_ISREG", lambda mode: True)  # as /proc/kmsg, which only root may open
    writer = os.open(path, os.O_RDWR)
    try:
        os.write(writer, there)
        with pytest.raises(InputError, match=r"pipe: is not a regular file; give a file"):
            read(path)
    finally:
        os.close(writer)


def test_a_name_that_would_write_to_the_terminal_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_text(tmp_path / "a\x1b]52;c;aGk=\x07")
    assert "\x1b" not in str(refused.value)
