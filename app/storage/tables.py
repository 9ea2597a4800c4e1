"""The tables. Times are seconds since 1970 by the database's own clock; JSON keeps the order of its keys."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from documents.sentences import packed, unpacked

PREFIX = "meshplan_"  # Optuna's own storage calls its tables studies and trials, and may share the database
VERSION_TABLE = f"{PREFIX}schema_version"
STATES = ("queued", "running", "completed", "failed", "cancelled")
VISIBILITIES = ("private", "link", "public")
OUTCOMES = ("fits", "too_large", "illegal")
CHECK_STATUSES = ("passed", "broken", "infeasible", "cut")

LISTED = ("number", "archived", "owner", "visibility", "state", "kind")  # columns by which lists choose studies

# A growing key: SQLite numbers rows automatically only if the type is INTEGER.
Serial = BigInteger().with_variant(Integer, "sqlite")


class SaidText(TypeDecorator[str]):
    """A sentence with its parts. A text without parts is stored unchanged."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: object) -> str | None:
        return None if value is None else packed(value)

    def process_result_value(self, value: str | None, dialect: object) -> str | None:
        return None if value is None else unpacked(value)


class Table(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {dict[str, Any]: JSON(none_as_null=True), list[Any]: JSON, str: Text, float: Float, int: BigInteger}  # noqa: RUF012


def _is_one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} in ({', '.join(repr(value) for value in values)})"


def _of_owner(table: str, column: str) -> tuple[Any, ...]:
    """Each owner, and nobody, has a value of the column once. (NULLs differ from each other in a unique index.)"""
    nobody = text("owner is null")
    return (
        Index(f"uq_{PREFIX}{table}_owner_{column}", "owner", column, unique=True),
        Index(f"uq_{PREFIX}{table}_{column}", column, unique=True, sqlite_where=nobody, postgresql_where=nobody),
        Index(f"ix_{PREFIX}{table}_owner_number", "owner", "number"),
        Index(f"ix_{PREFIX}{table}_created_at_s", "created_at_s"),
        {"sqlite_autoincrement": True},  # numbers are never reused, so that cursors stay valid
    )


class Study(Table):
    """A user's request, with all inputs to run it again; the row is also its job in the queue."""

    __tablename__ = f"{PREFIX}studies"
    __table_args__ = (
        CheckConstraint(_is_one_of("state", STATES), name="state"),
        Index(None, "state", "number"),
        Index("ix_meshplan_studies_state_turn_number", "state", "turn", "number"),
        Index("ix_meshplan_studies_owner_state_turn", "owner", "state", "turn"),
        Index("ix_meshplan_studies_archived_number", "archived", "number"),
        Index("ix_meshplan_studies_listed", *LISTED),
        {"sqlite_autoincrement": True},  # numbers are never reused, so that cursors stay valid
    )

    number: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    row_version: Mapped[int] = mapped_column(default=1)
    created_at_s: Mapped[float]
    started_at_s: Mapped[float | None]
    finished_at_s: Mapped[float | None]

    # Owner; None for a request without a key, which everybody may change.
    owner: Mapped[str | None]
    visibility: Mapped[str] = mapped_column(String(16), default="public", server_default="public")
    priority: Mapped[int] = mapped_column(Integer, default=0, server_default="0")  # priority among the studies of the owner
    turn: Mapped[int] = mapped_column(default=0, server_default="0")  # see app.studies.queue_order; 0: taken before
    queued_at_s: Mapped[float | None]

    # Labels given by its owner; empty by default.
    name: Mapped[str] = mapped_column(default="", server_default="")
    note: Mapped[str] = mapped_column(default="", server_default="", deferred=True)
    archived: Mapped[bool] = mapped_column(default=False, server_default=false())  # hidden from lists, and kept

    # The request; the first columns repeat parts of the job for lists and filters.
    kind: Mapped[str] = mapped_column(String(16), default="search", server_default="search")  # name in app.studies.kinds
    model_name: Mapped[str]
    hardware: Mapped[str]
    num_devices: Mapped[int]
    objective: Mapped[str]
    sampler: Mapped[str]
    seed: Mapped[int]
    job: Mapped[dict[str, Any]]
    assumptions: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    hardware_profile: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    space: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    calibration: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    version: Mapped[str]

    # Progress.
    state: Mapped[str] = mapped_column(String(16), default="queued")
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    attempts: Mapped[int] = mapped_column(default=0)
    attempts_without_progress: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None]
    lease_token: Mapped[int] = mapped_column(default=0)  # grows with every claim; a worker with an older token cannot write
    lease_expires_at_s: Mapped[float | None]
    heartbeat_at_s: Mapped[float | None]
    progress: Mapped[dict[str, Any] | None]
    checkpoint: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    result: Mapped[dict[str, Any] | None]
    error: Mapped[str | None] = mapped_column(SaidText)


class StudyText(Table):
    """Words by which lists find a study, in lower case: narrow rows, so that a search need not read the studies themselves."""

    __tablename__ = f"{PREFIX}study_texts"

    number: Mapped[int] = mapped_column(
        Serial, ForeignKey(Study.number, ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    text: Mapped[str]


class StudyTag(Table):
    """A tag of a study, given by its owner."""

    __tablename__ = f"{PREFIX}tags"
    __table_args__ = (Index("ix_meshplan_tags_tag_study_id", "tag", "study_id"),)

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(64), primary_key=True)


class Plan(Table):
    """A ranked plan of a study."""

    __tablename__ = f"{PREFIX}plans"
    __table_args__ = (UniqueConstraint("study_id", "plan_id"),)

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    rank: Mapped[int] = mapped_column(Integer, primary_key=True)
    plan_id: Mapped[str] = mapped_column(String(32))
    step_time_s: Mapped[float]
    peak_memory_bytes: Mapped[float]
    document: Mapped[dict[str, Any]]


class PlanVerification(Table):
    """Counts of the framework beside the price of a plan, as `meshplan verify` compares them."""

    __tablename__ = f"{PREFIX}verifications"

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    plan_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    created_at_s: Mapped[float]
    document: Mapped[dict[str, Any]]


class Trial(Table):
    """A strategy that a sampler proposed, and its value; ``best_value`` is the best so far."""

    __tablename__ = f"{PREFIX}trials"
    __table_args__ = (
        CheckConstraint(_is_one_of("outcome", OUTCOMES), name="outcome"),
        Index(None, "study_id", "outcome", "value"),
    )

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    source: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str] = mapped_column(String(16))
    rule: Mapped[str | None]
    step_time_s: Mapped[float | None]
    peak_memory_bytes: Mapped[float | None]
    value: Mapped[float | None]
    best_value: Mapped[float | None]
    duplicate_of: Mapped[int | None] = mapped_column(Integer)
    strategy: Mapped[dict[str, Any]]
    sampler_state: Mapped[dict[str, Any]]  # data to rebuild the trial inside the sampler


class Point(Table):
    """A finished point of a sweep: its part of the answer, and the plan from which others start."""

    __tablename__ = f"{PREFIX}points"

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    document: Mapped[dict[str, Any]]
    start: Mapped[list[Any]]  # empty without a plan


class Rejection(Table):
    """Number of illegal strategies of a study, by broken rule."""

    __tablename__ = f"{PREFIX}rejections"
    __table_args__ = (UniqueConstraint("study_id", "rule"),)

    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    rule: Mapped[str] = mapped_column(String(128))
    count: Mapped[int]
    example: Mapped[str] = mapped_column(SaidText)


class Event(Table):
    """An event of a study. Numbers grow over the whole database; within a study they grow with commits."""

    __tablename__ = f"{PREFIX}events"
    __table_args__ = (Index(None, "study_id", "sequence"), {"sqlite_autoincrement": True})

    sequence: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    study_id: Mapped[str] = mapped_column(ForeignKey(Study.id, ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(16))
    data: Mapped[dict[str, Any]]
    at_s: Mapped[float]


class KeptCheck(Table):
    """A capacity check in a history: its result, and the change that it checked."""

    __tablename__ = f"{PREFIX}checks"
    __table_args__ = (
        CheckConstraint(_is_one_of("status", CHECK_STATUSES), name="status"),
        Index("ix_meshplan_checks_name_number", "name", "number"),
        Index("ix_meshplan_checks_owner_number", "owner", "number"),
        Index("ix_meshplan_checks_created_at_s", "created_at_s"),
        {"sqlite_autoincrement": True},  # numbers are never reused, so that cursors stay valid
    )

    number: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    row_version: Mapped[int] = mapped_column(default=1)
    created_at_s: Mapped[float]
    owner: Mapped[str | None]
    visibility: Mapped[str] = mapped_column(String(16))
    archived: Mapped[bool] = mapped_column(default=False)

    # Statements of the caller, which are not verified.
    name: Mapped[str]
    commit: Mapped[str | None] = mapped_column("commit_id", String(64))  # a word of SQL's own
    branch: Mapped[str | None]
    change_url: Mapped[str | None]
    taken_from: Mapped[dict[str, Any]]

    # Results for lists and trends; ``document`` is the whole answer.
    status: Mapped[str] = mapped_column(String(16))
    version: Mapped[str]
    job_sha256: Mapped[str | None] = mapped_column(String(64))
    model_name: Mapped[str | None]
    hardware: Mapped[str | None]
    num_devices: Mapped[int | None]
    priced_with: Mapped[dict[str, Any] | None]
    metrics: Mapped[dict[str, Any]]
    lines: Mapped[list[Any]]
    moved: Mapped[dict[str, Any] | None]
    document: Mapped[dict[str, Any]] = mapped_column(deferred=True)


class MeasuredRun(Table):
    """A measured training run that a user gave; equal records of an owner are stored once."""

    __tablename__ = f"{PREFIX}measured_runs"
    __table_args__ = _of_owner("measured_runs", "record_sha256")

    number: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    owner: Mapped[str | None]
    visibility: Mapped[str] = mapped_column(String(16), default="public", server_default="public")
    record_sha256: Mapped[str] = mapped_column(String(64))
    record_id: Mapped[str | None]
    category: Mapped[str | None] = mapped_column(String(32))
    record: Mapped[dict[str, Any]]
    created_at_s: Mapped[float]


class Calibration(Table):
    """Fitted constants of a hardware family, with the report of how they were fitted; equal ones of an owner are stored once."""

    __tablename__ = f"{PREFIX}calibrations"
    __table_args__ = _of_owner("calibrations", "id")

    number: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    owner: Mapped[str | None]
    visibility: Mapped[str] = mapped_column(String(16), default="public", server_default="public")
    id: Mapped[str] = mapped_column(String(32))
    family: Mapped[str] = mapped_column(String(32))
    constants: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any]]
    version: Mapped[str]
    created_at_s: Mapped[float]


class ApiKey(Table):
    """An API key. Only the hash of the secret is stored; ``prefix`` distinguishes keys in a list."""

    __tablename__ = f"{PREFIX}api_keys"
    __table_args__ = (Index("ix_meshplan_api_keys_previous_sha256", "previous_sha256"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str]
    owner: Mapped[str | None]
    prefix: Mapped[str] = mapped_column(String(16))
    secret_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    previous_sha256: Mapped[str | None] = mapped_column(String(64))  # the secret before a rotation, valid for a while
    previous_until_s: Mapped[float | None]
    scopes: Mapped[list[Any]]
    created_at_s: Mapped[float]
    expires_at_s: Mapped[float | None]
    revoked_at_s: Mapped[float | None]
    last_used_at_s: Mapped[float | None]
    rotated_at_s: Mapped[float | None]
    # None: the server's default.
    requests_a_minute: Mapped[int | None]
    max_unfinished: Mapped[int | None]
    max_stored: Mapped[int | None]


class AuditRecord(Table):
    """An action of a key, or on a key by the command line; reads are not logged."""

    __tablename__ = f"{PREFIX}audit"
    __table_args__ = (
        Index("ix_meshplan_audit_at_s", "at_s"),
        Index("ix_meshplan_audit_owner_number", "owner", "number"),
        {"sqlite_autoincrement": True},
    )

    number: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    at_s: Mapped[float]
    owner: Mapped[str | None]
    key_id: Mapped[str | None] = mapped_column(String(32))
    key_name: Mapped[str | None]
    action: Mapped[str]
    status: Mapped[int | None] = mapped_column(Integer)
    address: Mapped[str | None]
    request_id: Mapped[str | None] = mapped_column(String(64))


class IdempotencyRecord(Table):
    """The answer to a request, for repetitions with the same key."""

    __tablename__ = f"{PREFIX}idempotency"
    __table_args__ = (Index(None, "created_at_s"), Index(None, "study_id"))

    owner: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(String(64))
    status_code: Mapped[int] = mapped_column(Integer)
    headers: Mapped[dict[str, Any]]
    body: Mapped[dict[str, Any]]
    study_id: Mapped[str | None] = mapped_column(String(32))  # id of the study or kept check; this row is deleted with it
    created_at_s: Mapped[float]
