"""The kinds of studies. A new kind is an entry here, its name in ``schemas.KindName``, and a path that takes its requests."""

from __future__ import annotations

from app.studies.post_training_searches import RL
from app.studies.searches import SEARCH
from app.studies.sweeps import SWEEP
from app.studies.work import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (SEARCH, SWEEP, RL)}
