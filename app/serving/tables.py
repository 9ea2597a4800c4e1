"""A service for a person."""

from __future__ import annotations

from rich.console import Console

from app.answers.tables.estimate import print_doubts
from app.serving.schemas import LayoutDocument, PoolDocument, ServiceNumbers, ServingDocument, ServingSearchDocument
from app.text.terminal import plain_table
from documents.quantities import column_seconds, count, gibibytes, percent, seconds
from documents.sentences import Sentence, joined, word


def print_serving(console: Console, document: ServingDocument, *, details: bool = False) -> None:
    _print_service(console, document)
    print_doubts(console, document.assumptions, document.warnings, in_full=details)


def print_serving_search(console: Console, document: ServingSearchDocument, *, details: bool = False) -> None:
    console.print(
        Sentence(
            "{:,} layouts: {:,} too large, {:,} beyond the limits.", document.layouts, document.too_large, document.too_slow
        ),
        markup=False,
    )
    table = plain_table(">", "prefill", "decode", ">in flight", ">TTFT", ">TPOT", ">tokens/s", ">a device", "bound by")
    for plan in document.plans:
        before = Sentence("in decode") if plan.prefill is None else f"{plan.prefill_instances} x {_text(plan.prefill)}"
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
            Sentence("{}: {}", numbers.bound_by, word(numbers.bottleneck)),
        )
    console.print(table)
    if document.best is not None:
        console.print()
        _print_service(console, document.best)
    print_doubts(console, document.assumptions, document.warnings, in_full=details)


def _print_service(console: Console, document: ServingDocument) -> None:
    numbers: ServiceNumbers = document.service
    devices = document.job["cluster"]["num_devices"]
    console.print(
        Sentence(
            "{} output tokens/s, {:,.1f} for each of {:,} devices; TTFT {}, TPOT {}; {:,.2f} requests/s.",
            count(numbers.tokens_per_s),
            numbers.tokens_per_s_per_device,
            devices,
            seconds(numbers.ttft_s),
            seconds(numbers.tpot_s),
            numbers.requests_per_s,
        ),
        markup=False,
    )
    limits = "" if numbers.keeps_limits else Sentence(" The limits are not kept.")
    console.print(
        Sentence("Bound by {}, there by {}.{}", numbers.bound_by, word(numbers.bottleneck), limits),
        markup=False,
    )
    if document.prefill is not None:
        _print_pool(console, document.prefill, "prefill", "pass", "input")
    _print_pool(console, document.decode, "decode", "step", "output")


def _print_pool(console: Console, pool: PoolDocument, name: str, unit: str, kind: str) -> None:
    capacity = Sentence("no bound") if pool.kv_capacity_tokens is None else Sentence("{} tokens", count(pool.kv_capacity_tokens))
    told = [Sentence("{}: {:,} x {}, {} used", name.capitalize(), pool.instances, _text(pool.layout), percent(pool.use_fraction))]
    if pool.in_flight is not None:
        told.append(Sentence("{:,.0f} requests in flight each", pool.in_flight))
    if pool.requests_per_pass is not None:
        told.append(Sentence("{:,.0f} prompts a pass", pool.requests_per_pass))
    told.append(Sentence("{} {} tokens/s, {:,.1f} a device", count(pool.tokens_per_s), kind, pool.tokens_per_s_per_device))
    console.print()
    console.print(Sentence("{}.", joined("; ", told)), markup=False)
    memory = pool.memory
    console.print(
        Sentence(
            "Memory of a device: weights {}, cache {} of {}; an instance keeps {}, {:,} requests of mean length.",
            gibibytes(memory.weights_bytes),
            gibibytes(memory.cache_bytes),
            gibibytes(memory.limit_bytes),
            capacity,
            pool.requests_held,
        ),
        markup=False,
    )
    table = plain_table(Sentence("part of a {}", unit), ">time", ">share")
    ordered = sorted(pool.parts_s.items(), key=lambda part: -part[1])
    for (part, time_s), text in zip(ordered, column_seconds(time_s for _, time_s in ordered), strict=True):
        table.add_row(word(part), text, percent(time_s / pool.time_s))
    table.add_row(unit, seconds(pool.time_s), "", style="bold")
    console.print(table)


def _text(layout: LayoutDocument) -> str:
    parts = [f"TP{layout.tp}"]
    parts += [f"{name}{size}" for name, size in (("PP", layout.pp), ("DP", layout.dp), ("EP", layout.ep)) if size > 1]
    return " ".join(parts)
