"""Base of pydantic models whose schema is built when first used: a command uses few of those that it imports."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Any

from pydantic import BaseModel, ConfigDict

_BUILDING = RLock()


class BuiltWhenUsed(BaseModel):
    """A model whose schema is built once, by the thread that uses it first, while others wait."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def model_rebuild(
        cls,
        *,
        force: bool = False,
        raise_errors: bool = True,
        _parent_namespace_depth: int = 2,
        _types_namespace: Mapping[str, Any] | None = None,
    ) -> bool | None:
        """Build the schema; pydantic locks this itself only from 2.14 on, and before, threads met half-built models."""
        with _BUILDING:
            return super().model_rebuild(
                force=force,
                raise_errors=raise_errors,
                _parent_namespace_depth=_parent_namespace_depth + 1,
                _types_namespace=_types_namespace,
            )
