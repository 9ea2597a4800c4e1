"""Settings from the environment: a field for each variable, named ``MESHPLAN_`` and the field's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from documents.errors import InputError, show
from documents.sentences import Sentence

PREFIX = "MESHPLAN_"
DATABASE_FILE = "meshplan.db"


def _user_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "meshplan"


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    data_dir: Path = Field(default_factory=_user_data_dir, description="folder of the SQLite database")
    database_url: str | None = Field(
        default=None, max_length=4096, description="postgresql://user:password@host/name or sqlite:///path; default: in data_dir"
    )
    workers: int = Field(default=1, ge=0, le=256, description="worker processes that `serve` and `worker` start")
    executor: str | None = Field(
        default=None,
        max_length=300,
        description="who works on what a command searches: serial, process://N or dask://HOST:PORT; default: all cores",
    )
    search_s: float = Field(
        default=45.0, gt=0, le=1e7, description="seconds after which a search ends with its results so far, if its job gives none"
    )
    search_bytes: int = Field(
        default=800 << 20, ge=64 << 20, le=1 << 50, description="memory that a search may take before it ends likewise"
    )
    lease_s: float = Field(
        default=10.0, ge=1.0, le=10.0, description="after this long without a sign of life, a study goes on elsewhere"
    )
    checkpoint_s: float = Field(default=1.0, ge=0.01, le=60.0, description="between two checkpoints of a running study")
    key_requests_a_minute: int = Field(default=30_000, ge=1, le=1_000_000, description="how often an API key may ask")
    key_max_unfinished: int = Field(default=1000, ge=1, le=1_000_000, description="studies of one owner that may wait or run")
    key_max_stored: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="studies that one owner may have stored; also checks, measured runs, calibrations",
    )
    wrong_keys_a_minute: int = Field(default=30, ge=1, le=10_000, description="wrong API keys that one address may send")
    trusted_proxies: str = Field(
        default="",
        max_length=4096,
        description="IP addresses and networks, with commas, of proxies whose X-Forwarded-For names the caller",
    )
    keep_studies_days: int = Field(default=0, ge=0, le=3650, description="after which finished studies are deleted; 0: never")
    keep_checks_days: int = Field(default=0, ge=0, le=3650, description="after which kept checks are deleted; 0: never")
    keep_runs_days: int = Field(
        default=0, ge=0, le=3650, description="after which measured runs and calibrations are deleted; 0: never"
    )
    keep_audit_days: int = Field(default=365, ge=1, le=3650, description="after which the log of what keys did is deleted")
    log_format: Literal["text", "json"] = Field(default="text", description="log lines on standard error")

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / DATABASE_FILE}"


def _of_environment() -> dict[str, str]:
    """The fields whose variables are set, in capitals or not."""
    variables = {name.lower(): value for name, value in os.environ.items()}
    names = {field: f"{PREFIX}{field}".lower() for field in Settings.model_fields}
    return {field: variables[name] for field, name in names.items() if name in variables}


def load_settings(**given: Any) -> Settings:
    """The settings; ``given`` (flags, without None) override the environment."""
    try:
        return Settings(**{**_of_environment(), **{name: value for name, value in given.items() if value is not None}})
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        field = str(detail["loc"][0])
        name = f"--{field}" if given.get(field) is not None else f"{PREFIX}{field.upper()}"
        raise InputError(
            Sentence("{}: {} is not allowed; {}.", name, show(detail["input"]), Sentence.whole(detail["msg"]).lower())
        ) from None
