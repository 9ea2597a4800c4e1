"""An engine played token by token, slow and plain: what continuous batching must agree with."""

from collections.abc import Callable, Sequence


def play(
    prompts: Sequence[int],
    responses: Sequence[int],
    step_s: Callable[[int, float], float],
    *,
    slots: int,
    capacity: float = float("inf"),
    prefill_s_per_token: float = 0.0,
    watermark: float = 0.01,
) -> tuple[list[float], int]:
    """Finish of each request, and evictions. One token a step for each request in flight."""
    waiting = [(index, prompts[index], responses[index]) for index in range(len(prompts)) if responses[index]]
    running: list[list[int]] = []  # index, tokens held, tokens still to come; the last admitted last
    finish, now, evictions = [0.0] * len(prompts), 0.0, 0
    changed = True
    while waiting or running:
        while changed and waiting and len(running) < slots:
            index, held, left = waiting[0]
            if running and sum(request[1] for request in running) + held > (1.0 - watermark) * capacity:
                break
            waiting.pop(0)
            now += held * prefill_s_per_token
            running.append([index, held, left])
        changed = False
        while len(running) > 1 and sum(request[1] + 1 for request in running) > capacity:
            index, held, left = running.pop()
            waiting.insert(0, (index, held, left))
            evictions += 1
        for request in running:
            request[1] += 1
            request[2] -= 1
        now += step_s(len(running), sum(request[1] for request in running) / len(running))
        for request in [request for request in running if request[2] == 0]:
            finish[request[0]] = now
            running.remove(request)
            changed = True
    return finish, evictions
