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
from dataclasses import dataclass
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
    return Finding("program", "ok", f"meshplan {__version__} on Python {platform.python_version()}, {platform.machine()}.")


def _data_files() -> Iterator[Finding]:
    """Read the package's data files like an estimate does."""
    parts: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
        ("calibrations", tuple(FAMILIES), shipped_calibration),
        ("hardware profiles", catalogue.names(), catalogue.named),
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
            yield Finding(what, "error", f"{broken[0]}.", "Install meshplan again: its files are not those of this version.")
        else:
            yield Finding(what, "ok", f"{len(names)} {what} can be read.")


def _open_files() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ConnectionLimits().connections + FILES_KEPT_FREE
    allowed = hard if hard != resource.RLIM_INFINITY else wanted  # the server raises the soft limit to the hard one
    if allowed >= wanted:
        return Finding("open files", "ok", f"A server may hold {ConnectionLimits().connections:,} connections.")
    detail = f"A process may open {allowed:,} files, so that a server holds {max(16, allowed - FILES_KEPT_FREE):,} connections."
    return Finding("open files", "warning", detail, f"Raise the limit to {wanted:,}: `LimitNOFILE=` of systemd, `ulimit -Hn`.")


def _port(port: int) -> Finding:
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            return Finding("port", "ok", f"Port {port} is free.")
        except PermissionError:
            hint = "Take a port from 1024 on, or let a proxy listen."
            return Finding("port", "error", f"Port {port} may not be used by this user.", hint)
        except OSError:
            pass
    with suppress(OSError, HTTPException, ValueError), closing(HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)) as caller:
        caller.request("GET", "/healthz")
        if b"version" in caller.getresponse().read(1000):
            return Finding("port", "ok", f"A server of meshplan answers on port {port}.")
    return Finding("port", "warning", f"Another program uses port {port}.", "Give `meshplan serve` another --port.")


def _folder(settings: Settings) -> Iterator[Finding]:
    """Findings on the SQLite file's folder: disk, rights and file system."""
    url = parsed_url(settings.url)
    if url.drivername != "sqlite" or not url.database:
        return
    path = Path(url.database).absolute()
    folder = next(parent for parent in path.parents if parent.exists())
    free = shutil.disk_usage(folder).free
    state: State = "error" if free < TOO_LITTLE_BYTES else "warning" if free < LITTLE_BYTES else "ok"
    hint = None if state == "ok" else "Free space, or `meshplan db prune --studies-days N`."
    yield Finding("disk", state, f"{free / 2**30:,.1f} GiB are free for {path}.", hint)
    kind = _file_system(folder)
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        hint = "Put it on a local disk, or use PostgreSQL."
        yield Finding("file system", "error", f"{path} lies on {kind}, which does not lock as SQLite needs.", hint)
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        hint = "Give this user the right to write the file and its folder."
        yield Finding("rights", "error", f"{path} cannot be written by this user.", hint)
    elif path.exists() and path.stat().st_mode & 0o006 and path.parent.stat().st_mode & 0o001:
        hint = f"`chmod o= {path}`, where not all of them are its users."
        yield Finding("rights", "warning", f"{path} can be read by everybody on this machine.", hint)
    elif path.exists():
        yield Finding("rights", "ok", f"{path} can be written, and is not open to everybody.")
    else:
        yield Finding("rights", "ok", f"{folder} can be written.")


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
        yield Finding("database", "ok", f"{url.database} is not there yet; `meshplan serve` makes it.")
        return
    try:
        with Database(settings.url) as database:
            check_current(database)
            yield Finding("database", "ok", f"{database.shown_url} answers and has this version's schema.")
            check_writable(database)
            check_whole(database)
            yield Finding("storage", "ok", "It takes what is written, and no damage was found.")
            with database.read() as session:
                yield from (_clock(session), _keys(session), _queue(session))
    except DATABASE_AWAY as error:
        detail, hint = told(error)
        yield Finding("database", "error", f"{detail.rstrip('.')} ({cause(error)[:200]}).", hint)
    except StorageError as error:
        away = error.__cause__
        hint = told(away)[1] if isinstance(away, DATABASE_AWAY) else "The sentence says what would do."
        yield Finding("database", "error", str(error), hint)


def _clock(session: Session) -> Finding:
    stored_s = session.scalar(select(func.max(Event.at_s))) or 0.0
    database_s = now_s(session)
    apart_s = abs(database_s - time.time())
    if stored_s - database_s > AHEAD_S:
        detail = f"What is stored lies {stored_s - database_s:,.0f} s ahead of the database's clock: it was set back."
        return Finding("clock", "warning", detail, "Keep the clock by NTP; studies go on, and times of those before are wrong.")
    if apart_s > CLOCK_S:
        detail = f"The clocks of this machine and of the database are {apart_s:,.0f} s apart."
        return Finding("clock", "warning", detail, "Keep both by NTP: keys expire by this machine's, leases by the database's.")
    return Finding("clock", "ok", "The clocks of this machine and of the database agree.")


def _keys(session: Session) -> Finding:
    now = time.time()
    found = list(session.scalars(select(ApiKey).where(ApiKey.revoked_at_s.is_(None))))
    valid = [key for key in found if key.expires_at_s is None or key.expires_at_s > now]
    soon = [key.name for key in valid if key.expires_at_s is not None and key.expires_at_s - now < EXPIRES_SOON_S]
    if soon:
        return Finding("keys", "warning", f"Expires within 14 days: {', '.join(soon)}.", "`meshplan keys rotate NAME`.")
    if not valid:
        return Finding("keys", "ok", "No API key is in force: only this machine may call, on loopback.")
    return Finding("keys", "ok", f"{len(valid)} API keys are in force.")


def _queue(session: Session) -> Finding:
    figures = service.figures(session)
    age_s, leases = figures["queue_age_seconds"], figures["leases"]
    if age_s > OLD_QUEUE_S and not leases:
        hint = "Start `meshplan worker`, or `meshplan serve` with --workers."
        return Finding("queue", "warning", f"A study has waited for {age_s / 60:,.0f} minutes, and no worker runs any.", hint)
    return Finding("queue", "ok", f"{leases:.0f} studies run; the oldest that waits has waited for {age_s:,.0f} s.")
