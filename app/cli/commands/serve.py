"""``meshplan serve``: the dashboard and the REST API with its workers."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from app.exit_codes import DONE
from app.text.lines import tell
from documents.errors import InputError, cause_of
from documents.sentences import Sentence, joined

DEFAULT_PORT = 8765
MAX_PORT = 65_535
_GRACE_S = 5  # seconds for running requests when the server must end
ELSEWHERE = "192.0.2.1"  # an address of no machine (RFC 5737)
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - all addresses of this machine, and one to call from here


def serve(
    host: Annotated[str, typer.Option(help="address to listen on; beyond this machine, callers need API keys")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free port")] = DEFAULT_PORT,
    workers: Annotated[int | None, typer.Option(help="processes that run studies (default 1, or MESHPLAN_WORKERS)")] = None,
    require_keys: Annotated[
        bool, typer.Option("--require-keys", help="ask for API keys on loopback too, as behind a proxy")
    ] = False,
) -> int:
    """Serves the dashboard and the REST API: studies are stored, run by workers, and go on after a restart."""
    if not 0 <= port <= MAX_PORT:
        raise InputError(Sentence("--port: {} is not allowed; give an integer from 0 to {:,}.", port, MAX_PORT))

    from app.settings import load_settings

    settings = load_settings(workers=workers)
    with _listening(host, port) as listener:
        from app.http.security import is_loopback
        from app.server.process import run
        from app.storage.session import Database
        from app.storage.upgrade import upgrade

        upgrade(settings.url)
        database = Database(settings.url)
        keys_required = require_keys or not is_loopback(host)
        port = listener.getsockname()[1]
        everywhere = (f"{host}:{port}", f"http://{_own_address()}:{port}") if host in EVERYWHERE else None
        tell(_greeting(_url(host, port), database.shown_url, settings.workers, keys_required, everywhere))
        run(database, listener, settings, keys_required=keys_required, grace_s=_GRACE_S)
    return DONE


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise InputError(
            Sentence(
                "--host: {!r} is no address of this machine ({}).",
                host,
                cause_of(error),
            )
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # allows a restart while old connections linger
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise InputError(
            Sentence(
                "--port: {}:{} cannot be used ({}); stop what listens there, or give another --port, 0 for any free one.",
                host,
                port,
                cause_of(error).lower(),
            )
        ) from None
    return listener


def _url(host: str, port: int) -> str:
    name = EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def _own_address() -> str:
    """The address of this machine on the network of its default route; without one, its name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ELSEWHERE, 9))  # sends nothing, but makes the system choose the route
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _greeting(url: str, database: str, workers: int, keys_required: bool, everywhere: tuple[str, str] | None = None) -> str:
    key = ' -H "Authorization: Bearer $MESHPLAN_API_KEY"' if keys_required else ""
    lines = [
        Sentence(
            "meshplan serves {} ({}, {} {}): "
            "open it in a browser for the dashboard; the documentation is at {}/docs, that of the API at {}/docs/api",
            url,
            database,
            workers,
            Sentence("worker") if workers == 1 else Sentence("workers"),
            url,
            url,
        ),
        *([Sentence("It listens on {}: other machines reach it at {}.", everywhere[0], everywhere[1])] if everywhere else []),
        *([Sentence("Callers need an API key: `meshplan keys create NAME` prints one.")] if keys_required else []),
        Sentence("Try:"),
        f"  curl {url}/v1/studies{key} -H 'Content-Type: application/json' -H 'Prefer: wait=30' \\",
        """    -d '{"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 64}}'""",
    ]
    return joined("\n", lines)
