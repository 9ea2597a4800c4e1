"""The function that prices a batch of strategies."""

from __future__ import annotations

from collections.abc import Callable

from cost_models.step.result import Estimate

Estimator = Callable[..., Estimate]
