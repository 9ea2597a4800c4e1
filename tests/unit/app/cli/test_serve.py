"""``meshplan serve`` and ``meshplan keys``: what they refuse, before anything is started."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.commands.serve import _greeting, _own_address, _url
from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.storage.tables import VERSION_TABLE


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("MESHPLAN_DATABASE_URL", raising=False)
    monkeypatch.setenv("MESHPLAN_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--port", "70000"), "70000 is not allowed; give an integer from 0 to 65,535"),
        (("--port", "-1"), "-1 is not allowed"),
        (("--port", "http"), "--port"),
        (("--host", "no.such.host.invalid"), "'no.such.host.invalid' is no address of this machine"),
        (("--host", "203.0.113.7", "--port", "0"), "203.0.113.7:0 cannot be used"),  # an address of nobody [RFC 5737]
        (("--port", "0", "--workers", "-1"), "--workers: -1 is not allowed"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], data_folder: Path, arguments: tuple[str, ...], part: str
) -> None:
    assert part in refused(capsys, "serve", *arguments)
    assert not data_folder.exists()


def test_a_worker_of_no_processes_is_refused(capsys: pytest.CaptureFixture[str], data_folder: Path) -> None:
    assert "--workers: 0 is not allowed" in refused(capsys, "worker", "--workers", "0")
    assert not data_folder.exists()


def test_a_port_in_use_is_refused(capsys: pytest.CaptureFixture[str], data_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be used (address already in use)" in refused(capsys, "serve", "--port", str(port))
    assert not data_folder.exists()


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("keys", "list"), ("keys", "create", "tool")])
def test_the_database_of_a_newer_version_is_left_alone(
    capsys: pytest.CaptureFixture[str], data_folder: Path, command: tuple[str, ...]
) -> None:
    data_folder.mkdir()
    path = data_folder / "meshplan.db"
    database = sqlite3.connect(path)
    with database:
        database.execute("pragma journal_mode=wal")  # as every database of ours
        database.execute(f"create table {VERSION_TABLE} (version_num text)")
        database.execute(f"insert into {VERSION_TABLE} values ('9999')")
    database.close()
    before = path.read_bytes()
    assert "a newer meshplan wrote" in refused(capsys, *command)
    assert path.read_bytes() == before


def test_a_database_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", "mysql://host/name")
    assert "'mysql' is not supported" in refused(capsys, "serve", "--port", "0")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("create", ""), "1 to 100 printable characters"),
        (("create", "a\nb"), "1 to 100 printable characters"),
        (("create", "tool", "--days", "0"), "0 is not allowed; give an integer from 1 to 3,650"),
        (("create", "tool", "--scope", "reed"), "did you mean 'read'?"),
        (("revoke", "nobody"), "names 0 keys that are in force; those in force: none"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], part: str) -> None:
    assert part in refused(capsys, "keys", *arguments)


def test_keys_are_made_listed_and_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "tool", "--scope", "read", "--days", "30"]) == DONE
    secret = capsys.readouterr().out.strip()
    assert main(["keys", "list", "--json"]) == DONE
    listing = capsys.readouterr().out
    assert '"scopes": [\n        "read"\n      ]' in listing
    assert secret not in listing
    assert main(["keys", "revoke", secret[:8]]) == DONE
    assert "names 0 keys" in refused(capsys, "keys", "revoke", "tool")


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80"), ("::1", "http://[::1]:80")],
)  # fmt: skip
def test_the_printed_address_can_be_called(host: str, url: str) -> None:
    assert _url(host, 80) == url


def test_who_listens_everywhere_says_so() -> None:
    assert "It listens on 0.0.0.0:80: other machines reach it at http://10.0.0.5:80." in _greeting(
        "http://127.0.0.1:80", "db", 1, True, ("0.0.0.0:80", "http://10.0.0.5:80")
    )
    assert "It listens" not in _greeting("http://h:1", "db", 1, True)


def test_the_address_for_other_machines_is_none_of_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: (_ for _ in ()).throw(OSError("Network is unreachable")))
    assert _own_address() == socket.gethostname()
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda _: ("10.0.0.5", 40_000))
    assert _own_address() == "10.0.0.5"


def test_the_first_request_carries_a_key_where_one_is_needed() -> None:
    assert "Authorization: Bearer" in _greeting("http://h:1", "db", 1, keys_required=True)
    assert "Authorization" not in _greeting("http://h:1", "db", 2, keys_required=False)
