"""A forwarded address is believed from proxies that the configuration names, and only as far as these wrote it."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from app.http import keys
from app.http.addresses import Proxies, network_of, parse_proxies
from app.server.application import create_app
from app.server.connections import ConnectionLimits
from app.server.process import server_config
from app.storage.session import Database
from app.storage.tables import AuditRecord
from documents.errors import InputError

PROXIES = parse_proxies("10.0.0.5, 10.1.0.0/24,fd00::/8", "X")


@pytest.mark.parametrize(
    ("host", "forwarded", "caller"),
    [
        ("10.0.0.5", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.5", ["198.51.100.1, 192.0.2.7"], "192.0.2.7"),  # a caller's own field comes first
        ("10.0.0.5", ["198.51.100.1", "192.0.2.7, 10.1.0.9"], "192.0.2.7"),
        ("10.0.0.5", ["192.0.2.7:4711"], "192.0.2.7"),
        ("10.0.0.5", ["[2001:db8::1]:80"], "2001:db8::1"),
        ("10.0.0.5", ["command line of root"], "10.0.0.5"),
        ("10.0.0.5", ["192.0.2.7, unknown"], "10.0.0.5"),
        ("10.0.0.5", ["A" * 20_000], "10.0.0.5"),
        ("10.0.0.5", [], "10.0.0.5"),
        ("10.0.0.6", ["192.0.2.7"], "10.0.0.6"),
        ("127.0.0.1", ["192.0.2.7"], "127.0.0.1"),
        ("::ffff:10.0.0.5", ["192.0.2.7"], "192.0.2.7"),
    ],
)
def test_the_caller_is_the_nearest_address_that_is_no_trusted_proxy(host: str, forwarded: list[str], caller: str) -> None:
    assert PROXIES.caller(host, forwarded) == caller


def test_without_configuration_no_proxy_is_trusted() -> None:
    assert Proxies().caller("127.0.0.1", ["192.0.2.7"]) == "127.0.0.1"


@pytest.mark.parametrize("text", ["*", "proxy.example", "10.0.0.0/33", "10.0.0.1/24"])
def test_a_proxy_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"X: .* is no IP address or network"):
        parse_proxies(text, "X")


def test_an_address_of_version_6_counts_by_its_network() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::2") == "2001:db8::/64"
    assert network_of("::ffff:192.0.2.7") == "192.0.2.7"


@pytest.mark.parametrize(("proxies", "refused"), [("", 30), ("127.0.0.1", 0)])
def test_neither_the_log_of_actions_nor_the_limit_of_wrong_keys_can_be_forged(
    database: Database, proxies: str, refused: int
) -> None:
    trusted = parse_proxies(proxies, "X")
    app = create_app(database, keys_required=True, proxies=trusted)
    assert not server_config(app, ConnectionLimits(), 1, trusted).proxy_headers
    with database.write() as session:
        secret = keys.create_key(session, "alice", ("read", "write"), None)[1]
    with TestClient(app, client=("127.0.0.1", 1)) as client:
        assert client.get("/v1/terms", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        answers = [
            client.get(
                "/v1/terms", headers={"Authorization": f"Bearer mp_bad{number}", "X-Forwarded-For": f"203.0.113.{number}"}
            ).status_code
            for number in range(60)
        ]
        assert answers.count(429) == refused
        client.patch(
            "/v1/studies/none",
            json={"note": "a"},
            headers={"Authorization": f"Bearer {secret}", "X-Forwarded-For": "command line of root, 192.0.2.7"},
        )
    with database.read() as session:
        addresses = set(session.scalars(select(AuditRecord.address)))
    assert addresses == {"192.0.2.7" if proxies else "127.0.0.1"}
