"""What the dashboard's form offers is what a job may name: TypeScript cannot import the tables, so they are compared."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from app.jobs.fields import TASK_NAMES, SearchSettings, SoftwareSection, TrainingSection
from app.jobs.task import OF_ADAPTERS, WITH_ADAPTERS
from frameworks.registry import FRAMEWORKS
from hardware_profiles.fields import FAMILIES
from meshplan import estimate
from search.objectives.objective import Criterion
from search.objectives.table import OBJECTIVES

ROOT = Path(__file__).resolve().parents[2]
FORM = (ROOT / "dashboard/src/pages/newStudy/JobSections.tsx").read_text(encoding="utf-8")


def offered(constant: str) -> list[str]:
    listed = re.search(rf"^const {constant} = \[([^\]]*)\]", FORM, re.MULTILINE)
    assert listed is not None, constant
    return re.findall(r'"([^"]+)"', listed[1])


def allowed(section: type[BaseModel], name: str) -> list[str]:
    """Names that a field of a job takes, by its schema."""

    def names(node: Any) -> list[str]:
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return node["enum"] if isinstance(node, dict) and "enum" in node else [n for child in children for n in names(child)]

    return names(section.model_json_schema()["properties"][name])


@pytest.mark.parametrize(
    ("constant", "section", "name"),
    [
        ("STACKS", SoftwareSection, "stack"),
        ("PRECISIONS", TrainingSection, "precision"),
        ("SAMPLERS", SearchSettings, "sampler"),
        ("TASKS", TrainingSection, "task"),
    ],
)
def test_the_form_offers_every_name_that_a_job_may_have(constant: str, section: type[BaseModel], name: str) -> None:
    assert sorted(offered(constant)) == sorted(set(allowed(section, name)) - set(TASK_NAMES))  # without other names


def test_the_form_asks_for_a_rank_where_a_task_has_adapters() -> None:
    table = re.search(
        r"const ADAPTED[^=]*= \{([^}]*)\}", (ROOT / "dashboard/src/pages/newStudy/form.ts").read_text(encoding="utf-8")
    )
    assert table is not None
    assert dict(re.findall(r'(\w+): "(\w+)"', table[1])) == {
        task.value: "needed" if task in OF_ADAPTERS else "possible" for task in WITH_ADAPTERS
    }


def test_objectives_are_those_of_the_api_and_each_page_reads_the_one_list() -> None:
    source = ROOT / "dashboard/src"
    table = re.search(r"const ORDERED_BY[^=]*= \{([^}]*)\}", (source / "api/objectives.ts").read_text(encoding="utf-8"))
    assert table is not None
    units = dict(re.findall(r'(\w+): "(\w+)"', table[1]))
    assert list(units) == list(OBJECTIVES)
    by_bytes = [name for name, entry in OBJECTIVES.items() if entry.orders_lattice_by is Criterion.PEAK_MEMORY]
    assert [name for name, unit in units.items() if unit == "bytes"] == by_bytes
    for language in ("en", "zh"):
        words = json.loads((source / f"locales/{language}/common.json").read_text(encoding="utf-8"))["objective"]
        assert set(words) == set(OBJECTIVES)
    others = [path for path in source.rglob("*.ts*") if "memory_headroom" in path.read_text(encoding="utf-8")]
    assert {path.name for path in others} <= {"objectives.ts", "schema.ts"}


def test_the_form_offers_every_framework_on_the_devices_that_it_runs_on() -> None:
    listed = re.search(r"^const TARGETS[^=]*= \{(.*)\};", FORM, re.MULTILINE)
    assert listed is not None
    found = {family: re.findall(r'"([^"]+)"', names) for family, names in re.findall(r"(\w+): \[([^\]]*)\]", listed[1])}
    wanted = {f: sorted({framework.name for framework in FRAMEWORKS if f in framework.target.families}) for f in FAMILIES}
    assert {family: sorted(names) for family, names in found.items()} == wanted


def test_parts_of_a_step_have_a_colour_and_a_name_and_communication_is_all_of_them_that_sends() -> None:
    job = {
        "model": "llama-2-7b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 64},
        "strategy": {"tp": 8},
    }
    parts = set(estimate(job).document["estimate"]["time_breakdown_s"])  # those that take no time too
    source = ROOT / "dashboard/src"
    listed = re.search(r"const PARTS = \[([^\]]*)\]", (source / "components/communication.ts").read_text(encoding="utf-8"))
    assert listed is not None
    sends = {part for part in parts if part.endswith("_comm")} | {"weight_gather", "pipeline_p2p"}
    assert sorted(re.findall(r'"(\w+)"', listed[1])) == sorted(sends)
    rest = {  # compute, the host and waiting
        "matmul", "attention", "vector", "permute", "recompute", "embedding", "head_and_loss", "contention", "activation_swap",
        "pipeline_bubble", "host", "size_synchronisation", "gradient_accumulation", "optimizer", "step_overhead",
    }  # fmt: skip
    assert parts == sends | rest, "say whether the new part is communication"
    colours = re.search(r"const PARTS[^=]*= \{(.*?)\};", (source / "theme/palette.ts").read_text(encoding="utf-8"), re.DOTALL)
    assert colours is not None
    assert parts <= set(re.findall(r"(\w+):", colours[1]))
    for language in ("en", "zh"):
        assert parts <= set(json.loads((source / f"locales/{language}/common.json").read_text(encoding="utf-8"))["part"])
