"""Whatever a job holds, it is resolved or refused in one sentence."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.price import estimate_document
from app.jobs.fields import FEATURES, ClusterSection, SearchSettings, SoftwareSection, StrategySection, TrainingSection
from app.jobs.job import parse_job
from documents.errors import InputError

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**16, 10**6, 10**12, -(10**40), float("nan"), float("inf"), -0.0, 1.5, 1e300]),
    st.sampled_from(
        ["", "full", "block:2", "ring", "ulysses", "hybrid", "alltoall", "bf16", "fp16", "any", "graph", "x" * 300, "../x.yaml"]
    ),
    st.lists(st.integers(-1, 64), max_size=5),
    st.lists(st.sampled_from([*FEATURES, "warp"]), max_size=4),
    st.dictionaries(st.sampled_from(["min", "max", "granularity", "num_layers", "modules", "x"]), st.integers(-1, 9), max_size=3),
)


def sections(section: type[Any], plausible: dict[str, Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from([*section.model_fields, "unknown"])
    mapping = st.dictionaries(names, ODD, max_size=3).map(lambda odd: {**plausible, **odd})
    return st.one_of(mapping, mapping, mapping, ODD)


JOBS = st.fixed_dictionaries(
    {
        "model": st.one_of(st.sampled_from(["llama-2-7b", "deepseek-v2-lite"]), ODD),
        "cluster": sections(ClusterSection, {"hardware": "atlas-800t-a2", "num_devices": 16}),
        "training": sections(TrainingSection, {"seq_length": 4096, "global_batch_size": 32}),
    },
    optional={
        "software": sections(SoftwareSection, {}),
        "search": sections(SearchSettings, {}),
        "strategy": sections(StrategySection, {"tp": 2, "pp": 2}),
    },
)


@settings(deadline=None, max_examples=300)
@given(JOBS)
def test_a_job_is_resolved_or_refused(document: dict[str, Any]) -> None:
    refusal = None
    try:
        job = parse_job(document)
        assert parse_job(job.document).document == job.document
        if job.strategy is not None:
            estimate_document(job, job.strategy)
    except InputError as error:
        refusal = str(error)
    assert refusal is None or ("\n" not in refusal and len(refusal) < 2000)
