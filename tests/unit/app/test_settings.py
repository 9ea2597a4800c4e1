from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import PREFIX, Settings, load_settings
from documents.errors import InputError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"{PREFIX}{name.upper()}", raising=False)


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert [name for name in Settings.model_fields if f"`{PREFIX}{name.upper()}`" not in page] == []
    assert all(field.description for name, field in Settings.model_fields.items())


def test_studies_are_kept_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert load_settings().url == f"sqlite:///{tmp_path}/meshplan/meshplan.db"
    monkeypatch.setenv("MESHPLAN_DATA_DIR", "/srv/plans")
    assert load_settings().url == "sqlite:////srv/plans/meshplan.db"
    monkeypatch.setenv("MESHPLAN_DATABASE_URL", "postgresql://host/name")
    assert load_settings().url == "postgresql://host/name"


def test_what_a_command_is_given_stands_above_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESHPLAN_WORKERS", "7")
    assert load_settings(workers=None).workers == 7
    assert load_settings(workers=0).workers == 0


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("WORKERS", "many", "MESHPLAN_WORKERS: 'many' is not allowed; input should be a valid integer"),
        ("WORKERS", "100000", "MESHPLAN_WORKERS: '100000' is not allowed; input should be less than or equal to 256."),
        ("LEASE_S", "60", "MESHPLAN_LEASE_S: '60' is not allowed; input should be less than or equal to 10."),
        ("LOG_FORMAT", "xml", "MESHPLAN_LOG_FORMAT: 'xml' is not allowed; input should be 'text' or 'json'."),
    ],
)
def test_a_bad_variable_is_told_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str) -> None:
    monkeypatch.setenv(f"{PREFIX}{name}", value)
    with pytest.raises(InputError) as refused:
        load_settings()
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_bad_value_of_a_command_is_told_by_its_variable() -> None:
    with pytest.raises(InputError, match="--workers: -1 is not allowed"):
        load_settings(workers=-1)
