"""Checks of this installation, with a sentence on each; nothing is changed."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.catalogue.models import presets
from app.http import keys
from app.server.connections import FILES_KEPT_FREE, ConnectionLimits
from app.settings import Settings
from app.storage.clock import now_s
from app.storage.database_errors import DATABASE_AWAY, cause, told
from app.storage.probes import check_whole, check_writable
from app.storage.session import Database, StorageError, parsed_url
from app.storage.tables import ApiKey, Event
from app.storage.upgrade import check_current
from app.studies import service
from calibration.files.calibrations import FAMILIES, shipped_calibration
from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from hardware_profiles import catalogue
from meshplan import __version__

State = Literal["ok", "warning", "error"]

LITTLE_BYTES, TOO_LITTLE_BYTES = 2**30, 100 * 2**20  # free disk space: a study with a thousand plans takes some ten MiB
CLOCK_S = 2.0  # difference between this machine's clock and the database's
AHEAD_S = 60.0  # stored rows that are examined
OLD_QUEUE_S = 600.0
EXPIRES_SOON_S = 14 * keys.SECONDS_PER_DAY
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "fuse.sshfs", "lustre", "gpfs", "glusterfs", "9p", "ceph", "beegfs")
_ANSWER_S = 2.0


@dataclass(frozen=True)
class Finding:
    """A finding: ``detail`` is the observation, ``hint`` a remedy for a fault."""

    check: str
    state: State
    detail: str
    hint: str | None = None


def examine(settings: Settings, port: int) -> list[Finding]:
    """All findings, in order of importance."""
    findings = [_program(), *_data_files(), _open_files(), _port(port)]
    findings += _folder(settings)
    return [*findings, *_database(settings)]


def _program() -> Finding:
    return Finding(
        "program", "ok", Sentence("meshplan {} on Python {}, {}.", __version__, platform.python_version(), platform.machine())
    )


def _data_files() -> Iterator[Finding]:
    """Read the package's data files like an estimate does."""
    parts: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
        ("calibrations", tuple(FAMILIES), shipped_calibration),
        (Sentence("hardware profiles"), catalogue.names(), catalogue.named),
        ("models", presets.names(), presets.model_preset),
    )
    for what, names, read in parts:
        broken = []
        for name in names:
            try:
                read(name)
            except (InputError, OSError, ValueError) as error:
                broken.append(str(error).rstrip("."))
        if broken:
            yield Finding(
                what,
                "error",
                Sentence("{}.", broken[0]),
                Sentence("Install meshplan again: its files are not those of this version."),
            )
        else:
            yield Finding(what, "ok", Sentence("{} {} can be read.", len(names), what))


def _open_files() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ConnectionLimits().connections + FILES_KEPT_FREE
    allowed = hard if hard != resource.RLIM_INFINITY else wanted  # the server raises the soft limit to the hard one
    if allowed >= wanted:
        return Finding(
            Sentence("open files"), "ok", Sentence("A server may hold {:,} connections.", ConnectionLimits().connections)
        )
    detail = Sentence(
        "A process may open {:,} files, so that a server holds {:,} connections.", allowed, max(16, allowed - FILES_KEPT_FREE)
    )
    return Finding(
        Sentence("open files"),
        "warning",
        detail,
        Sentence("Raise the limit to {:,}: `LimitNOFILE=` of systemd, `ulimit -Hn`.", wanted),
    )


def _port(port: int) -> Finding:
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            return Finding("port", "ok", Sentence("Port {} is free.", port))
        except PermissionError:
            hint = Sentence("Take a port from 1024 on, or let a proxy listen.")
            return Finding("port", "error", Sentence("Port {} may not be used by this user.", port), hint)
        except OSError:
            pass
    with suppress(OSError, HTTPException, ValueError), closing(HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)) as caller:
        caller.request("GET", "/healthz")
        if b"version" in caller.getresponse().read(1000):
            return Finding("port", "ok", Sentence("A server of meshplan answers on port {}.", port))
    return Finding(
        "port", "warning", Sentence("Another program uses port {}.", port), Sentence("Give `meshplan serve` another --port.")
    )


def _folder(settings: Settings) -> Iterator[Finding]:
    """Findings on the SQLite file's folder: disk, rights and file system."""
    url = parsed_url(settings.url)
    if url.drivername != "sqlite" or not url.database:
        return
    path = Path(url.database).absolute()
    folder = next(parent for parent in path.parents if parent.exists())
    free = shutil.disk_usage(folder).free
    state: State = "error" if free < TOO_LITTLE_BYTES else "warning" if free < LITTLE_BYTES else "ok"
    hint = None if state == "ok" else Sentence("Free space, or `meshplan db prune --studies-days N`.")
    yield Finding("disk", state, Sentence("{:,.1f} GiB are free for {}.", free / 2**30, path), hint)
    kind = _file_system(folder)
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        hint = Sentence("Put it on a local disk, or use PostgreSQL.")
        yield Finding(
            Sentence("file system"), "error", Sentence("{} lies on {}, which does not lock as SQLite needs.", path, kind), hint
        )
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        hint = Sentence("Give this user the right to write the file and its folder.")
        yield Finding("rights", "error", Sentence("{} cannot be written by this user.", path), hint)
    elif path.exists() and path.stat().st_mode & 0o006 and path.parent.stat().st_mode & 0o001:
        hint = Sentence("`chmod o= {}`, where not all of them are its users.", path)
        yield Finding("rights", "warning", Sentence("{} can be read by everybody on this machine.", path), hint)
    elif path.exists():
        yield Finding("rights", "ok", Sentence("{} can be written, and is not open to everybody.", path))
    else:
        yield Finding("rights", "ok", Sentence("{} can be written.", folder))


def _file_system(folder: Path) -> str:
    """Type of the folder's file system; empty if the system does not say."""
    found, longest = "", -1
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
            _, mount, kind, *_ = line.split(" ")
            if folder.is_relative_to(mount) and len(mount) > longest:
                found, longest = kind, len(mount)
    return found


def _database(settings: Settings) -> Iterator[Finding]:
    url = parsed_url(settings.url)
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        yield Finding("database", "ok", Sentence("{} is not there yet; `meshplan serve` makes it.", url.database))
        return
    try:
        with Database(settings.url) as database:
            check_current(database)
            yield Finding("database", "ok", Sentence("{} answers and has this version's schema.", database.shown_url))
            check_writable(database)
            check_whole(database)
            yield Finding("storage", "ok", Sentence("It takes what is written, and no damage was found."))
            with database.read() as session:
                yield from (_clock(session), _keys(session), _queue(session))
    except DATABASE_AWAY as error:
        detail, hint = told(error)
        yield Finding("database", "error", Sentence("{} ({}).", detail.rstrip("."), cause(error)[:200]), hint)
    except StorageError as error:
        away = error.__cause__
        hint = told(away)[1] if isinstance(away, DATABASE_AWAY) else Sentence("The sentence says what would do.")
        yield Finding("database", "error", str(error), hint)


def _clock(session: Session) -> Finding:
    stored_s = session.scalar(select(func.max(Event.at_s))) or 0.0
    database_s = now_s(session)
    apart_s = abs(database_s - time.time())
    if stored_s - database_s > AHEAD_S:
        detail = Sentence("What is stored lies {:,.0f} s ahead of the database's clock: it was set back.", stored_s - database_s)
        return Finding(
            "clock", "warning", detail, Sentence("Keep the clock by NTP; studies go on, and times of those before are wrong.")
        )
    if apart_s > CLOCK_S:
        detail = Sentence("The clocks of this machine and of the database are {:,.0f} s apart.", apart_s)
        return Finding(
            "clock", "warning", detail, Sentence("Keep both by NTP: keys expire by this machine's, leases by the database's.")
        )
    return Finding("clock", "ok", Sentence("The clocks of this machine and of the database agree."))


def _keys(session: Session) -> Finding:
    now = time.time()
    found = list(session.scalars(select(ApiKey).where(ApiKey.revoked_at_s.is_(None))))
    valid = [key for key in found if key.expires_at_s is None or key.expires_at_s > now]
    soon = [key.name for key in valid if key.expires_at_s is not None and key.expires_at_s - now < EXPIRES_SOON_S]
    if soon:
        return Finding(
            "keys",
            "warning",
            Sentence("Expires within 14 days: {}.", joined(", ", soon)),
            Sentence("`meshplan keys rotate NAME`."),
        )
    if not valid:
        return Finding("keys", "ok", Sentence("No API key is in force: only this machine may call, on loopback."))
    return Finding("keys", "ok", Sentence("{} API keys are in force.", len(valid)))


def _queue(session: Session) -> Finding:
    figures = service.figures(session)
    age_s, leases = figures["queue_age_seconds"], figures["leases"]
    if age_s > OLD_QUEUE_S and not leases:
        hint = Sentence("Start `meshplan worker`, or `meshplan serve` with --workers.")
        return Finding(
            "queue", "warning", Sentence("A study has waited for {:,.0f} minutes, and no worker runs any.", age_s / 60), hint
        )
    return Finding("queue", "ok", Sentence("{:.0f} studies run; the oldest that waits has waited for {:,.0f} s.", leases, age_s))
