from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.shapes.strategy import Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from search.space import enumeration
from search.space.enumeration import Rejections, chunks
from search.space.lattice_size import lattice_size
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import search_space
from tests.search_workloads import DENSE, MOE, workload


def test_the_size_of_a_space_worked_by_hand() -> None:
    # As counted in test_enumeration: tp 1 with one form of sequence parallelism and tp 2 with two, pp {1, 2}, micro batch
    # {1, 3}, recompute {none, full}: 3 x 2 x 2 x 2 = 24, legal or not.
    limits = SearchLimits(
        tp=(1, 2),
        pp=(1, 2),
        vpp=(1,),
        cp=(1,),
        micro_batch_size=(1, 3),
        sequence_parallel=(True, False),
        recompute=(recompute_mode("none"), recompute_mode("full")),
    )
    job = workload(DENSE, num_devices=16, global_batch_size=64)
    assert lattice_size(job, search_space(job, limits)) == 24


@pytest.mark.parametrize(
    ("job", "limits"),
    [
        (workload(DENSE, num_devices=24), SearchLimits()),
        (workload(MOE, num_devices=32, target="mindspeed-llm"), SearchLimits()),
        (workload(replace(MOE, num_layers=12), num_devices=48, seq_length=16384), SearchLimits()),
        (
            workload(MOE, num_devices=16),
            SearchLimits(
                schedule=(Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.DUALPIPE_V),
                microbatch_group_size_per_vp_stage=(0, 4, 8),
                zero_stage=(0, 1, 3),
                switches={Feature.SWAP_ATTENTION: (True, False)},
            ),
        ),
    ],
)
def test_the_size_is_what_the_enumeration_counts(job: Workload, limits: SearchLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    space = search_space(job, limits)
    counted = sum(chunk.num_enumerated for chunk in chunks(job, space, Rejections()))
    assert lattice_size(job, space) == counted
    monkeypatch.setattr(enumeration, "LAYOUTS_PER_SLICE", 7)  # layouts of a class are then in several slices
    assert lattice_size(job, space) == counted
