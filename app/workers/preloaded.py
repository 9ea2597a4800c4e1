"""What pricing processes and workers have in common, loaded once by the process that they are forked from.

A fork takes milliseconds where the modules take seconds, and the memory of modules is there once.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

from app.heap import return_freed_memory

return_freed_memory()  # forked processes inherit it
os.environ["OMP_NUM_THREADS"] = "1"  # must precede the import of NumPy; several processes share the cores

for _module in (
    "app.answers.batches",
    "app.answers.service",
    "app.storage.session",
    "app.storage.database_errors",
    "app.text.json_documents",
    "app.workers.loop",
    "app.checks.service",
    "app.plans.service",
    "app.sweeps.requests",
    "app.calibrations.service",
    "numpy.ma",  # NumPy loads it with the first `unique`
):
    import_module(_module)

gc.collect()
gc.freeze()  # collections must not write to what the processes share
