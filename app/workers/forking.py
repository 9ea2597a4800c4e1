"""The process from which pricing processes and workers are forked: a fork takes milliseconds, and shares modules."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

_PRELOADED = "app.workers.preloaded"


def forking() -> ForkServerContext:
    """The context that starts such processes. They end with this process (``app.workers.process``)."""
    context = get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context
