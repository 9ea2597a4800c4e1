"""A process that answers calls of its parent, one by one, until the parent closes the connection or ends."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from app.heap import trim
from app.workers.process import end_with_parents
from documents.errors import InfeasibleError, InputError
from documents.late_methods import dataclass
from documents.said import WITH_PARTS

if TYPE_CHECKING:
    from app.answers.batches import EstimateBatches
    from app.answers.parts import Part
    from app.storage.session import Database

TRIM_EVERY_S = 1.0  # seconds of calls, after which their memory goes back to the system


@dataclass(frozen=True)
class CallOptions:
    """Options of a process; ``niceness`` lowers its priority for the cores."""

    url: str
    niceness: int = 0


class Call(NamedTuple):
    """A function that is called with these arguments and the ``database``. It returns a document, text or bytes."""

    function: Callable[..., Any]
    arguments: dict[str, Any]


class EstimateCall(NamedTuple):
    """A request for one estimate. Requests that arrive together are priced together; for ``advised`` see ``EstimateBatches``."""

    request: dict[str, Any]
    parts: frozenset[Part]
    advised: bool


class Answer(NamedTuple):
    """Result or error of a call. ``away``: a database error; ``fault``: an unexpected error."""

    value: bytes | None = None
    error: Exception | None = None
    away: tuple[str, str] | None = None
    fault: str | None = None


def main(options: CallOptions, connection: Connection) -> None:
    """The whole life of the process."""
    end_with_parents()
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C reaches all processes; the parent finishes calls first
        signal.signal(number, signal.SIG_IGN)
    os.nice(options.niceness)

    from app.answers.batches import EstimateBatches
    from app.storage.session import Database

    with Database(options.url) as database:
        batches = EstimateBatches(database)
        trimmed_s = time.monotonic()
        while True:
            try:
                calls = connection.recv()
            except (EOFError, OSError):
                return
            connection.send(answers(calls, batches, database))
            del calls
            if time.monotonic() - trimmed_s > TRIM_EVERY_S:
                trim()
                trimmed_s = time.monotonic()


def answers(calls: Sequence[Call | EstimateCall], batches: EstimateBatches, database: Database) -> list[Answer]:
    """The answer to each call, which are all of one kind. Their JSON carries the parts of its sentences, whoever reads it."""
    WITH_PARTS.set(True)
    requests = [(call.request, call.parts) for call in calls if isinstance(call, EstimateCall)]
    if not requests:
        return [_guarded(lambda call=call: [_called(call, database)])[0] for call in calls]  # type: ignore[misc]
    advised = any(call.advised for call in calls if isinstance(call, EstimateCall))
    found = _guarded(lambda: [_answer(one) for one in batches.answers(requests, advised=advised)])
    return found if len(found) == len(calls) else [found[0]] * len(calls)


def _called(call: Call, database: Database) -> Answer:
    from app.text.json_documents import Document, json_bytes

    found = call.function(**call.arguments, database=database)
    if isinstance(found, Document):
        return Answer(json_bytes(found))
    return Answer(found.encode() if isinstance(found, str) else found)


def _answer(found: bytes | Exception | None) -> Answer:
    return Answer(error=found) if isinstance(found, Exception) else Answer(found)


def _guarded(call: Callable[[], list[Answer]]) -> list[Answer]:
    from app.storage.database_errors import DATABASE_AWAY, told

    try:
        return call()
    except DATABASE_AWAY as error:
        return [Answer(away=told(error))]
    except Exception as error:  # any error must reach the caller
        # Errors that endpoints answer themselves.
        is_ours = isinstance(error, InputError | InfeasibleError) or type(error).__module__.startswith("app.")
        return [Answer(error=error) if is_ours else Answer(fault=traceback.format_exc())]
