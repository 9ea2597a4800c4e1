"""A statement that takes too long refuses its caller alone: the database lives, and others go on."""

from __future__ import annotations

import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, insert, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.server.application import create_app
from app.storage.database_errors import is_hang, told
from app.storage.session import Database
from app.storage.tables import MeasuredRun, Study, StudyText, Table
from app.storage.upgrade import upgrade
from app.studies import pruning, service
from app.studies.pruning import SECONDS_PER_DAY, Retention
from tests.study_jobs import queued, small_job

LOCAL = "http://127.0.0.1:8765"
QUICK_S = 0.3  # a page of studies with its counts
PATIENCE_S = 20.0
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000000000) select count(*) from n"


def test_a_slow_statement_is_given_up_and_others_are_answered(database_url: str) -> None:
    with Database(database_url, statement_s=1.0) as database:
        began_s = time.monotonic()
        with pytest.raises(OperationalError) as raised, database.read() as session:
            session.execute(text(ENDLESS))
        assert 0.5 < time.monotonic() - began_s < 5.0
        assert told(raised.value)[0] == "The database takes too long over this request."
        assert not is_hang(raised.value)
        with database.read() as session:
            assert service.count_by_state(session) == {}


def test_callers_that_use_up_the_connections_do_not_shut_out_the_rest(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.storage.session.POOL_S", 0.2)
    with Database(database_url, statement_s=1.5) as database:

        def slow(_: int) -> None:
            with pytest.raises((OperationalError, TimeoutError, Exception)), database.read() as session:
                session.execute(text(ENDLESS))

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(slow, range(20)))
        with database.read() as session:
            assert service.count_by_state(session) == {}


def test_a_study_is_found_by_words_in_any_case_also_after_its_labels_change(database: Database) -> None:
    with database.write() as session:
        ids = [queued(session, small_job(), name=name).id for name in ("Größe Eins", "two")]
    with database.write() as session:
        service.change_study(session, ids[1], name="Zwei", tags=["Übung"], note="100 % of_it")
    with database.read() as session:
        for words, expected in (
            ("GRÖSSE", [ids[0]]),
            ("übung zwei", [ids[1]]),
            ("two", []),
            ("100", [ids[1]]),
            ("%", [ids[1]]),
            ("of_it", [ids[1]]),
            ("LLAMA", ids[::-1]),
        ):
            assert [item.id for item in service.list_studies(session, service.StudyFilter(text=words)).items] == expected, words


def test_a_search_takes_few_words(database: Database) -> None:
    with TestClient(create_app(database), base_url=LOCAL) as api:
        assert api.get("/v1/studies", params={"text": "a b c d e"}).status_code == 200
        refused = api.get("/v1/studies", params={"text": "a b c d e f"})
        assert refused.status_code == 422
        assert "at most 5 words" in refused.json()["detail"]


def copies(database: Database, number: int) -> None:
    """Finished studies, all alike but for their ids; each is old, and not found by the words that tests look for."""
    with database.write() as session:
        service.cancel_study(session, queued(session, small_job()).id)
        session.execute(update(Study).values(finished_at_s=Study.finished_at_s - 10 * SECONDS_PER_DAY))
        table = Study.__table__
        row = dict(session.execute(select(table)).mappings().one())
    del row["number"]  # The database numbers the copies, as it numbers the studies that are submitted after them.
    with database.write() as session:
        for start in range(1, number, 1000):
            session.execute(insert(table), [{**row, "id": f"copy{count}"} for count in range(start, min(number, start + 1000))])
        ids = select(Study.number, Study.id).where(Study.id.startswith("copy"))
        session.execute(insert(StudyText).from_select(["number", "text"], ids))


def listed_in_s(session: Session, chosen: service.StudyFilter) -> float:
    """The least time of a page and its counts. A slow machine slows neighbours alike: it gets more tries, for a while."""
    took_s: list[float] = []
    ends_s = time.monotonic() + PATIENCE_S
    while len(took_s) < 3 or (min(took_s) > QUICK_S and time.monotonic() < ends_s):
        began_s = time.monotonic()
        service.list_studies(session, chosen)
        service.count_studies(session, chosen)
        took_s.append(time.monotonic() - began_s)
    return min(took_s)


@pytest.mark.slow
def test_pages_of_many_studies_are_quick_and_all_are_pruned_beside_submits(database: Database) -> None:
    copies(database, 20_000)
    with database.read() as session:
        for given in ({}, {"text": "nowhere"}, {"archived": "true"}, {"model": "none"}, {"owner": "none"}, {"hardware": "none"}):
            assert listed_in_s(session, service.StudyFilter(**given)) < QUICK_S, given  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as pool:
        pruned = pool.submit(pruning.prune, database, Retention(1))
        longest_s = 0.0
        while not pruned.done():
            began_s = time.monotonic()
            with database.write() as session:
                queued(session, small_job())
            longest_s = max(longest_s, time.monotonic() - began_s)
        assert pruned.result().studies == 20_000
    assert longest_s < 1.0


def test_the_file_of_a_database_is_its_owners_alone(tmp_path: Path) -> None:
    """It holds jobs and digests of keys. One that an earlier version made is closed to others."""
    path = tmp_path / "here" / "studies.db"
    upgrade(f"sqlite:///{path}")
    with Database(f"sqlite:///{path}") as database, database.write() as session:
        queued(session, small_job())
        files = [Path(f"{path}{end}") for end in ("", "-wal", "-shm")]
        assert [stat.S_IMODE(one.stat().st_mode) for one in files] == [0o600] * 3
    path.chmod(0o644)
    upgrade(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_rows_are_numbered_on_after_a_delete(database: Database) -> None:
    """A cursor of a page names the number of a row, so that no other row may get it."""
    assert Table.metadata.tables[MeasuredRun.__tablename__].dialect_options["sqlite"]["autoincrement"]


@pytest.mark.parametrize("filters", [{"state": "failed"}, {"kind": "rl"}, {"owner": "alice"}, {}], ids=str)
def test_lists_choose_studies_in_sqlite_by_a_narrow_index_alone(tmp_path: Path, filters: dict[str, str]) -> None:
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    upgrade(url)
    asked: list[tuple[str, Any]] = []
    with Database(url) as database, database.read() as session:
        engine = session.get_bind()
        event.listen(engine, "before_cursor_execute", lambda *seen: asked.append((seen[2], seen[3])))
        chosen = service.StudyFilter(archived="false", **filters)  # type: ignore[arg-type]
        service.list_studies(session, chosen)
        service.count_studies(session, chosen)
        for begins in ("SELECT meshplan_studies.number", "SELECT meshplan_studies.state, count"):
            choosing, parameters = next(each for each in asked if each[0].startswith(begins))
            plan = session.connection().exec_driver_sql(f"explain query plan {choosing}", parameters).all()
            assert plan[0][3].endswith("USING COVERING INDEX ix_meshplan_studies_listed")
