"""examples/deploy: what it names exists, and its files are what those who read them take."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.cli.main import application
from app.http.metrics import Metrics
from app.settings import PREFIX, Settings
from app.storage.session import Database
from app.studies import service
from meshplan import __version__
from scripts.packaging.make_bundle import EXTRAS
from tests.databases import database, database_url, postgresql, sqlite_template
from tests.openapi import openapi

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples/deploy"
UNITS = sorted((DEPLOY / "systemd").glob("meshplan-*.service"))
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes/meshplan.yaml").read_text(encoding="utf-8")))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((DEPLOY / "grafana/dashboard.json").read_text(encoding="utf-8"))
# https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html and its neighbours
UNIT_KEYS = {
    "Unit": {"Description", "After", "Requires", "Wants"},
    "Service": {
        "Type", "User", "EnvironmentFile", "Environment", "ExecStart", "ExecStartPost", "Restart", "RestartSec", "TimeoutStopSec",
        "LimitNOFILE", "MemoryMax", "StateDirectory", "Nice", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "ProtectSystem",
        "ReadWritePaths",
    },
    "Timer": {"OnCalendar", "RandomizedDelaySec", "Persistent"},
    "Install": {"WantedBy"},
}  # fmt: skip
_FUNCTIONS = {"by", "sum", "rate", "max", "and", "delta", "increase", "histogram_quantile"}
_LABELS = {"le", "route", "status", "state", "reason", "instance"}


@pytest.fixture
def kind() -> str:
    return "sqlite"


def unit(path: Path) -> RawConfigParser:
    parsed = RawConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(path.read_text(encoding="utf-8"))
    return parsed


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, metadata and specification of every pod that the manifests describe."""
    for document in KUBERNETES:
        spec = document["spec"]
        for template in (spec.get("template"), spec.get("jobTemplate", {}).get("spec", {}).get("template")):
            if template:
                yield document["metadata"]["name"], template.get("metadata", {}), template["spec"]


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, _, spec in pods():
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield f"{name}/{container['name']}", container


def commands() -> Iterator[tuple[str, list[str]]]:
    """Where a command of ours stands, and its words behind `meshplan`."""
    for path in UNITS:
        words = shlex.split(unit(path)["Service"]["ExecStart"])
        line = words[2] if words[:2] == ["/bin/sh", "-c"] else shlex.join(words)
        yield path.name, shlex.split(line.partition("/opt/meshplan/bin/meshplan ")[2])
    for name, container in containers():
        yield name, container.get("args") or shlex.split(container["command"][2].partition("meshplan ")[2])
    for name, described in COMPOSE["services"].items():
        if "command" in described:
            yield name, described["command"]
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for number, line in enumerate(re.findall(r"^docker run .* meshplan:\S+ (.*)$", page, re.MULTILINE), 1):
        yield f"docker-run-{number}", shlex.split(line)


@pytest.mark.parametrize(("where", "words"), list(commands()), ids=[where for where, _ in commands()])
def test_commands_and_their_flags_exist(where: str, words: list[str]) -> None:
    command: Any = typer.main.get_command(application)
    rest = list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    flags = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    assert {word for word in rest if word.startswith("--")} <= flags
    assert all(isinstance(word, str) for word in words)
    with command.make_context(where, rest, resilient_parsing=False) as context:
        assert context.args == []  # nothing that it does not know


def test_variables_are_settings() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DEPLOY.rglob("*") if path.is_file())
    ours = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"\bMESHPLAN_[A-Z_]+\b", text)) - ours == {"MESHPLAN_IMAGE"}
    lines = (DEPLOY / "systemd/meshplan.env").read_text(encoding="utf-8").splitlines()
    given = dict(line.removeprefix(PREFIX).split("=", 1) for line in lines if line.startswith(PREFIX))
    Settings(**{name.lower(): value for name, value in given.items()})


@pytest.mark.parametrize("path", [*UNITS, DEPLOY / "systemd/meshplan-backup.timer"], ids=lambda path: path.name)
def test_units_have_keys_that_systemd_knows(path: Path) -> None:
    parsed = unit(path)
    for section in parsed.sections():
        assert set(parsed[section]) <= UNIT_KEYS[section], section
    named = re.findall(r"meshplan-[a-z]+\.(?:service|timer)", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (DEPLOY / "systemd" / name).is_file()] == []
    if path.suffix == ".service":
        assert parsed["Service"]["User"] == "meshplan"
        assert parsed["Service"].get("Type") == "oneshot" or parsed["Service"]["Restart"] == "always"


def test_the_compose_file_is_one() -> None:
    schema = json.loads(
        resources.files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft7Validator(schema).validate(COMPOSE)
    services = COMPOSE["services"]
    assert all(other in services for described in services.values() for other in described.get("depends_on", {}))
    assert re.fullmatch(r"postgres:\d+\.\d+-\w+", services["database"]["image"])


def test_manifests_hang_together() -> None:
    kinds = {document["kind"]: document["apiVersion"] for document in KUBERNETES}
    assert kinds == {
        "Deployment": "apps/v1",
        "Service": "v1",
        "PodDisruptionBudget": "policy/v1",
        "CronJob": "batch/v1",
        "PersistentVolumeClaim": "v1",
    }
    labels = [metadata["labels"] for _, metadata, _ in pods() if "labels" in metadata]
    claims = {document["metadata"]["name"] for document in KUBERNETES if document["kind"] == "PersistentVolumeClaim"}
    ports = {port["name"] for _, container in containers() for port in container.get("ports", ())}
    for document in KUBERNETES:
        spec = document["spec"]
        selector = spec.get("selector", {})
        wanted = selector.get("matchLabels", selector)
        if wanted:
            assert any(wanted.items() <= given.items() for given in labels), document["metadata"]["name"]
        if document["kind"] == "Deployment":
            assert wanted == spec["template"]["metadata"]["labels"]
        assert {port["targetPort"] for port in spec.get("ports", ())} <= ports
    for _, _, spec in pods():
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        used = [mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", ())]
        assert set(used) == set(volumes)
        named = [volume["persistentVolumeClaim"]["claimName"] for volume in volumes.values() if "persistentVolumeClaim" in volume]
        assert set(named) <= claims
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert f"--uid {spec['securityContext']['runAsUser']} " in (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "container"), list(containers()), ids=[name for name, _ in containers()])
def test_containers_are_bounded_and_confined(name: str, container: dict[str, Any]) -> None:
    assert container["image"] == f"meshplan:{__version__}"
    assert container["resources"]["limits"]["memory"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert [variable["name"] for variable in container["env"]] == ["MESHPLAN_DATABASE_URL", "MESHPLAN_LOG_FORMAT"]
    paths = openapi()["paths"]
    probes = [container[kind]["httpGet"] for kind in ("livenessProbe", "readinessProbe") if kind in container]
    assert all(probe["path"] in paths for probe in probes)
    assert bool(probes) == ("ports" in container)


def series(database: Database) -> set[str]:
    """Names of all series that a server answers."""
    metrics = Metrics()
    metrics.request("GET", "/v1/estimates", 200, 0.01)
    metrics.limited("wrong-keys")
    with database.read() as session:
        text = metrics.text({"queued": 1}, service.figures(session)).decode()
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def expressions() -> list[str]:
    alerts = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    return alerts + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_alerts_and_panels_ask_for_series_that_there_are(database: Database) -> None:
    known = series(database) | {"up"}
    for expression in expressions():
        bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", "", expression)
        names = set(re.findall(r"[a-z][a-z0-9_]*", re.sub(r"\d[\d.e]*", "", bare))) - _FUNCTIONS - _LABELS
        assert names, expression
        assert names <= known, expression
        assert all(expression.count(left) == expression.count(right) for left, right in ("()", "{}", "[]")), expression


def test_every_series_of_ours_is_on_the_dashboard_or_in_an_alert(database: Database) -> None:
    asked = " ".join(expressions())
    ours = {
        name for name in series(database) if name.startswith("meshplan_") and not name.endswith(("_created", "_sum", "_count"))
    }
    assert [name for name in sorted(ours) if name not in asked] == []


def test_alerts_and_panels_say_what_is_needed_of_them() -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    scrape = yaml.safe_load((DEPLOY / "prometheus/scrape.yaml").read_text(encoding="utf-8"))["scrape_configs"][0]
    assert (scrape["job_name"], scrape["metrics_path"]) == ("meshplan", "/metrics")


def test_the_image_is_built_from_one_version() -> None:
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-[a-z]+", bases[0])


def test_the_page_names_the_image_of_this_version() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\bmeshplan[:-](\d+\.\d+\.\d+)", page)) == {__version__}


def test_image_and_archive_hold_what_users_can_add() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"dev", "mutants"}
    pinned = set(re.findall(r"--extra (\w+)", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert pinned == set(EXTRAS.split(",")) == extras
    assert "--require-hashes --requirement requirements.txt" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_keeps_its_database_where_the_volume_is() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^VOLUME (\S+)$", text, re.MULTILINE)
    variables = dict(word.split("=", 1) for line in re.findall(r"^ENV (.+)$", text, re.MULTILINE) for word in line.split())
    assert variables[f"{PREFIX}DATA_DIR"] == variables["HOME"] == folder
    assert f"--owner 10001 --group 0 --mode 0770 {folder} " in text
    assert all("HEALTHCHECK" not in line for line in text.splitlines() if not line.startswith("#"))
