from __future__ import annotations

from itertools import islice

import numpy as np

from cost_models.shapes.strategy import CpAlgo, Schedule
from frameworks.legality import RULES, rules_for
from search.space.enumeration import CHUNK_ROWS, Rejections, charge_illegal, chunks, layout_rules, option_rules, placement_rules
from search.space.limits import SearchLimits
from search.space.recompute_modes import recompute_mode
from search.space.search_space import SearchSpace, search_space
from tests.search_workloads import MOE, workload


def narrow(**limits: object) -> SearchLimits:
    """One value for every dimension but those given."""
    single = {
        "tp": (1,),
        "pp": (1,),
        "vpp": (1,),
        "cp": (1,),
        "micro_batch_size": (1,),
        "recompute": (recompute_mode("none"),),
        "switches": {},
    }
    return SearchLimits(**{**single, **limits})  # type: ignore[arg-type]


def counted(job: object, space: SearchSpace) -> tuple[int, int, dict[str, int]]:
    rejections, enumerated, legal = Rejections(), 0, 0
    for chunk in chunks(job, space, rejections):  # type: ignore[arg-type]
        enumerated += chunk.num_enumerated
        legal += len(charge_illegal(job, chunk.batch, option_rules(job), rejections))  # type: ignore[arg-type]
    return enumerated, legal, rejections.counts


def test_counts_of_a_space_worked_by_hand() -> None:
    # tp 1 has one form of sequence parallelism, tp 2 has two: 3. Times pp {1, 2}, micro batch {1, 3}, recompute
    # {none, full}: 3 x 2 x 2 x 2 = 24. Micro batches of 3 never divide the global batch of 64:
    # 12 are charged. tp 2 with and without sequence parallelism is legal for a dense model.
    job = workload(num_devices=16, global_batch_size=64)
    limits = narrow(
        tp=(1, 2),
        pp=(1, 2),
        micro_batch_size=(1, 3),
        sequence_parallel=(True, False),
        recompute=(recompute_mode("none"), recompute_mode("full")),
    )
    assert counted(job, search_space(job, limits)) == (24, 12, {"global_batch": 12})


def test_hybrid_context_parallelism_has_one_form_a_proper_divisor() -> None:
    # cp 8: ring, ulysses, and hybrid with 2 or 4 ulysses ranks inside; 16 heads split over 1, 8, 2, 4.
    job = workload(num_devices=16, seq_length=32768)
    limits = narrow(cp=(8,), cp_algo=(CpAlgo.RING, CpAlgo.ULYSSES, CpAlgo.HYBRID))
    assert counted(job, search_space(job, limits)) == (4, 4, {})


def test_a_schedule_that_is_not_asked_for_is_no_part_of_the_space() -> None:
    job = workload(num_devices=16)
    limits = narrow(pp=(1, 2), vpp=(1, 2), schedule=(Schedule.INTERLEAVED,))
    # pp 2 x vpp 2 is left.
    assert counted(job, search_space(job, limits)) == (1, 1, {})


def test_every_schedule_is_a_strategy_of_its_own() -> None:
    # pp 4 over 16 devices: dp 4, so that 64 samples are 16 micro batches. vpp 1 runs 1F1B, GPipe, ZB-1p, ZB-2p and DualPipe,
    # vpp 2 interleaved, ZB-V and DualPipeV, vpp 3 interleaved alone: 9 pipelines. 8 or more micro
    # batches fill them all; 12 layers make 4 x 3 = 12 virtual stages.
    job = workload(num_devices=16, global_batch_size=64)
    limits = narrow(pp=(4,), vpp=(1, 2, 3), schedule=tuple(Schedule))
    assert counted(job, search_space(job, limits)) == (9, 9, {})


def test_too_few_micro_batches_do_not_fill_a_schedule() -> None:
    # pp 4, dp 4: 24 samples are 6 micro batches. They fill 1F1B, GPipe and ZB-1p (4); ZB-2p, ZB-V and DualPipeV want 7,
    # DualPipe 8; 6 are no multiple of pp 4 either, and leave 2, fewer than pp.
    job = workload(num_devices=16, global_batch_size=24)
    limits = narrow(pp=(4,), vpp=(1, 2), schedule=tuple(Schedule))
    expected = (8, 3, {"schedule_fill": 4, "interleaved_microbatches": 1})
    assert counted(job, search_space(job, limits)) == expected


def test_dualpipe_splits_ranks_and_micro_batches_in_two() -> None:
    # pp 3 over 12 devices: 12 micro batches, but an odd pipeline. pp 4 over 12: dp 3 and 27 samples are 9 micro batches.
    dualpipe = narrow(pp=(3, 4), schedule=(Schedule.DUALPIPE,))
    for samples, broken in ((48, {"dualpipe_halves": 1}), (27, {"global_batch": 1, "dualpipe_halves": 1})):
        job = workload(num_devices=12, global_batch_size=samples)
        assert counted(job, search_space(job, dualpipe))[2] == broken


def test_groups_of_micro_batches_go_from_pp_to_all() -> None:
    # 16 micro batches over pp 4 with vpp 2: groups of 4 (pp itself, the same as 0), 6 (leaves 4), 8 and 16
    # run; 2 is below pp, 32 above the number, and groups of 5 or 7 leave 1 or 2.
    job = workload(num_devices=16, global_batch_size=64)
    limits = narrow(pp=(4,), vpp=(2,), microbatch_group_size_per_vp_stage=(0, 2, 4, 5, 6, 7, 8, 16, 32))
    assert counted(job, search_space(job, limits)) == (
        8,
        4,
        {"interleaved_group": 2, "interleaved_microbatches": 2},
    )


def test_no_variant_of_an_option_means_no_strategy() -> None:
    job = workload(num_devices=16, seq_length=32768)
    assert counted(job, search_space(job, narrow(cp=(2,), cp_algo=(CpAlgo.HYBRID,)))) == (0, 0, {})


def test_a_huge_space_is_charged_by_arithmetic() -> None:
    # 3 does not divide 16 devices, so that every strategy breaks world_size: 1000 micro batch sizes x 11 recompute
    # modes, counted without listing one.
    job = workload(num_devices=16)
    modes = tuple(recompute_mode(f"block:{layers}") for layers in range(1, 12))
    space = search_space(job, narrow(tp=(3,), micro_batch_size=tuple(range(1, 1001)), recompute=modes))
    rejections = Rejections()
    stream = list(chunks(job, space, rejections))
    assert sum(chunk.num_enumerated for chunk in stream) == rejections.counts["world_size"] == 1000 * 11
    assert all(len(chunk.batch) == 0 for chunk in stream)


def test_a_space_of_billions_starts_at_once_and_stays_in_one_chunk() -> None:
    job = workload(MOE, num_devices=4096, seq_length=65536, global_batch_size=65536)
    modes = tuple(recompute_mode(f"block:{percent}%") for percent in range(1, 100))
    powers = tuple(1 << exponent for exponent in range(13))
    limits = SearchLimits(
        tp=powers, cp=powers, ep=powers, etp=powers, micro_batch_size=powers, recompute=modes, zero_stage=(0, 1, 2, 3)
    )
    first = list(islice(chunks(job, search_space(job, limits), Rejections()), 3))
    assert all(len(chunk.batch) <= CHUNK_ROWS for chunk in first)
    assert 0 < first[0].done_fraction < first[2].done_fraction < 1e-3


def test_a_chunk_holds_one_pipeline_shape_and_progress_ends_at_one() -> None:
    job = workload(MOE, num_devices=16)
    stream = list(chunks(job, search_space(job), Rejections(), chunk_rows=500))
    for chunk in stream:
        assert len(np.unique(chunk.batch.pp)) <= 1
        assert len(np.unique(chunk.batch.vpp)) <= 1
    fractions = [chunk.done_fraction for chunk in stream]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_layout_rules_lead_the_documented_order() -> None:
    job = workload(MOE, target="megatron-lm")
    before = tuple(rule for rule in rules_for("megatron-lm") if not rule.reads_placement)
    assert (*layout_rules(job), *option_rules(job)) == before
    assert {*before, *placement_rules(job)} == {*rules_for("megatron-lm")}
    assert layout_rules(job)[0] is RULES[0]
    assert len(layout_rules(job)) >= 8


def test_illegal_rows_are_charged_to_the_first_rule_they_break() -> None:
    # tp 3 fills no cluster of 16, and does not divide 16 heads either: only the first counts.
    job = workload(num_devices=16)
    assert counted(job, search_space(job, narrow(tp=(3,))))[2] == {"world_size": 1}
