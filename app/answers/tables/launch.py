"""What starts the plan to run: its launch files, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.answers.schemas import LaunchDocument, Plan, SearchDocument
from app.answers.tables.memory import chance
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from documents.quantities import gibibytes, seconds
from documents.sentences import Sentence, joined

NONE_SAVED: Mapping[str, LaunchDocument] = MappingProxyType({})
UNWRITTEN = ("qlora", "dpo")  # tasks that other programs start [llama-factory; ms-swift]


def launch_text(plan: Plan, saved: Mapping[str, LaunchDocument], document: SearchDocument) -> str:
    """Where the files that launch the plan are, or how to get them; the target first, if it has none.

    ``saved`` are those that are written, by path.
    """
    target, task = document.job["software"]["target"], document.job["training"].get("task")
    files: str = Sentence("launch file {}", joined(", ", map(_saved_text, saved, saved.values())))
    launch = plan.launch.get(target.partition("@")[0])
    if launch is not None and launch.arguments is None:
        none = Sentence("no file for {} (--details says why)", target)
        return Sentence("{}; {}", none, files) if saved else none
    if saved:
        return files
    if not plan.launchable_on and task in UNWRITTEN:
        s = plan.strategy
        if s.tp * s.pp * s.cp > 1:
            return Sentence("no file is written for {}; --tp 1 --pp 1 --cp 1 plans for LLaMA-Factory and ms-swift", task)
        if lacking := [name for name in s.features if Feature[name.upper()] not in DEFAULT_FEATURES]:
            names = joined(",", lacking)
            return Sentence("no file is written for {}; --forbid {} plans for LLaMA-Factory and ms-swift", task, names)
        return Sentence("no file is written for {}; LLaMA-Factory and ms-swift start it with these degrees", task)
    if not plan.launchable_on:
        if document.no_target_fits:
            return Sentence("no public release can run plan {}; the warning says why", plan.rank)
        return Sentence("no public release can run plan {}; --target NAME plans for one", plan.rank)
    return Sentence("--save-dir DIR writes launch files")


def _saved_text(path: str, launch: LaunchDocument) -> str:
    if launch.step_time_s is None or launch.peak_memory_bytes is None:
        return path
    step, peak = seconds(launch.step_time_s), gibibytes(launch.peak_memory_bytes)
    return Sentence("{} (its own price: {}, peak {}, fits with {})", path, step, peak, chance(launch.fits_probability))
