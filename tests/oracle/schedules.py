"""What every rank runs, step by step, as the released code of each pipeline schedule does: loops of yields, no formulas.

A rank is a program: it yields its next step when the event loop asks. Steps name the model chunk of the rank and the micro batch.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

SCHEDULES = ("gpipe", "1f1b", "interleaved-1f1b", "dualpipev", "dualpipe", "zb1p", "zb2p", "zbv")


class Step(NamedTuple):
    """``F``; ``B``, input gradient; ``W``, weight gradient; ``BW``, whole backward; ``FB``, forward and whole backward."""

    kind: str
    chunk: int
    micro_batch: int
    backward_chunk: int = -1  # of the backward in an FB
    backward_micro_batch: int = -1

    def __str__(self) -> str:
        backward = f"/{self.backward_chunk}.{self.backward_micro_batch}" if self.kind == "FB" else ""
        return f"{self.kind}{self.chunk}.{self.micro_batch}{backward}"


Place = tuple[int, int]  # rank, chunk


class Rule(NamedTuple):
    num_chunks: int  # model chunks on a rank
    program: Callable[[int], Iterator[Step]]
    path: Callable[[int], list[Place]]  # where the forward of a micro batch goes, in order


def rule_of(
    schedule: str,
    pp: int,
    vpp: int,
    num_microbatches: int,
    *,
    group_size: int | None = None,
    moe_fb_overlap: bool = False,
    dw_detach: bool = False,
) -> Rule:
    """``moe_fb_overlap`` fuses forwards with backwards, ``dw_detach`` splits the last backwards of DualPipeV."""
    m = num_microbatches
    fixed_chunks = {"dualpipev": 2, "dualpipe": 2, "zbv": 2, "interleaved-1f1b": vpp}.get(schedule, 1)
    if schedule not in SCHEDULES or min(pp, vpp, m) < 1 or vpp not in (1, fixed_chunks):
        raise ValueError(f"no {schedule} of pp {pp}, vpp {vpp}, {m} micro batches")
    if schedule == "interleaved-1f1b":
        group = group_size or pp
        if moe_fb_overlap and (group != pp or m % pp or m < 2 * pp or vpp < 2):
            raise ValueError("MindSpeed overlaps on several chunks and whole groups of pp micro batches, two of them or more")
        return Rule(vpp, lambda rank: interleaved(rank, pp, vpp, m, group, moe_fb_overlap), lambda _: looped(pp, vpp))
    if (
        group_size is not None
        or (moe_fb_overlap and not schedule.startswith("dualpipe"))
        or (dw_detach and schedule != "dualpipev")
    ):
        raise ValueError(f"{schedule} has no such option")
    if schedule == "dualpipev":
        if m < 2 * pp:
            raise ValueError(f"DualPipeV needs 2 * pp micro batches, not {m}")
        return Rule(2, lambda rank: dualpipev(rank, pp, m, moe_fb_overlap, dw_detach), lambda _: v_shaped(pp))
    if schedule == "dualpipe":
        if pp % 2 or m % 2 or m < 2 * pp:
            raise ValueError(f"DualPipe needs even ranks and an even number of at least 2 * pp micro batches, not {pp} and {m}")
        return Rule(2, lambda rank: dualpipe(rank, pp, m, moe_fb_overlap), lambda mb: two_ways(pp, mb, m))
    if schedule == "zbv":
        return Rule(2, lambda rank: zbv(rank, pp, m), lambda _: v_shaped(pp))
    program = {"gpipe": gpipe, "1f1b": one_forward_one_backward, "zb1p": zb_h1, "zb2p": zb_h2}[schedule]
    return Rule(1, lambda rank: program(rank, pp, m), lambda _: looped(pp, 1))


def looped(pp: int, vpp: int) -> list[Place]:
    return [(rank, chunk) for chunk in range(vpp) for rank in range(pp)]


def v_shaped(pp: int) -> list[Place]:
    """Down the ranks through their first chunks and back up through their second: embedding and head share rank 0."""
    return [(rank, 0) for rank in range(pp)] + [(rank, 1) for rank in reversed(range(pp))]


def two_ways(pp: int, micro_batch: int, num_microbatches: int) -> list[Place]:
    """The first half of the micro batches enters at rank 0, through chunks 0; the rest at the last rank, through chunks 1."""
    if micro_batch < num_microbatches // 2:
        return [(rank, 0) for rank in range(pp)]
    return [(rank, 1) for rank in reversed(range(pp))]


def gpipe(rank: int, pp: int, m: int) -> Iterator[Step]:
    """All forwards, then all backwards, both in the order of the micro batches [pytorch, ScheduleGPipe]."""
    for mb in range(m):
        yield Step("F", 0, mb)
    for mb in range(m):
        yield Step("BW", 0, mb)


def one_forward_one_backward(rank: int, pp: int, m: int) -> Iterator[Step]:
    """[megatron-0.12, schedules.py: forward_backward_pipelining_without_interleaving]."""
    warm_up = min(pp - rank - 1, m)
    for mb in range(warm_up):
        yield Step("F", 0, mb)
    for i in range(m - warm_up):
        yield Step("F", 0, warm_up + i)
        yield Step("BW", 0, i)
    for mb in range(m - warm_up, m):
        yield Step("BW", 0, mb)


def schedule_table(m: int, vpp: int, group_size: int) -> list[tuple[int, int]]:
    """(micro batch, chunk) of each virtual micro batch [megatron-0.12, schedules.py: get_schedule_table]."""
    table = []
    for first in range(0, m, group_size):
        for chunk in range(vpp):
            for mb in range(first, min(first + group_size, m)):
                table.append((mb, chunk))
    return table


def interleaved(rank: int, pp: int, vpp: int, m: int, group_size: int, moe_fb_overlap: bool) -> Iterator[Step]:
    """Interleaved 1F1B; with ``moe_fb_overlap`` one more warm-up forward, then forwards fused with backwards.

    [megatron-0.12, schedules.py: get_pp_rank_microbatches, forward_backward_pipelining_with_interleaving; mindspeed-fb-overlap,
    vpp_schedules.py: forward_backward_pipelining_with_interleaving].
    """
    table = schedule_table(m, vpp, group_size)
    total = m * vpp

    def forward(k: int) -> tuple[int, int]:
        mb, chunk = table[k]
        return chunk, mb

    def backward(k: int) -> tuple[int, int]:
        mb, chunk = table[k]
        return vpp - 1 - chunk, mb

    if vpp == 1:
        warm_up = pp - rank - 1
    else:
        warm_up = (pp - rank - 1) * 2 + (vpp - 1) * group_size
    if moe_fb_overlap:
        warm_up += 1
    warm_up = min(warm_up, total)
    for k in range(warm_up):
        yield Step("F", *forward(k))
    for k in range(total - warm_up):
        if moe_fb_overlap:
            yield Step("FB", *forward(k + warm_up), *backward(k))
        else:
            yield Step("F", *forward(k + warm_up))
            yield Step("BW", *backward(k))
    for k in range(total - warm_up, total):
        yield Step("BW", *backward(k))


def zb_h1(rank: int, pp: int, m: int) -> Iterator[Step]:
    """ZB-H1, ZB1P: the order of 1F1B, each weight gradient as many backwards late as the rank's number.

    [zero-bubble, section 2.1; zero-bubble-code, schedules.py: forward_backward_pipelining_without_interleaving].
    That code leaves the backwards of the steady state whole; the paper splits them, and so does this.
    """
    yield from _split_1f1b(m, warm_up=pp - 1 - rank, delay=rank)


def zb_h2(rank: int, pp: int, m: int) -> Iterator[Step]:
    """ZB-H2, ZB2P: 2(p - i) - 1 forwards before the first backward of rank i, and 2i weight gradients put off.

    [zero-bubble, section 2.2]: 2p - 1 forwards fill rank 0 until its first backward, every rank holds at most 2p - 1, and
    the weight gradients put off turn the trapezoid at the end into a parallelogram.
    """
    yield from _split_1f1b(m, warm_up=2 * (pp - 1 - rank), delay=2 * rank)


def _split_1f1b(m: int, warm_up: int, delay: int) -> Iterator[Step]:
    waiting: deque[int] = deque()
    warm_up = min(warm_up, m)
    for mb in range(warm_up):
        yield Step("F", 0, mb)
    for mb in range(m):
        if warm_up + mb < m:
            yield Step("F", 0, warm_up + mb)
        yield Step("B", 0, mb)
        waiting.append(mb)
        if mb >= delay:
            yield Step("W", 0, waiting.popleft())
    for mb in waiting:
        yield Step("W", 0, mb)


def zbv(rank: int, pp: int, m: int) -> Iterator[Step]:
    """ZB-V by hand; of fewer than 2p - 1 micro batches, the order of 2p - 1 without those that do not exist.

    [zero-bubble-code, handcrafted_zb_v: get_zb_v_schedule].
    """
    for step in _zbv_of_enough(rank, pp, max(2 * pp - 1, m)):
        if step.micro_batch < m:
            yield step


def _zbv_of_enough(rank: int, pp: int, m: int) -> Iterator[Step]:
    done = {"F": [0, 0], "B": [0, 0], "W": [0, 0]}

    def next_of(kind: str, chunk: int) -> Step:
        done[kind][chunk] += 1
        return Step(kind, chunk, done[kind][chunk] - 1)

    for _ in range(2 * (pp - rank) - 1):
        yield next_of("F", 0)
    for _ in range(rank):
        yield next_of("F", 1)
        yield next_of("F", 0)
    for _ in range(pp - rank):
        yield next_of("F", 1)
        yield next_of("B", 1)
        yield next_of("W", 1)
    while done["F"][1] < done["F"][0] or done["F"][0] < m:
        if done["F"][0] < m:
            yield next_of("F", 0)
        yield next_of("B", 0)
        yield next_of("W", 0)
        yield next_of("F", 1)
        yield next_of("B", 1)
        yield next_of("W", 1)
    for _ in range(rank):
        yield next_of("B", 0)
        yield next_of("B", 1)
    for _ in range(pp - rank):
        yield next_of("B", 0)
        yield next_of("W", 0)
    while done["W"][1] < done["B"][1]:
        yield next_of("W", 1)
    while done["W"][0] < done["B"][0]:
        yield next_of("W", 0)


def dualpipev(rank: int, pp: int, m: int, moe_fb_overlap: bool, dw_detach: bool) -> Iterator[Step]:
    """MindSpeed's DualPipeV: chunk 0 is its master, chunk 1 its slave.

    [mindspeed-dualpipev, dualpipev_schedules.py: generate_dualpipev_schedule, forward_backward_pipelining_with_cutinhalf]. With
    ``dw_detach`` the order is DeepSeek's [dualpipe, dualpipev.py: DualPipeV.step].
    """
    stages = 2 * pp
    warm_up = stages - 2 - rank * 2
    interleaved_forward = rank + 1
    one_b_one_w_one_f = stages // 2 - rank - 1
    overlap = 2 * m - stages * 2 + rank * 2 + 2
    one_b_one_overlap = (stages // 2 - rank - 1) * 2
    interleaved_backward = rank + 1

    master, slave = 0, 1
    forwards, backwards = [0, 0], [0, 0]

    def forward(chunk: int) -> Step:
        forwards[chunk] += 1
        return Step("F", chunk, forwards[chunk] - 1)

    def backward(chunk: int, kind: str = "BW") -> Step:
        backwards[chunk] += 1
        return Step(kind, chunk, backwards[chunk] - 1)

    for _ in range(warm_up):
        yield forward(master)
    for _ in range(interleaved_forward):
        yield forward(master)
        yield forward(slave)
    for _ in range(one_b_one_w_one_f):
        input_gradient = backward(slave, "B")
        yield input_gradient
        yield input_gradient._replace(kind="W")
        yield forward(slave)

    forward_chunk, backward_chunk = master, slave
    alone = rank == pp - 1  # the last rank does not overlap its first forward and backward
    for _ in range(overlap + one_b_one_overlap + interleaved_backward):
        if forwards[forward_chunk] == m:
            yield backward(backward_chunk)
        elif moe_fb_overlap and not alone:
            f, b = forward(forward_chunk), backward(backward_chunk)
            yield Step("FB", f.chunk, f.micro_batch, b.chunk, b.micro_batch)
        else:
            yield forward(forward_chunk)
            yield backward(backward_chunk)
        alone = False
        forward_chunk, backward_chunk = backward_chunk, forward_chunk

    # What is left alternates while both chunks have some, beginning where the loop above stopped.
    left: list[Step] = []
    while min(backwards) < m:
        for chunk in (backward_chunk, 1 - backward_chunk):
            if backwards[chunk] < m:
                left.append(backward(chunk, "B" if dw_detach else "BW"))
    assert len(left) == pp
    waiting: deque[Step] = deque()
    for i, step in enumerate(left):
        yield step
        if dw_detach:
            waiting.append(step._replace(kind="W"))
            if i >= rank:
                yield waiting.popleft()
    yield from waiting


def dualpipe(rank: int, pp: int, m: int, moe_fb_overlap: bool) -> Iterator[Step]:
    """DeepSeek's DualPipe in its eight steps; chunk 0 belongs to the direction from rank 0, chunk 1 to the other.

    [dualpipe, dualpipe.py: DualPipe.step]; without ``moe_fb_overlap`` its fallback, a forward and then the backward.
    """
    num_half_ranks = pp // 2
    half_rank = min(rank, pp - 1 - rank)
    second_half = rank >= num_half_ranks
    middle = rank in (num_half_ranks - 1, num_half_ranks)
    forwards, backwards = [0, m // 2], [0, m // 2]
    weights: deque[Step] = deque()

    def forward(phase: int) -> Step:
        chunk = phase ^ second_half
        forwards[chunk] += 1
        return Step("F", chunk, forwards[chunk] - 1)

    def backward(phase: int, enable_zb: bool = False) -> Step:
        chunk = phase ^ second_half
        backwards[chunk] += 1
        step = Step("B" if enable_zb else "BW", chunk, backwards[chunk] - 1)
        if enable_zb:
            weights.append(step._replace(kind="W"))
        return step

    def both(forward_phase: int, backward_phase: int, fused: bool) -> Iterator[Step]:
        f, b = forward(forward_phase), backward(backward_phase)
        if fused:
            yield Step("FB", f.chunk, f.micro_batch, b.chunk, b.micro_batch)
        else:
            yield f
            yield b

    for _ in range((num_half_ranks - half_rank - 1) * 2):  # 1
        yield forward(0)
    for _ in range(half_rank + 1):  # 2
        yield forward(0)
        yield forward(1)
    for _ in range(num_half_ranks - half_rank - 1):  # 3
        yield backward(1, enable_zb=True)
        yield weights.popleft()
        yield forward(1)
    for i in range(m // 2 - pp + half_rank + 1):  # 4: middle ranks do not overlap their first pair
        yield from both(0, 1, moe_fb_overlap and not (i == 0 and middle))
        yield from both(1, 0, moe_fb_overlap)
    for _ in range(num_half_ranks - half_rank - 1):  # 5
        yield backward(1)
        yield from both(1, 0, moe_fb_overlap)
    enable_zb = False
    step_6 = half_rank + 1
    for i in range(step_6):  # 6
        if i == step_6 // 2 and half_rank % 2 == 1:
            enable_zb = True
        yield backward(1, enable_zb)
        if i == step_6 // 2 and half_rank % 2 == 0:
            enable_zb = True
        yield backward(0, enable_zb)
    for _ in range(num_half_ranks - half_rank - 1):  # 7
        yield weights.popleft()
        yield backward(0, enable_zb=True)
    for _ in range(half_rank + 1):  # 8
        yield weights.popleft()
    assert not weights
