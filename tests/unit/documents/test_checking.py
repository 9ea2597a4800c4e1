"""A document that breaks its schema is refused in one sentence: field, value, what is allowed, nearest name."""

from __future__ import annotations

from typing import Any

import pytest

from app.jobs.fields import ClusterSection, SearchSection, SoftwareSection, StrategySection, TrainingSection
from app.jobs.job import parse_job
from documents.checking import Section, check
from documents.errors import InputError


@pytest.mark.parametrize(
    ("section", "value", "expected"),
    [
        (StrategySection, {"tp": 0}, "part.tp: 0 is not allowed; give an integer from 1 to 65,536."),
        (StrategySection, {"tp": True}, "part.tp: true is not allowed; give an integer from 1 to 65,536."),
        (StrategySection, {"tp": "8"}, "part.tp: '8' is not allowed; give an integer from 1 to 65,536."),
        (StrategySection, {"tp": float("nan")}, "part.tp: nan is not allowed; give an integer from 1 to 65,536."),
        (StrategySection, {"tp": 10**400}, "part.tp: an integer of more than 60 digits is not allowed; give an integer"),
        (StrategySection, {"micro_batch": 1}, "part.micro_batch: unknown key; did you mean 'micro_batch_size'? Allowed: tp,"),
        (StrategySection, {"cp_algo": "ulyses"}, "part.cp_algo: 'ulyses' is not allowed (did you mean 'ulysses'?); give one of"),
        (
            StrategySection,
            {"recompute": {"granularty": "full"}},
            "part.recompute.granularty: unknown key; did you mean 'granularity'?",
        ),
        (
            StrategySection,
            {"recompute": {"method": "blok"}},
            "part.recompute.method: 'blok' is not allowed (did you mean 'block'?)",
        ),
        (
            StrategySection,
            {"features": ["flash_atention"]},
            "part.features[0]: 'flash_atention' is not allowed (did you mean 'flash_",
        ),
        (
            StrategySection,
            {"layer_layout": [[1, 2], [-1, 2]]},
            "part.layer_layout[1][0]: -1 is not allowed; give an integer from 0 to",
        ),
        (StrategySection, [1], "part: [1] is not allowed; give a mapping with tp,"),
        (StrategySection, {"pp": [1]}, "part.pp: [1] is not allowed; give an integer from 1 to 65,536."),
        (StrategySection, {"colour": 1}, "part.colour: unknown key; allowed: tp,"),
        (ClusterSection, {}, "part.hardware: missing; give the hardware profile: a name from `hardware list`, or the path of"),
        (ClusterSection, {"hardware": "x"}, "part.num_devices: missing; give an integer from 1 to 1,000,000."),
        (ClusterSection, {"hardware": "x", "num_devices": None}, "part.num_devices: missing; give an integer"),
        (
            ClusterSection,
            {"hardware": "x", "num_devices": 2_000_000},
            "part.num_devices: 2000000 is not allowed; give an integer from",
        ),
        (
            ClusterSection,
            {"hardware": "x", "num_devices": 8, "inter_node_bytes_per_s": float("inf")},
            "part.inter_node_bytes_per_s: inf is not allowed; give a number from 1,000,000",
        ),
        (TrainingSection, {"precision": "bf8"}, "part.precision: 'bf8' is not allowed (did you mean"),
        (
            TrainingSection,
            {"task": "sfd"},
            "part.task: 'sfd' is not allowed (did you mean 'sft'?); give one of pretrain, sft, lora",
        ),
        (SoftwareSection, {"stack": "megatron"}, "part.stack: 'megatron' is not allowed (did you mean 'megatron-lm'?)"),
        (SearchSection, {"tp": {"mx": 8}}, "part.tp.mx: unknown key; did you mean 'max'? Allowed: min, max."),
        (SearchSection, {"tp": [1, -2]}, "part.tp[1]: -2 is not allowed; give an integer from 1 to 65,536."),
        (SearchSection, {"tp": []}, "part.tp: [] is not allowed; give an integer from 1 to 65,536, or a list"),
        (
            SearchSection,
            {"sampler": "nsga"},
            "part.sampler: 'nsga' is not allowed (did you mean 'nsga2'?); give one of exhaustive, tpe, nsga2, random.",
        ),
        (SearchSection, {"swap_optimizer": 1}, "part.swap_optimizer: 1 is not allowed; give true or false"),
    ],
)
def test_refusals(section: type[Section], value: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        check(section, value, "part")
    message = str(caught.value)
    assert message.startswith(expected)
    assert message.endswith(".")
    assert "\n" not in message


def test_a_label_stands_for_its_path() -> None:
    with pytest.raises(InputError, match=r"^--tp: 0 is not allowed"):
        check(StrategySection, {"tp": 0}, "strategy", {"strategy.tp": "--tp"})


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    """JSON Schema, of which our documents have one, knows no difference between 8 and 8.0."""
    found = check(StrategySection, {"tp": 8.0, "recompute": {"granularity": "full", "num_layers": 2.0}})
    assert (found.tp, type(found.tp)) == (8, int)
    assert found.model_dump(exclude_unset=True)["recompute"]["num_layers"] == 2
    assert check(TrainingSection, {"mean_squared_length_fraction": 1}).mean_squared_length_fraction == 1.0


def test_null_counts_as_left_out() -> None:
    section = check(StrategySection, {"vpp": None, "cp_algo": None, "tp": 2})
    assert (section.vpp, section.cp_algo, section.tp) == (1, None, 2)


@pytest.mark.parametrize(
    ("where", "key", "meant"),
    [
        ("search", "target", "'software.target'"),  # and not zero_stage, which looks like it
        ("software", "precision", "'training.precision'"),
        ("training", "tp", "'search.tp' or 'strategy.tp'"),
        ("cluster", "num_layers", "'model.num_layers' or 'strategy.recompute.num_layers'"),
        ("cluster", "devices", "'num_devices' or 'sweep.devices'"),  # what is alike here, too
        ("", "hardware", "'cluster.hardware' or 'sweep.hardware'"),
        ("search", "zero_stge", "'zero_stage'"),
        ("training", "min", None),  # a field of every range
    ],
)
def test_a_key_in_the_wrong_section_is_told_where_it_belongs(where: str, key: str, meant: str | None) -> None:
    job: dict[str, Any] = {
        "model": "llama-2-7b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 8},
    }
    (job.setdefault(where, {}) if where else job)[key] = 1
    hint = "allowed: " if meant is None else f"did you mean {meant}? Allowed: "
    with pytest.raises(InputError) as refused:
        parse_job(job)
    assert str(refused.value).startswith(f"{f'{where}.' if where else ''}{key}: unknown key; {hint}")


def test_a_key_one_level_too_high_is_told_where_it_belongs() -> None:
    with pytest.raises(InputError, match=r"part\.method: unknown key; did you mean 'part\.recompute\.method'\? Allowed: tp"):
        check(StrategySection, {"method": "block"}, "part")
