"""Many followers of studies cost the database no more than one."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack

import httpx
import pytest

from app.http import keys
from app.storage.session import Database
from app.storage.tables import ApiKey
from app.studies import event_followers, queue
from tests.api.sockets import Address, serving
from tests.study_jobs import queued, small_job

NUM_STREAMS = 40


def create(database: Database) -> str:
    with database.write() as session:
        return queued(session, small_job()).id


def stream(address: Address, study_id: str) -> socket.socket:
    caller = socket.create_connection(address, timeout=10)
    caller.sendall(f"GET /v1/studies/{study_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return caller


def read_until(caller: socket.socket, part: bytes) -> bytes:
    text = b""
    while part not in text:
        piece = caller.recv(65536)
        assert piece, text
        text += piece
    return text


def save(database: Database, lease: queue.Lease, fraction: float) -> None:
    with database.write() as session:
        queue.save(session, lease, {"done_fraction": fraction}, {"step": 1}, [])


def test_followers_share_one_look_at_the_database(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [create(database) for _ in range(4)]
    with serving(database) as address:
        streams = [stream(address, ids[index % len(ids)]) for index in range(NUM_STREAMS)]
        for caller in streams:
            read_until(caller, b"queued")
        time.sleep(2 * event_followers.POLL_S)
        reads = []
        read = Database.read
        monkeypatch.setattr(Database, "read", lambda self: reads.append(time.monotonic()) or read(self))
        time.sleep(4 * event_followers.POLL_S)
        assert 2 <= len(reads) <= 5
        with database.write() as session:
            lease = queue.claim(session, "a test", 10.0)
        assert lease is not None
        for fraction in (0.25, 0.5):
            save(database, lease, fraction)
        with database.write() as session:
            queue.finish(session, lease, "1.0", queue.Outcome("failed", error="It broke."))
        for index, caller in enumerate(streams):
            if ids[index % len(ids)] == lease.study_id:
                text = read_until(caller, b"0\r\n\r\n").decode()  # it ends, once for all that follow
                states = [json.loads(line[6:])["state"] for line in text.splitlines() if line.startswith('data: {"state')]
                assert states == ["running", "failed"]
            caller.close()
        assert len(reads) < NUM_STREAMS


def test_a_follower_beyond_the_limit_is_told_so_and_takes_the_next_free_place(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_followers, "MAX_FOLLOWERS", 2)
    study_id = create(database)
    with serving(database) as address:
        url = f"http://{address[0]}:{address[1]}/v1/studies/{study_id}"
        streams = [stream(address, study_id) for _ in range(2)]
        for caller in streams:
            read_until(caller, b"queued")
        refused = httpx.get(f"{url}/events")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "30"
        assert "2 event streams" in refused.json()["detail"]
        streams.pop().close()
        time.sleep(0.3)
        streams.append(stream(address, study_id))
        read_until(streams[-1], b"queued")
        for caller in streams:
            caller.close()


def test_a_follower_who_comes_late_or_was_away_misses_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_followers, "WINDOW", 3)
    study_id = create(database)
    with database.write() as session:
        lease = queue.claim(session, "a test", 10.0)
    assert lease is not None
    with serving(database) as address:
        first = stream(address, study_id)
        read_until(first, b"running")
        for step in range(8):
            save(database, lease, step / 10)
        text = read_until(first, b"0.7")
        late = stream(address, study_id)
        assert all(f"0.{step}".encode() in text for step in range(1, 8))
        text = read_until(late, b"0.7")
        assert all(f"0.{step}".encode() in text for step in range(1, 8))
        save(database, lease, 0.95)
        for caller in (first, late):
            assert read_until(caller, b"0.95").count(b"done_fraction") == 1
            caller.close()


def test_one_owner_leaves_places_to_others_and_nobody_is_refused_a_study_that_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 7240: a preference may be ignored. A 503 would make the caller send the job again."""
    monkeypatch.setattr(event_followers, "MAX_FOLLOWERS", 4)
    with database.write() as session:
        secrets = [keys.create_key(session, name, keys.USUAL_SCOPES, None)[1] for name in ("ada", "eve")]
    with serving(database, keys_required=True) as address, ExitStack() as held:
        url = f"http://{address[0]}:{address[1]}/v1/studies"
        ada, eve = (held.enter_context(httpx.Client(headers={"Authorization": f"Bearer {one}"})) for one in secrets)
        job = small_job().document
        mine = eve.post(url, json=job).json()["id"]
        streams = [held.enter_context(eve.stream("GET", f"{url}/{mine}/events")) for _ in range(3)]
        assert [one.status_code for one in streams] == [200, 200, 503]
        theirs = ada.post(url, json=job).json()["id"]
        assert held.enter_context(ada.stream("GET", f"{url}/{theirs}/events")).status_code == 200
        began_s = time.monotonic()
        answer = eve.post(url, json={**job, "search": {**job["search"], "top": 3}}, headers={"Prefer": "wait=20"})
        assert answer.status_code == 202
        assert time.monotonic() - began_s < 10
        assert "Preference-Applied" not in answer.headers
        assert eve.get(answer.headers["Location"].replace("/v1/studies", url)).json()["state"] == "queued"


@pytest.mark.parametrize("end", ["revoked", "expired", "private"])
def test_a_stream_ends_with_the_right_to_read(database: Database, end: str) -> None:
    with database.write() as session:
        secrets = {name: keys.create_key(session, name, keys.USUAL_SCOPES, None) for name in ("ada", "eve", "sue")}
        ids = {name: key.id for name, (key, _) in secrets.items()}
    with serving(database, keys_required=True) as address, ExitStack() as held:
        url = f"http://{address[0]}:{address[1]}/v1/studies"
        clients = {
            name: held.enter_context(httpx.Client(headers={"Authorization": f"Bearer {secret}"}, timeout=10))
            for name, (_, secret) in secrets.items()
        }
        study = clients["ada"].post(url, params={"visibility": "public"}, json=small_job().document).json()["id"]
        followed = {
            name: held.enter_context(client.stream("GET", f"{url}/{study}/events")).iter_lines()
            for name, client in clients.items()
        }
        for lines in followed.values():
            assert next(lines).startswith(("event", "data", "id"))
        if end == "private":
            clients["ada"].patch(f"{url}/{study}", json={"visibility": "private"}).raise_for_status()
        else:
            with database.write() as session:
                key = session.get(ApiKey, ids["eve"])
                assert key is not None
                key.revoked_at_s, key.expires_at_s = (time.time(), None) if end == "revoked" else (None, time.time())
        time.sleep(4 * event_followers.POLL_S)
        with database.write() as session:
            lease = queue.claim(session, "a test", 10.0)
        assert lease is not None
        heard = {"ada"} if end == "private" else {"ada", "sue"}
        for name, lines in followed.items():
            if name in heard:
                assert any("running" in line for line in lines)
            else:
                assert not any("running" in line for line in lines)  # it has ended: the loop does
