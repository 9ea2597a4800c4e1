"""A search's answer as one self-contained page: HTML with pictures inside, or Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import jinja2
import yaml

from app.answers.recommended import recommended_plan
from app.answers.schemas import EstimateNumbers, Plan, SearchDocument
from app.answers.strategies import StrategyDocument
from app.answers.tables.estimate import days_text, train_days
from app.answers.tables.memory import chance
from app.answers.tables.summary import delivered_text
from app.language.choice import Language, said
from app.reports import pictures
from documents.markdown import fence, neutral
from documents.quantities import GIB, count, gibibytes, percent, seconds
from documents.sentences import Sentence, word
from hardware_profiles.catalogue import shown_name
from search.ranking.ties import ties

Form = Literal["html", "pdf-ready", "markdown"]
FOLDER = Path(__file__).parent
SHOWN_PLANS = 10
SHOWN_REJECTIONS = 15
TEMPLATES = {"html": "report.html.j2", "pdf-ready": "report.html.j2", "markdown": "report.md.j2"}


@cache
def vocabulary() -> dict[str, dict[str, dict[str, str]]]:
    loaded: dict[str, dict[str, dict[str, str]]] = yaml.safe_load((FOLDER / "words.yaml").read_text(encoding="utf-8"))
    return loaded


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=jinja2.select_autoescape(("html.j2",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_told,
    )


@jinja2.pass_context
def _told(context: jinja2.runtime.Context, value: object) -> object:
    """A sentence in the language of the page."""
    return said(value, context["spoken"]) if isinstance(value, str) else value


def report(document: SearchDocument, form: Form, language: Language, on: date, name: str = "") -> str:
    """The page, in ``form``; ``pdf-ready`` is HTML laid out for paper, which every browser prints to PDF.

    ``name`` of the study is the title, if it has one.
    """
    words = {key: texts[language] for key, texts in vocabulary()["words"].items()}
    parts = {key: texts[language] for key, texts in vocabulary()["parts"].items()} | {"other": words["other"]}
    page = _environment().get_template(TEMPLATES[form])
    job_line = words["title"].format(**_title(document))
    return page.render(
        {
            "spoken": language,
            "language": {"en": "en", "zh": "zh-CN"}[language],
            "on_paper": form == "pdf-ready",
            "words": words,
            "say": lambda key, **values: words[key].format(**values),
            "part": lambda name: parts.get(name, word(name)),
            "title": name or job_line,
            "job_line": job_line if name else "",
            "heading": _heading(document, on),
            "headline": list(_headline(document, words, language)),
            "plans": [_row(plan) for plan in document.plans[:SHOWN_PLANS]],
            "has_groups": len({plan.rank_group for plan in document.plans}) < len(document.plans),
            "time": _time_picture(document, words),
            "memory": _memory_picture(document),
            "front": _front_picture(document),
            "breakdown": _breakdown(document),
            "document": document,
            "chosen": recommended_plan(document) if document.plans else None,
            "rejections": _rejections(document, words),
            "launches": _launches(document),
            "seconds": seconds,
            "gibibytes": gibibytes,
            "markdown": lambda text: neutral(said(text, language)),
            "fence": fence,
        }
    )


def _title(document: SearchDocument) -> dict[str, Any]:
    cluster = document.job["cluster"]
    return {
        "model": document.job["model"]["name"],
        "devices": f"{cluster['num_devices']:,}",
        "hardware": shown_name(cluster["hardware"]),
    }


def _heading(document: SearchDocument, on: date) -> dict[str, Any]:
    training = document.job["training"]
    return {
        "sequence": f"{training['seq_length']:,}",
        "batch": f"{training['global_batch_size']:,}",
        "precision": training["precision"],
        "target": document.job["software"]["target"],
        "version": document.version,
        "date": on.isoformat(),
    }


def _headline(document: SearchDocument, words: Mapping[str, str], language: Language) -> Iterator[str]:
    """Sentences with the main results."""
    if not document.plans:
        yield words["no_plan"]
        if document.nearest:
            yield document.nearest
        return
    plan = recommended_plan(document)
    yield from _conclusion(document, plan, words)
    estimate = plan.estimate
    yield words["memory_of"].format(
        peak=gibibytes(estimate.peak_memory_bytes),
        limit=gibibytes(estimate.memory_limit_bytes),
        fit_limit=gibibytes(estimate.fit_limit_bytes),
        sure=chance(estimate.fits_probability),
    )
    duration = train_days(estimate, document.job)
    if duration is not None:
        yield words["days"].format(days=said(days_text(duration, estimate, document.job), language))
    if plan.delivery is not None:
        yield words["delivered"].format(rate=said(delivered_text(plan.delivery, estimate), language))
    evidence = estimate.evidence
    if evidence.num_runs:
        yield words["evidence"].format(count=evidence.num_runs, devices=f"{evidence.max_devices:,}")
    yield from _against(document, plan, words)
    if document.recommended is not None:
        yield words["recommended"].format(rank=plan.rank, why=said(document.recommended.why, language))
    yield _proof(document, words, language)


def _conclusion(document: SearchDocument, plan: Plan, words: Mapping[str, str]) -> Iterator[str]:
    """What to use. A plan that no release takes is not used: the nearest that one takes is."""
    if plan.launchable_on:
        yield _use(plan.strategy, plan.estimate, words, "best")
        return
    nearest = [each for each in document.nearest_launchable if each.strategy is not None and each.estimate is not None]
    if not nearest:
        yield words["unlaunchable"]
    for each in nearest:
        assert each.strategy is not None
        assert each.estimate is not None
        yield f"{each.target}: {_use(each.strategy, each.estimate, words, 'best')}"
    yield _use(plan.strategy, plan.estimate, words, "physics")


def _use(strategy: StrategyDocument, estimate: EstimateNumbers, words: Mapping[str, str], key: str) -> str:
    low, high = estimate.step_time_low_s, estimate.step_time_high_s
    numbers = {
        "strategy": strategy.name,
        "step": seconds(estimate.step_time_s),
        "tokens": count(estimate.tokens_per_s),
        "mfu": "-" if estimate.mfu_fraction is None else percent(estimate.mfu_fraction),
    }
    if low is None or high is None:
        return words[f"{key}_no_interval"].format(**numbers)
    return words[key].format(**numbers, low=seconds(low), high=seconds(high))


def _against(document: SearchDocument, plan: Plan, words: Mapping[str, str]) -> Iterator[str]:
    own = document.baseline
    if own is None or not isinstance(own.estimate, EstimateNumbers) or own.speedup_fraction is None:
        return
    recipe = own.publication
    beaten = words[f"beaten_{own.source}"].format(vendor="" if recipe is None else recipe.vendor)
    rows = {"strategy": own.strategy.name, "step": seconds(own.estimate.step_time_s), "beaten": beaten}
    if own.error_fraction is not None and ties(own.estimate.step_time_s, plan.estimate.step_time_s, own.error_fraction):
        yield words["tied"].format(**rows)
    else:
        yield words["faster"].format(**rows, factor=f"{1 + own.speedup_fraction:.2f}")
        if own.error_fraction is not None:
            yield words["paired"].format(error=percent(own.error_fraction))
    if recipe is not None:
        yield words["recipe"].format(
            title=recipe.title,
            devices=count(recipe.num_devices),
            length=count(recipe.seq_length),
            batch=count(recipe.global_batch_size),
            date=recipe.date,
            source=recipe.source,
        )


def _proof(document: SearchDocument, words: Mapping[str, str], language: Language) -> str:
    proof = document.proof
    if proof.stopped_by:
        return words["cut"].format(by=said(word(proof.stopped_by), language))
    if not proof.proved_best:
        return words["unproved"]
    rank = next((plan.rank for plan in document.plans if plan.plan_id == proof.plan_id), 1)
    return words["proved"].format(rank=rank, scope=said(proof.scope, language))


def _row(plan: Plan) -> dict[str, str]:
    estimate = plan.estimate
    low, high = estimate.step_time_low_s, estimate.step_time_high_s
    return {
        "rank": str(plan.rank),
        "group": str(plan.rank_group),
        "strategy": plan.strategy.name,
        "step": seconds(estimate.step_time_s),
        "interval": "" if low is None or high is None else Sentence("{} - {}", seconds(low), seconds(high)),
        "rate": count(estimate.tokens_per_s),
        "mfu": "" if estimate.mfu_fraction is None else percent(estimate.mfu_fraction),
        "memory": gibibytes(estimate.peak_memory_bytes),
        "sure": chance(estimate.fits_probability),
        "launch_on": ", ".join(plan.launchable_on),
    }


def _time_picture(document: SearchDocument, words: Mapping[str, str]) -> pictures.Bars:
    rows = [(f"#{plan.rank}", plan.estimate.time_breakdown_s) for plan in document.plans[:SHOWN_PLANS]]
    own = document.baseline
    if own is not None and isinstance(own.estimate, EstimateNumbers):
        rows.append((words["yours"], own.estimate.time_breakdown_s))
    return pictures.bars(rows)


def _memory_picture(document: SearchDocument) -> pictures.Bars:
    rows = [(f"#{plan.rank}", plan.estimate.memory_breakdown_bytes) for plan in document.plans[:SHOWN_PLANS]]
    limit = document.plans[0].estimate.fit_limit_bytes if document.plans else None
    return pictures.bars(rows, limit=limit)


def _front_picture(document: SearchDocument) -> pictures.Points | None:
    if not document.plans:
        return None
    rows = [(f"#{plan.rank}", plan.estimate.peak_memory_bytes / GIB, plan.estimate.step_time_s) for plan in document.plans]
    return pictures.points(rows, 700.0, 260.0, document.plans[0].estimate.fit_limit_bytes / GIB)


def _breakdown(document: SearchDocument) -> list[tuple[str, str, str]]:
    if not document.plans:
        return []
    estimate = recommended_plan(document).estimate
    parts = sorted(estimate.time_breakdown_s.items(), key=lambda item: -item[1])
    return [(name, seconds(value), percent(value / estimate.step_time_s)) for name, value in parts if value > 0.0]


def _rejections(document: SearchDocument, words: Mapping[str, str]) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = [
        (word(each.rule), f"{each.count:,}", each.example or "") for each in document.rejections[:SHOWN_REJECTIONS]
    ]
    too_large = document.counts.estimated - document.counts.fits_memory
    return [(words["too_large"], f"{too_large:,}", words["too_large_example"]), *rows] if too_large else rows


def _launches(document: SearchDocument) -> list[tuple[str, str]]:
    """Launch commands of the plan to run, for each framework that takes it."""
    if not document.plans:
        return []
    return [
        (each.target, _command(each.environment, each.arguments))
        for each in recommended_plan(document).launch.values()
        if each is not None and each.launchable and each.arguments is not None
    ]


def _command(environment: Mapping[str, str], arguments: Sequence[str]) -> str:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    words = [shlex.quote(word) for word in arguments]
    starts = [index for index, word in enumerate(words) if index == 0 or word.startswith("-")]
    flags = [" ".join(words[start:end]) for start, end in pairwise([*starts, len(words)])]
    return "\n".join([*lines, " \\\n  ".join(flags)])
