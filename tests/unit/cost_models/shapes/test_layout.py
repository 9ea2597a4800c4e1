"""Layers on virtual stages."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.pipeline.stages import stages_of
from cost_models.shapes.layout import default_layout, distinct_stages, layer_layout, lean_tail_layout, stage_table
from cost_models.shapes.strategy import Schedule
from cost_models.shapes.workload import LayerKind, LocalAttention
from tests.workloads import DENSE, SPARSE


def test_layers_that_divide_evenly() -> None:
    assert layer_layout(32, 4, 2) == ((4, 4, 4, 4), (4, 4, 4, 4))


def test_pangu_ultra_moe_leaves_slots_free_at_the_end() -> None:
    # 61 layers on 16 x 2 virtual stages of ceil(61 / 32) = 2: three slots hold nothing,
    # both chunks of the last rank and the second of the rank before it.
    layout = np.array(layer_layout(61, 16, 2))
    expected = np.full((2, 16), 2)
    expected[1, 15] = expected[0, 15] = expected[1, 14] = 1
    np.testing.assert_array_equal(layout, expected)


def test_pangu_pro_moe_has_two_empty_slots() -> None:
    # 48 layers on 5 x 5 virtual stages of 2 [pangu-pro-moe, section 4.1]
    layout = np.array(layer_layout(48, 5, 5))
    assert layout.sum() == 48
    assert (layout == 1).sum() == 2
    assert (layout[:, 0] == 2).all()  # the first rank stays full


def test_the_stages_of_embedding_and_loss_hold_nothing_where_layers_are_too_few() -> None:
    # Qwen3-235B's 94 layers on 32 x 3 virtual stages, which was measured; then one stage too many: the loss has one of its own.
    assert layer_layout(94, 32, 3) == ((0, *[1] * 31), (1,) * 32, (*[1] * 31, 0))
    assert layer_layout(95, 32, 3) == ((1,) * 32, (1,) * 32, (*[1] * 31, 0))
    # In a V every virtual stage holds one, and what is asked beyond has no default.
    assert [sum(map(sum, lean_tail_layout(3, 2, 2))), lean_tail_layout(3, 2, 2)[-1][-1]] == [3, 0]


def test_both_ends_give_way_where_no_dense_layers_lead() -> None:
    # 126 layers on 16 ranks of 8: the two free slots are the ends', Llama 3.1's own split
    assert layer_layout(126, 16, 1, keep_first=False) == ((7, *[8] * 14, 7),)
    assert default_layout(DENSE, 3, 1) == layer_layout(DENSE.num_layers, 3, 1, keep_first=False)
    assert default_layout(SPARSE, 3, 1) == layer_layout(SPARSE.num_layers, 3, 1, keep_first=True)
    assert SPARSE.moe is not None
    # experts from the first layer on: 10 layers on 4 ranks of 3, one fewer on the first and the last, as without experts
    all_moe = replace(SPARSE, num_layers=10, moe=replace(SPARSE.moe, num_leading_dense_layers=0))
    assert default_layout(all_moe, 4, 1) == ((2, 3, 3, 2),)


def test_both_ends_give_way_where_experts_begin_with_the_first_layer() -> None:
    # 8 layers on 5 ranks of 2: two slots hold nothing. Without leading dense layers they are the ends', with one they are the
    # last two, since the first rank then holds more layers than lead the model.
    assert SPARSE.moe is not None
    none, one = (replace(SPARSE, moe=replace(SPARSE.moe, num_leading_dense_layers=number)) for number in (0, 1))
    assert default_layout(none, 5, 1) == ((1, 2, 2, 2, 1),)
    assert default_layout(one, 5, 1) == ((2, 2, 2, 1, 1),)


@given(layers=st.integers(1, 200), pp=st.integers(1, 32), vpp=st.integers(1, 8), keep_first=st.booleans())
def test_every_layer_has_a_place(layers: int, pp: int, vpp: int, keep_first: bool) -> None:
    layout = np.array(layer_layout(layers, pp, vpp, keep_first=keep_first))
    assert layout.shape == (vpp, pp)
    assert layout.sum() == layers
    assert layout.max() - layout.min() <= 1


def test_layers_go_round_the_stages_chunk_by_chunk() -> None:
    # Two dense layers lead: on 2 ranks x 2 chunks of 2 layers, rank 0 holds layers 0 1 | 4 5, rank 1 layers 2 3 | 6 7.
    table = stage_table(SPARSE, 2, 2)
    assert SPARSE.layer_kinds() == (LayerKind(moe=False), LayerKind(moe=True))
    np.testing.assert_array_equal(table.layers, [[[2, 0], [0, 0]], [[0, 2], [2, 2]]])


def test_prefixes_count_kinds_from_the_start_of_a_chunk() -> None:
    table = stage_table(SPARSE, 2, 1)  # 4 layers each: dense dense moe moe | moe moe moe moe
    np.testing.assert_array_equal(table.prefix[0, :, 0], [[0, 1, 2, 2, 2], [0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(table.prefix[1, :, 0], [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])


def test_prefixes_of_a_short_chunk_stay_at_its_total() -> None:
    table = stage_table(DENSE, 2, 1, ((5, 3),))
    np.testing.assert_array_equal(table.prefix[0, 1, 0], [0, 1, 2, 3, 3, 3])


@pytest.mark.parametrize("layout", [((4, 3),), ((8,),), ((4, 4), (0, 0), (0, 0)), ((4, 4, 0),)])
def test_a_layout_that_loses_layers_is_refused(layout: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match=r"does not place 8 layers on 2 stages of 1 chunks"):
        stage_table(DENSE, 2, 1, layout)


def test_equal_ranks_are_one_kind() -> None:
    kinds = distinct_stages(5, ("a", "b", "b", "a", "c"))
    np.testing.assert_array_equal(kinds.first, [0, 1, 4])
    np.testing.assert_array_equal(kinds.count, [2, 2, 1])
    # Before ranks 0, 1 and 4: nothing; one a; two a and two b. Before the last of each kind, ranks 3, 2 and 4: ...
    np.testing.assert_array_equal(kinds.before_first, [[0, 0, 0], [1, 0, 0], [2, 2, 0]])
    np.testing.assert_array_equal(kinds.before_last, [[1, 2, 0], [1, 1, 0], [2, 2, 0]])


def test_stages_keep_the_ends_apart() -> None:
    stages = stages_of(DENSE, 4, 1)
    np.testing.assert_array_equal(stages.num_ranks[:, 0], [1, 2, 1])
    np.testing.assert_array_equal(stages.is_first[:, 0], [1, 0, 0])
    np.testing.assert_array_equal(stages.is_last[:, 0], [0, 0, 1])
    assert stages_of(DENSE, 4, 1, merge=False).num_kinds == 4


def test_a_recompute_plan_needs_an_entry_for_each_rank() -> None:
    with pytest.raises(ValueError, match="recompute_layers_per_stage has 3 entries for 4 pipeline ranks"):
        stages_of(DENSE, 4, 1, plan=(1, 1, 1))


def test_a_model_of_one_kind_has_one_table() -> None:
    assert len(stage_table(DENSE, 4, 2).layers) == 1
    leading = replace(SPARSE, num_layers=2)  # both of the dense layers that lead
    assert leading.layer_kinds() == (LayerKind(),)
    assert stage_table(leading, 2, 1).layers.tolist() == [[[1], [1]]]


def test_layers_that_look_at_a_window_are_a_kind_of_their_own() -> None:
    # Two dense layers lead and each third layer looks at everything: of 8 layers on two ranks
    # dense local, dense local, MoE full, MoE local | MoE local, MoE full, MoE local, MoE local.
    model = replace(SPARSE, num_layers=8, local_attention=LocalAttention("window", full_attention_every=3, window=512))
    dense, full, local = LayerKind(local=True), LayerKind(moe=True), LayerKind(moe=True, local=True)
    assert model.kinds_of_layers() == (dense, dense, full, local, local, full, local, local)
    assert model.layer_kinds() == (dense, full, local)
    assert stage_table(model, 2, 1).layers[:, :, 0].tolist() == [[2, 0], [1, 1], [1, 3]]
    assert [stage.tolist() for stage in stage_table(model, 2, 1).prefix[2, :, 0]] == [[0, 0, 0, 0, 1], [0, 1, 1, 2, 3]]


def test_a_v_leaves_the_slots_beside_its_head_empty() -> None:
    # 61 layers in 16 chunks of 4: the three that are missing are the model's last, on the first rank [mindspeed-llm].
    model = replace(DENSE, num_layers=61)
    assert default_layout(model, 8, 2, Schedule.DUALPIPE_V) == ((4,) * 8, (4,) * 7 + (1,))
    assert default_layout(model, 8, 2) != default_layout(model, 8, 2, Schedule.DUALPIPE_V)
