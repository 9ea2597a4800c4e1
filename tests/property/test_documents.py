"""Whatever stands anywhere in a document from outside, it is read or refused in one sentence."""

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalogue.models.huggingface.reading import model_from_config
from app.checks.budget import parse_budget
from app.jobs.job import parse_job
from calibration.records.training import RefusedRecord, parse_run_record
from documents.errors import InputError
from hardware_profiles import catalogue
from hardware_profiles.loader import parse_profile
from hardware_profiles.writer import profile_document
from search.space.limits import limits_from_mapping

ROOT = Path(__file__).resolve().parents[2]
SEARCH = {
    "tp": [1, 2],
    "pp": {"min": 1, "max": 8},
    "ep": 4,
    "cp_algo": "ring",
    "schedule": ["1f1b", "zbv"],
    "moe_dispatcher": "alltoall",
    "recompute": ["full", "block:50%"],
    "zero_stage": [0, 1],
    "sequence_parallel": [True, False],
    "mc2": [True, False],
}
JOB = {
    "schema_version": 1,
    "model": {
        "num_layers": 4,
        "hidden_size": 64,
        "num_attention_heads": 8,
        "ffn_hidden_size": 256,
        "vocab_size": 1000,
        "mla": {"q_lora_rank": 8, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8},
        "moe": {"num_experts": 8, "top_k": 2, "expert_ffn_hidden_size": 32, "num_groups": 4, "group_topk": 2},
    },
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16, "inter_node_bytes_per_s": 1e10, "oversubscription": 2},
    "training": {"seq_length": 4096, "global_batch_size": 32, "precision": "bf16", "expert_counts": [1, 2, 3, 4, 5, 6, 7, 8]},
    "software": {"stack": "mindspeed-llm", "target": "any", "execution": "eager", "year": 2024.5},
    "search": SEARCH,
    "strategy": {
        "tp": 2,
        "pp": 2,
        "ep": 2,
        "vpp": 1,
        "recompute": {"granularity": "full", "method": "block", "num_layers": 1},
        "layer_layout": [2, 2],
        "features": ["flash_attention"],
        "switches": {"mc2": True},
    },
}
BUDGET = {"step_time_s": {"min": 1, "max": 20}, "regression": {"step_time_s": {"max_fraction": 0.1}}}
PROFILE = profile_document(catalogue.named("atlas-900-a2-podc"))
CONFIG = json.loads((ROOT / "tests" / "fixtures" / "huggingface" / "deepseek-v3.json").read_text("utf-8"))
RUN = json.loads((ROOT / "calibration" / "runs" / "gpu.jsonl").read_text("utf-8").splitlines()[0])


def read_run(document: Mapping[str, Any]) -> None:
    record = parse_run_record(document)
    if isinstance(record, RefusedRecord):
        raise InputError(record.reason)


KINDS: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "job": (JOB, parse_job),
    "limits": (SEARCH, limits_from_mapping),
    "budget": (BUDGET, lambda document: parse_budget(document, has_baseline=True)),
    "profile": (PROFILE, lambda document: parse_profile(document, "x.yaml")),
    "config": (CONFIG, model_from_config),
    "run": (RUN, read_run),
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([10**6, 10**12, -(10**40), 10**400, 1e300, "", "full", "x\ny", "\ud800", "9" * 5000, "../x.yaml"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=8
)


def paths_of(tree: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, value in items for found in ((*path, key), *paths_of(value, (*path, key)))]


PATHS = {name: paths_of(document) for name, (document, _) in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_itself_is_read(kind: str) -> None:
    document, read = KINDS[kind]
    read(document)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_anything_anywhere_is_read_or_refused_in_one_sentence(kind: str, data: st.DataObject) -> None:
    whole, read = KINDS[kind]
    document: Any = copy.deepcopy(whole)
    *parents, last = data.draw(st.sampled_from(PATHS[kind]))
    here = document
    for key in parents:
        here = here[key]
    if isinstance(here, dict) and data.draw(st.booleans()):
        here[data.draw(st.text(max_size=8))] = data.draw(ANYTHING)
    else:
        here[last] = data.draw(ANYTHING)
    sentence = None
    try:
        read(document)
    except InputError as error:
        sentence = str(error)
    if sentence is not None:
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert len(sentence) < 2000
