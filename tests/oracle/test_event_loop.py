"""The oracle itself, against what is known of the schedules without any simulator."""

from itertools import product, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.event_loop import Durations, Result, simulate
from tests.oracle.schedules import SCHEDULES, Step, rule_of

UNIT = Durations(F=1, B=1, W=1)
VARIANTS: list[tuple[str, int, dict[str, Any]]] = [
    ("gpipe", 1, {}),
    ("1f1b", 1, {}),
    ("interleaved-1f1b", 2, {}),
    ("interleaved-1f1b", 3, {"moe_fb_overlap": True}),
    ("dualpipev", 1, {}),
    ("dualpipev", 1, {"moe_fb_overlap": True}),
    ("dualpipev", 1, {"moe_fb_overlap": True, "dw_detach": True}),
    ("dualpipe", 1, {}),
    ("dualpipe", 1, {"moe_fb_overlap": True}),
    ("zb1p", 1, {}),
    ("zb2p", 1, {}),
    ("zbv", 1, {}),
]
seconds = st.floats(0.1, 10.0)


def bubbles(result: Result) -> list[float]:
    return [result.bubble_s(rank) for rank in range(len(result.spans))]


def peaks(result: Result) -> list[float]:
    return [result.peak_chunks(rank) for rank in range(len(result.spans))]


def test_every_schedule_has_a_variant_here() -> None:
    assert {schedule for schedule, _, _ in VARIANTS} == set(SCHEDULES)


@pytest.mark.parametrize(("schedule", "vpp", "options"), VARIANTS)
@pytest.mark.parametrize(("pp", "groups"), [(2, 2), (2, 5), (4, 2), (6, 3)])
def test_every_micro_batch_passes_every_chunk_once_and_in_order(
    schedule: str, vpp: int, options: dict[str, Any], pp: int, groups: int
) -> None:
    m = pp * groups
    result = simulate(schedule, pp, vpp, m, UNIT, **options)
    rule = rule_of(schedule, pp, vpp, m, **options)
    ends: dict[tuple[str, int, int, int], float] = {}
    for rank, spans in enumerate(result.spans):
        clock = 0.0
        for step, start_s, end_s in spans:
            assert start_s >= clock
            clock = end_s
            made = {"FB": "FBW", "BW": "BW"}.get(step.kind, step.kind)
            for kind in made:
                backward = step.kind == "FB" and kind != "F"
                at = (step.backward_chunk, step.backward_micro_batch) if backward else (step.chunk, step.micro_batch)
                assert (kind, rank, *at) not in ends
                ends[kind, rank, *at] = end_s
    assert len(ends) == 3 * sum(len(rule.path(mb)) for mb in range(m))
    for mb in range(m):
        path = rule.path(mb)
        assert len(path) == pp * (1 if schedule == "dualpipe" else rule.num_chunks)
        there_and_back = [ends["F", *place, mb] for place in path] + [ends["B", *place, mb] for place in reversed(path)]
        assert there_and_back == sorted(set(there_and_back))
        assert all(ends["W", *place, mb] >= ends["B", *place, mb] for place in path)


@given(pp=st.integers(1, 6), m=st.integers(1, 12), forward=seconds, backward=seconds)
def test_bubble_of_1f1b_and_gpipe(pp: int, m: int, forward: float, backward: float) -> None:
    for schedule in ("gpipe", "1f1b"):
        result = simulate(schedule, pp, 1, m, Durations(forward, backward))
        assert bubbles(result) == pytest.approx([(pp - 1) * (forward + backward)] * pp, abs=1e-9)


@given(pp=st.integers(2, 5), vpp=st.integers(1, 4), groups=st.integers(1, 4), forward=seconds, backward=seconds)
def test_bubble_of_the_interleaved_schedule(pp: int, vpp: int, groups: int, forward: float, backward: float) -> None:
    result = simulate("interleaved-1f1b", pp, vpp, groups * pp, Durations(forward / vpp, backward / vpp))
    assert bubbles(result) == pytest.approx([(pp - 1) * (forward + backward) / vpp] * pp, abs=1e-9)


@given(pp=st.integers(1, 6), more=st.integers(0, 6), data=st.data())
def test_bubble_of_zb1p_while_weight_gradients_are_short(pp: int, more: int, data: st.DataObject) -> None:
    # (p - 1) (F + B - W) with the input gradient B; published as F + B - 2W with the whole backward.
    weight = data.draw(seconds)
    forward, backward = data.draw(st.floats(weight, 20.0)), data.draw(st.floats(weight, 20.0))
    result = simulate("zb1p", pp, 1, 2 * pp + more, Durations(forward, backward, weight))
    assert bubbles(result)[0] == pytest.approx((pp - 1) * (forward + backward - weight), abs=1e-9)


@pytest.mark.parametrize(("pp", "m"), [(2, 4), (4, 8), (8, 20)])
def test_zero_bubble_schedules_have_none_between_a_ranks_own_start_and_end(pp: int, m: int) -> None:
    for schedule in ("zb2p", "zbv"):
        result = simulate(schedule, pp, 1, m, UNIT)
        assert [result.own_bubble_s(rank) for rank in range(pp)] == [0] * pp
        assert bubbles(result) == [pp - 1] * pp  # ranks start one after the other: a step that ends for all at once has this one


@pytest.mark.parametrize(("pp", "bubble"), [(4, 12), (8, 28)])
@pytest.mark.parametrize("more", [0, 3])
def test_bubble_of_mindspeeds_dualpipev(pp: int, bubble: int, more: int) -> None:
    # (PP - 1) (F&B + B - W) - F, 11 and 27 for a whole B of 2 [mindspeed-dualpipev, dualpipev.md]; the order takes 12 and 28.
    result = simulate("dualpipev", pp, 1, 2 * pp + more, UNIT, moe_fb_overlap=True)
    assert bubbles(result) == [bubble] * pp
    assert peaks(result) == [2 * pp + 1] * pp
    before_fused = [takewhile(lambda step: step.kind != "FB", (span.step for span in spans)) for spans in result.spans[:-1]]
    assert [sum({"F": 1, "W": -1}.get(step.kind, 0) for step in steps) for steps in before_fused] == [2 * pp] * (pp - 1)


@pytest.mark.parametrize("pp", [2, 4, 6, 8])
@pytest.mark.parametrize("fused", [2.0, 2.5, 3.0])
@pytest.mark.parametrize("more", [0, 2])
def test_deepseeks_two_schedules_are_halves_and_have_the_published_bubble(pp: int, fused: float, more: int) -> None:
    durations = Durations(F=1, B=1, W=1, FB=fused)
    dualpipe = simulate("dualpipe", pp, 1, 2 * pp + 2 * more, durations, moe_fb_overlap=True)
    dualpipev = simulate("dualpipev", pp // 2, 1, pp + more, durations, moe_fb_overlap=True, dw_detach=True)
    whole = 2
    assert max(bubbles(dualpipe)) == (pp / 2 - 1) * (fused + whole - 3 * 1)  # [dualpipe, README]
    assert peaks(dualpipe) == [pp + 1] * pp
    for of_two_ways, of_v in zip(dualpipe.spans, dualpipev.spans, strict=False):
        assert [(span.step.kind, span.start_s) for span in of_two_ways] == [(span.step.kind, span.start_s) for span in of_v]


@given(pp=st.integers(1, 6), vpp=st.integers(1, 4), groups=st.integers(1, 4), larger=st.integers(0, 2), data=st.data())
def test_chunks_in_flight_of_1f1b(pp: int, vpp: int, groups: int, larger: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 12))
    assert peaks(simulate("1f1b", pp, 1, m, UNIT)) == [min(m, pp - rank) for rank in range(pp)]
    if pp > 1 and vpp > 1:
        g = pp + larger
        m = g * groups
        expected = [min(m * vpp, 2 * (pp - 1 - rank) + (vpp - 1) * g + 1) for rank in range(pp)]
        assert peaks(simulate("interleaved-1f1b", pp, vpp, m, UNIT, group_size=g)) == expected


def test_one_more_chunk_in_flight_under_moe_fb_overlap() -> None:
    plain = simulate("interleaved-1f1b", 4, 2, 16, UNIT)
    fused = simulate("interleaved-1f1b", 4, 2, 16, UNIT, moe_fb_overlap=True)
    assert peaks(fused) == [chunks + 1 for chunks in peaks(plain)]


def test_chunks_in_flight_of_the_zero_bubble_schedules() -> None:
    p, m = 4, 12
    assert peaks(simulate("gpipe", p, 1, m, UNIT)) == [m] * p
    assert peaks(simulate("zb1p", p, 1, m, UNIT)) == [p] * p
    assert peaks(simulate("zb2p", p, 1, m, UNIT)) == [2 * p - 1] * p
    assert peaks(simulate("zbv", p, 1, m, UNIT)) == [2 * p] * p  # chunks of half a stage: as 1F1B's first rank
    zb1p = simulate("zb1p", p, 1, m, UNIT)
    assert [zb1p.peak_chunks(rank, kept_for_weight_gradient=0.0) for rank in range(p)] == [p - rank for rank in range(p)]


def test_hand_drawn_step_of_two_ranks() -> None:
    # rank 0: F0 F1 .. B0 B1 ; rank 1: . F0 B0 F1 B1 with F = 1, B = 2
    result = simulate("1f1b", 2, 1, 2, Durations(1, 2))
    assert [[(str(step), start, end) for step, start, end in spans] for spans in result.spans] == [
        [("F0.0", 0, 1), ("F0.1", 1, 2), ("BW0.0", 4, 6), ("BW0.1", 7, 9)],
        [("F0.0", 1, 2), ("BW0.0", 2, 4), ("F0.1", 4, 5), ("BW0.1", 5, 7)],
    ]


def test_messages_delay_the_receiver_and_block_the_sender_if_they_must() -> None:
    # Two ranks, F = 1, B = 2, messages of 1/2. Overlapped: rank 1 starts at 1.5 and works until 7.5; then a message and B1.
    assert simulate("1f1b", 2, 1, 2, Durations(1, 2), p2p_s=0.5).step_s == 1.5 + 6 + 0.5 + 2
    # Blocking: rank 1 sends the gradient of micro batch 0 before it goes on.
    assert simulate("1f1b", 2, 1, 2, Durations(1, 2), p2p_s=0.5, p2p="blocking").step_s == 1.5 + 6 + 0.5 + 0.5 + 2


def test_a_weight_gradient_does_not_wait_for_its_input_gradients_message() -> None:
    # Two ranks, one micro batch, all tasks and the message 1 s: rank 1 runs F 2..3, B 3..4, W 4..5 while its gradient travels.
    result = simulate("zb1p", 2, 1, 1, UNIT, p2p_s=1)
    assert [(str(step), start) for step, start, _ in result.spans[1]] == [("F0.0", 2), ("B0.0", 3), ("W0.0", 4)]


def test_no_message_where_the_v_turns() -> None:
    one_rank = simulate("zbv", 1, 1, 3, UNIT, p2p_s=100.0)
    assert one_rank.step_s == 3 * 2 * 3


@given(schedule=st.sampled_from(VARIANTS), data=st.data())
def test_no_schedule_beats_its_busiest_rank_or_a_single_micro_batch(
    schedule: tuple[str, int, dict[str, Any]], data: st.DataObject
) -> None:
    name, vpp, options = schedule
    pp, m = data.draw(st.sampled_from([(2, 4), (2, 6), (4, 8)]))
    rule = rule_of(name, pp, vpp, m, **options)
    places = list(product(range(pp), range(rule.num_chunks), range(m)))
    forward, backward, weight = ({place: data.draw(seconds) for place in places} for _ in range(3))
    result = simulate(
        name, pp, vpp, m, Durations(forward, backward, weight), p2p_s=data.draw(st.sampled_from([0.0, 1.0])), **options
    )
    for rank in range(pp):
        work = sum(
            forward[at] + backward[at] + weight[at]
            for at in ((r, c, mb) for r, c, mb in places if (r, c) in rule.path(mb))
            if at[0] == rank
        )
        assert result.busy_s(rank) == pytest.approx(work)
        assert result.step_s >= work * (1 - 1e-12)
    for mb in range(m):
        assert result.step_s >= sum(forward[*place, mb] + backward[*place, mb] for place in rule.path(mb)) * (1 - 1e-12)


def test_fused_steps_take_their_own_duration() -> None:
    seen = []

    def fused(*at: int) -> float:
        seen.append(at)
        return 1.5

    result = simulate("interleaved-1f1b", 2, 2, 4, Durations(1, 1, 1, FB=fused), moe_fb_overlap=True)
    assert len(seen) == sum(step.kind == "FB" for spans in result.spans for step, _, _ in spans)
    assert (0, 0, 2, 1, 0) not in seen
    assert seen[0][0] == 1  # the last rank is the first to have a gradient
    assert all(span.end_s - span.start_s == 1.5 for spans in result.spans for span in spans if span.step.kind == "FB")


@pytest.mark.parametrize(
    ("schedule", "pp", "vpp", "m", "options"),
    [
        ("gems", 2, 1, 4, {}),
        ("1f1b", 2, 2, 4, {}),
        ("1f1b", 2, 1, 4, {"moe_fb_overlap": True}),
        ("zbv", 2, 1, 4, {"dw_detach": True}),
        ("dualpipev", 4, 1, 7, {}),
        ("dualpipe", 3, 1, 8, {}),
        ("dualpipe", 4, 1, 9, {}),
        ("interleaved-1f1b", 4, 2, 10, {"moe_fb_overlap": True}),
        ("interleaved-1f1b", 4, 2, 4, {"moe_fb_overlap": True}),
    ],
)
def test_what_no_framework_runs_is_refused(schedule: str, pp: int, vpp: int, m: int, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        rule_of(schedule, pp, vpp, m, **options)


def test_an_order_that_deadlocks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.oracle.schedules.gpipe", lambda rank, pp, m: iter([Step("BW", 0, 0), Step("F", 0, 0)]))
    with pytest.raises(AssertionError, match="wait for each other"):
        simulate("gpipe", 1, 1, 1, UNIT)
