"""The workers of a Dask scheduler as an executor."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from documents.sentences import Sentence, joined
from meshplan import __version__
from meshplan.remote import called, version
from search.errors import SearchError
from search.executors.executor import WorkerLostError

PATIENCE_S = 5.0  # seconds for the scheduler to answer
LOOK_S = 1.0  # seconds between two counts of the workers
AHEAD = 1  # calls that wait for each thread of a worker


class Engine:
    """The workers of a scheduler, all of this version of meshplan."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._unfinished: set[Any] = set()
        self._threads, self._looked_s = 0, float("-inf")

    grown_bytes = 0  # its workers have limits of their own

    @property
    def room(self) -> int:
        """The number of calls that it takes now."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self._threads, self._looked_s = sum(self._client.nthreads().values()), time.monotonic()
        return max(0, (1 + AHEAD) * self._threads - len(self._unfinished))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have some worker call a function. The scheduler repeats the call if that worker is lost."""
        answer: Future[Any] = Future()
        asked = self._client.submit(called, function.__module__, function.__qualname__, pickle.dumps(arguments), pure=False)
        self._unfinished.add(asked)

        def take(done: Any) -> None:
            self._unfinished.discard(done)
            if done.status == "finished":
                answer.set_result(pickle.loads(done.result()))  # noqa: S301  # from our own function
            elif done.status == "error" and not _is_lost(error := done.exception()):
                answer.set_exception(error)
            else:
                answer.set_exception(WorkerLostError())

        asked.add_done_callback(take)
        return answer

    def close(self) -> None:
        """Cancel calls that are not finished; the scheduler goes on."""
        self._client.cancel(list(self._unfinished), force=True)
        self._client.close()


def _is_lost(error: BaseException) -> bool:
    from distributed.scheduler import KilledWorker

    return isinstance(error, KilledWorker)


def engine_at(host: str, port: int, field: str) -> Engine:
    """The engine of the scheduler at an address. ``SearchError`` without the extra, an answer, or workers of this version."""
    address = f"dask://{host}:{port}"
    try:
        import distributed
    except ModuleNotFoundError:
        raise SearchError(
            Sentence("{}: {} needs Dask, which is not installed; pip install 'meshplan[dask]'.", field, address)
        ) from None
    make: Any = distributed.Client  # whose calls have no types
    try:
        client = make(f"tcp://{host}:{port}", timeout=PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError):
        raise SearchError(Sentence("{}: no Dask scheduler answers at {}.", field, address)) from None
    try:
        versions = set(client.run(version, on_error="return").values())
    except Exception as error:
        versions = {type(error).__name__}
    if versions - {__version__}:
        client.close()
        strange = joined(", ", sorted(str(each) for each in versions - {__version__}))
        raise SearchError(
            Sentence("{}: workers of {} do not have meshplan {} ({}); install it there.", field, address, __version__, strange)
        )
    return Engine(client)
