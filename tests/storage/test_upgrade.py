"""Schema upgrades on both databases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, func, insert, inspect, select, text

from app.storage import backup
from app.storage import upgrade as upgrades
from app.storage.database_errors import DATABASE_AWAY
from app.storage.probes import check_writable
from app.storage.session import Database, StorageError, parsed_url
from app.storage.tables import PREFIX, VERSION_TABLE, Table
from app.storage.upgrade import MIGRATIONS, check_current, upgrade, upgrade_on
from app.studies import queue, service
from app.studies.runner import StudyRun
from app.studies.searches import search_of_job
from documents.errors import InputError
from migrations import versions
from tests.study_jobs import queued, small_job

ROOT = Path(__file__).resolve().parents[2]


def tables(url: str) -> set[str]:
    engine = create_engine(parsed_url(url))
    names = set(inspect(engine).get_table_names())
    engine.dispose()
    return names


def execute(url: str, statement: str) -> None:
    with Database(url) as database, database.write() as session:
        session.execute(text(statement))


def value(url: str, query: str) -> object:
    with Database(url) as database, database.read() as session:
        return session.scalar(text(query))


def make_folder(url: str) -> None:
    if url.startswith("sqlite"):
        Path(parsed_url(url).database or "").parent.mkdir(exist_ok=True)


def check(url: str) -> None:
    with Database(url) as database:
        check_current(database)


def test_an_upgrade_makes_the_tables_that_the_code_uses_and_no_others(empty_url: str) -> None:
    assert upgrade(empty_url) == ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert tables(empty_url) == {VERSION_TABLE, *Table.metadata.tables}
    assert all(name.startswith(PREFIX) for name in Table.metadata.tables)
    with Database(empty_url) as database, database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_an_upgrade_twice_changes_nothing(empty_url: str) -> None:
    upgrade(empty_url)
    columns = "id, name, prefix, secret_sha256, scopes, created_at_s"
    execute(empty_url, f"insert into {PREFIX}api_keys ({columns}) values ('a', 'n', 'p', 's', '[]', 1)")
    assert upgrade(empty_url) == upgrade(empty_url)
    assert value(empty_url, f"select count(*) from {PREFIX}api_keys") == 1
    check(empty_url)


def test_studies_of_the_schema_before_kinds_are_searches_and_go_on(empty_url: str) -> None:
    """What they hold stays, also what belongs to them: on SQLite a table that is written anew would take that along."""
    make_folder(empty_url)
    with Database(empty_url) as database:
        asked = search_of_job(small_job())
        row = {"id": "before", "row_version": 4, "created_at_s": 1.0, "version": "0.2", "state": "cancelled", "attempts": 1,
               "cancel_requested": False, "attempts_without_progress": 0, "lease_token": 1, "owner": "ada",
               "visibility": "private", "priority": 2, "turn": 0, **vars(asked)}  # fmt: skip
        event = {"study_id": "before", "kind": "state", "data": {"state": "queued"}, "at_s": 1.0}
        with database.connect() as connection:
            upgrade_on(connection, "0002")
            tables = backup._tables(connection).tables  # as that version had them
            connection.execute(insert(tables[f"{PREFIX}studies"]), [row])
            connection.execute(insert(tables[f"{PREFIX}events"]), [event])
    assert upgrade(empty_url) == "0007"
    with Database(empty_url) as database:
        with database.write() as session:
            study = service.get_study(session, "before")
            assert (study.kind, study.owner, study.priority, study.job) == ("search", "ada", 2, json.loads(json.dumps(asked.job)))
            assert [event.data for event in service.events_since(session, "before")] == [{"state": "queued"}]
            assert service.list_points(session, "before").items == ()
            service.resume_study(session, "before")
            lease = queue.claim(session, "a test", 10.0)
        assert lease is not None
        assert StudyRun(database, lease, checkpoint_s=0.05, should_stop=lambda: False).run() == "completed"
        with database.read() as session:
            assert service.list_plans(session, "before").items


def test_studies_of_the_schema_before_labels_have_none_and_take_some(empty_url: str) -> None:
    make_folder(empty_url)
    with Database(empty_url) as database:
        asked = search_of_job(small_job())
        row = {"id": "before", "row_version": 4, "created_at_s": 1.0, "finished_at_s": 2.0, "version": "0.3",
               "state": "cancelled", "attempts": 1, "cancel_requested": False, "attempts_without_progress": 0, "lease_token": 1,
               "owner": "ada", "kind": "search", "visibility": "link", "priority": 2, "turn": 0, **vars(asked)}  # fmt: skip
        event = {"study_id": "before", "kind": "state", "data": {"state": "queued"}, "at_s": 1.0}
        with database.connect() as connection:
            upgrade_on(connection, "0003")
            tables = backup._tables(connection).tables  # as that version had them
            connection.execute(insert(tables[f"{PREFIX}studies"]), [row])
            connection.execute(insert(tables[f"{PREFIX}events"]), [event])
    assert upgrade(empty_url) == "0007"
    with Database(empty_url) as database:
        with database.write() as session:
            study = service.get_study(session, "before")
            assert (study.name, study.tags, study.note, study.archived) == ("", [], "", False)
            assert (study.owner, study.visibility, study.priority) == ("ada", "link", 2)
            assert [event.data for event in service.events_since(session, "before")] == [{"state": "queued"}]
            assert [item.id for item in service.list_studies(session, service.StudyFilter(archived="false")).items] == ["before"]
        with database.write() as session:
            service.change_study(session, "before", name="kept", tags=["a", "b"], note="why", archived=True)
        with database.read() as session:
            (item,) = service.list_studies(session, service.StudyFilter(archived="true", tags=["a"], text="KEPT why")).items
            assert (item.id, item.name, item.tags) == ("before", "kept", ["a", "b"])


def test_a_downgrade_by_hand_leaves_what_the_version_before_knew(empty_url: str) -> None:
    upgrade(empty_url)
    with Database(empty_url) as database:
        with database.write() as session:
            queued(session, small_job(), name="named", tags=["a"], note="why")
        with database.connect() as connection:
            config = upgrades._config()
            config.attributes["connection"] = connection
            command.downgrade(config, "0003")
            found = backup._tables(connection)
            assert f"{PREFIX}tags" not in found.tables
            assert connection.scalar(select(func.count()).select_from(found.tables[f"{PREFIX}studies"])) == 1
            assert upgrade_on(connection) == "0007"
        with database.read() as session:
            (item,) = service.list_studies(session).items
            assert (item.name, item.tags) == ("", [])


def test_a_database_of_a_newer_version_is_refused_and_left_alone(empty_url: str) -> None:
    upgrade(empty_url)
    execute(empty_url, f"update {VERSION_TABLE} set version_num = '9999'")
    execute(empty_url, f"drop table {PREFIX}trials")
    for refused_by in (upgrade, check):
        with pytest.raises(StorageError, match="schema 9999, which a newer meshplan wrote") as refused:
            refused_by(empty_url)
        assert "\n" not in str(refused.value)
    assert f"{PREFIX}trials" not in tables(empty_url)
    assert value(empty_url, f"select version_num from {VERSION_TABLE}") == "9999"


def test_a_database_without_tables_says_how_to_make_them(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        with pytest.raises(StorageError, match="does not exist; run `meshplan db upgrade`"):
            check(empty_url)
        make_folder(empty_url)
        Path(parsed_url(empty_url).database or "").touch()
    with pytest.raises(StorageError, match="has no tables of meshplan, this version needs 0007; run `meshplan db upgrade`"):
        check(empty_url)


def test_several_may_upgrade_at_once(empty_url: str) -> None:
    environment = {**os.environ, "MESHPLAN_DATABASE_URL": empty_url}
    command = [sys.executable, "-m", "meshplan", "db", "upgrade"]
    started = [subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(process.wait(timeout=60), "has schema" in process.communicate()[0]) for process in started] == [(0, True)] * 3
    check(empty_url)


@pytest.mark.parametrize("optuna_first", [True, False])
def test_optuna_may_keep_its_own_tables_beside_ours(empty_url: str, optuna_first: bool) -> None:
    if not optuna_first:
        upgrade(empty_url)
    make_folder(empty_url)
    storage = optuna.storages.RDBStorage(parsed_url(empty_url).render_as_string(hide_password=False))
    optuna.create_study(storage=storage, study_name="theirs").optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    upgrade(empty_url)
    assert len(optuna.load_study(storage=storage, study_name="theirs").trials) == 2
    with Database(empty_url) as database, database.connect() as connection:
        options = {"version_table": VERSION_TABLE, "include_name": lambda name, kind, parents: kind != "table" or PREFIX in name}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), Table.metadata) == []
    storage.engine.dispose()


def test_versions_follow_one_another_and_stand_alone() -> None:
    scripts = list(ScriptDirectory(str(MIGRATIONS)).walk_revisions())
    assert [script.revision for script in reversed(scripts)] == [f"{number:04}" for number in range(1, len(scripts) + 1)]
    files = sorted(path.name for path in Path(versions.__path__[0]).glob("v*.py"))
    assert [name[1:5] for name in files] == [script.revision for script in reversed(scripts)]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "not a URL of a database"),
        ("sqlite://", "it must be a file"),
        ("sqlite:///:memory:", "it must be a file"),
        ("mysql://user:secret@host/name", "'mysql' is not supported"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_and_its_password_is_not(url: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as refused:
        Database(url)
    assert "MESHPLAN_DATABASE_URL" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_shown_url_hides_the_password() -> None:
    with Database("postgresql://user:secret@host/name") as database:
        shown = database.shown_url
    assert "secret" not in shown
    assert "host/name" in shown


def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("just a text, and long enough not to be taken for an empty file" * 10, encoding="utf-8")
    with pytest.raises(StorageError, match="file is not a database"):
        upgrade(f"sqlite:///{path}")
    path.with_name("file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="the database's folder cannot be made"):
        upgrade(f"sqlite:///{tmp_path / 'file' / 'inside' / 'x.db'}")


def test_a_server_that_does_not_answer_is_told() -> None:
    with pytest.raises(StorageError, match="The database cannot be used"):
        upgrade("postgresql://nobody@127.0.0.1:1/none")
    with Database("postgresql://nobody@127.0.0.1:1/none") as database:
        with pytest.raises(DATABASE_AWAY):
            check_writable(database)
