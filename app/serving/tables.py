"""A service for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_assumptions
from app.language.choice import headed
from app.serving.schemas import LayoutDocument, PoolDocument, ServiceNumbers, ServingDocument, ServingSearchDocument
from app.text.quantities import column_seconds, count, gibibytes, percent, seconds
from app.text.terminal import plain_table


def print_serving(console: Console, document: ServingDocument) -> None:
    print_assumptions(console, document.assumptions, document.warnings)
    _print_service(console, document)


def print_serving_search(console: Console, document: ServingSearchDocument) -> None:
    print_assumptions(console, document.assumptions, document.warnings)
    console.print(
        f"{document.layouts:,} layouts: {document.too_large:,} too large, {document.too_slow:,} beyond the limits.", markup=False
    )
    table = plain_table(">", "prefill", "decode", ">in flight", ">TTFT", ">TPOT", ">tokens/s", ">a device", "bound by")
    for plan in document.plans:
        before = "in decode" if plan.prefill is None else f"{plan.prefill_instances} x {_text(plan.prefill)}"
        numbers = plan.service
        table.add_row(
            str(plan.rank),
            before,
            f"{plan.decode_instances} x {_text(plan.decode)}",
            f"{plan.in_flight:,.0f}",
            seconds(numbers.ttft_s),
            seconds(numbers.tpot_s),
            count(numbers.tokens_per_s),
            f"{numbers.tokens_per_s_per_device:,.1f}",
            f"{numbers.bound_by}: {numbers.bottleneck.replace('_', ' ')}",
        )
    console.print(table)
    if document.best is not None:
        console.print()
        _print_service(console, document.best)


def _print_service(console: Console, document: ServingDocument) -> None:
    numbers: ServiceNumbers = document.service
    devices = document.job["cluster"]["num_devices"]
    console.print(
        f"{count(numbers.tokens_per_s)} output tokens/s, {numbers.tokens_per_s_per_device:,.1f} for each of {devices:,} devices; "
        f"TTFT {seconds(numbers.ttft_s)}, TPOT {seconds(numbers.tpot_s)}; {numbers.requests_per_s:,.2f} requests/s.",
        markup=False,
    )
    limits = "" if numbers.keeps_limits else " The limits are not kept."
    console.print(f"Bound by {numbers.bound_by}, there by {headed(numbers.bottleneck.replace('_', ' '))}.{limits}", markup=False)
    if document.prefill is not None:
        _print_pool(console, document.prefill, "prefill", "pass", "input")
    _print_pool(console, document.decode, "decode", "step", "output")


def _print_pool(console: Console, pool: PoolDocument, name: str, unit: str, kind: str) -> None:
    capacity = "no bound" if pool.kv_capacity_tokens is None else f"{count(pool.kv_capacity_tokens)} tokens"
    told = [f"{name.capitalize()}: {pool.instances:,} x {_text(pool.layout)}, {percent(pool.use_fraction)} used"]
    if pool.in_flight is not None:
        told.append(f"{pool.in_flight:,.0f} requests in flight each")
    if pool.requests_per_pass is not None:
        told.append(f"{pool.requests_per_pass:,.0f} prompts a pass")
    told.append(f"{count(pool.tokens_per_s)} {kind} tokens/s, {pool.tokens_per_s_per_device:,.1f} a device")
    console.print()
    console.print(f"{'; '.join(told)}.", markup=False)
    memory = pool.memory
    console.print(
        f"Memory of a device: weights {gibibytes(memory.weights_bytes)}, cache {gibibytes(memory.cache_bytes)} of "
        f"{gibibytes(memory.limit_bytes)}; an instance keeps {capacity}, {pool.requests_held:,} requests of mean length.",
        markup=False,
    )
    table = plain_table(f"part of a {unit}", ">time", ">share")
    ordered = sorted(pool.parts_s.items(), key=lambda part: -part[1])
    for (part, time_s), text in zip(ordered, column_seconds(time_s for _, time_s in ordered), strict=True):
        table.add_row(part.replace("_", " "), text, percent(time_s / pool.time_s))
    table.add_row(unit, seconds(pool.time_s), "", style="bold")
    console.print(table)


def _text(layout: LayoutDocument) -> str:
    parts = [f"TP{layout.tp}"]
    parts += [f"{name}{size}" for name, size in (("PP", layout.pp), ("DP", layout.dp), ("EP", layout.ep)) if size > 1]
    return " ".join(parts)
