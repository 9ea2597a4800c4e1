"""From a launch script to a job: its release, model, strategy and number of devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from app.catalogue.models.shape import model_to_mapping
from app.jobs.job import Job, parse_job
from app.jobs.optimizer import optimizer_fields
from app.jobs.strategy import strategy_from_section
from app.jobs.task import task_fields
from app.launch_scripts.entries import HYBRID, READ
from app.launch_scripts.forms import CONFIGURATION, FSDP2_FILE, FSDP2_SCRIPT, PYTHON, form_of
from app.launch_scripts.fsdp2_launch import Fsdp2Launch
from app.launch_scripts.ignored import refuse_unless_ignored
from app.launch_scripts.launch import Given, Launch, Passed
from app.launch_scripts.named_models import named_shape
from app.launch_scripts.python_launch import PythonLaunch
from app.launch_scripts.shell_launch import ShellLaunch
from app.launch_scripts.toml_launch import TomlLaunch
from app.launch_scripts.vocabulary import with_vocabulary
from app.launch_scripts.yaml_launch import YamlLaunch
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import DEFAULT_FEATURES, LEFT_OUT, SWITCHES, UNPRICED_FEATURES, Feature
from cost_models.shapes.traits import stacks_of
from cost_models.shapes.workload import Workload, WorkloadError
from documents.bounds import DOCUMENT_BYTES, MAX_DEVICES
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.framework import ROWS_UNSAID, DevicesError, EnvironmentFaults, Framework, ReadingError, ReadJob
from frameworks.megatron_lm import hybrid
from frameworks.registry import FRAMEWORKS, parse_target
from frameworks.release import Release, accepts
from frameworks.rule import layout_of
from frameworks.target import ANY
from frameworks.unread import unread
from hardware_profiles.schema import HardwareProfile
from search.plans.plan import strategy_to_mapping

WRITTEN_FOR = re.compile(r"^# launch: (\S+) ", re.MULTILINE)  # a comment of our own launch files
MAX_TRIED = 2  # most switches to try: each doubles the space
WHOLE_LAYERS = ["none", "block:25%", "block:50%", "block:75%", "full"]  # recompute that names no module
_FORMS: Mapping[str, Callable[[str, Given, Release], Launch]] = {
    "toml": TomlLaunch,
    "yaml": YamlLaunch,
    "sh": ShellLaunch,
    FSDP2_FILE: YamlLaunch,
    FSDP2_SCRIPT: Fsdp2Launch,
    CONFIGURATION: PythonLaunch,
}
Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ReadScript:
    """A script, the release that it was read for, and its job; the price leaves out the ``ignored`` arguments.

    ``said`` is the strategy with recompute that has no effect, which the job's leaves out: rules are checked against it.
    """

    launch: Launch
    framework: Framework
    job: Job
    said: ParallelStrategy
    not_understood: tuple[Passed, ...]
    ignored: tuple[Passed, ...] = ()


def read_launch(text: str, given: Given, family: str, target: str | None) -> tuple[Launch, Framework]:
    """Read the script for ``target``, or for the release that knows most of its arguments; releases for ``family`` come first.

    Of releases that know as many, a file of ours is for the one that it names, and another for the one that understands most, and
    of these for one that starts it.
    """
    if len(text.encode()) > DOCUMENT_BYTES:
        raise InputError(Sentence("{}: larger than {} KiB; a launch script never is.", given.name, DOCUMENT_BYTES // 1024))
    form = form_of(text)
    if form == PYTHON:
        raise InputError(Sentence("{}: Python is not read; give the job that the file was written from.", given.name))
    kind = _FORMS[form]
    of_form = candidates = [framework for framework in FRAMEWORKS if form in (framework.forms or (framework.suffix,))]
    if target is not None:
        wanted = parse_target(target)
        any_release = "@" not in target
        candidates = [f for f in candidates if f.target == wanted or (any_release and f.name == wanted.name)]
        if not candidates:
            others = joined(" or ", (framework.target.label for framework in of_form))
            raise InputError(Sentence("target: {} does not start from such a file; give {}.", wanted.label, others))
    here = [framework for framework in candidates if family in framework.target.families] or candidates
    read = [(kind(text, given, framework.release), framework) for framework in here]
    entry = read[0][0].entry
    shipped = READ.get(entry, ())
    if shipped and not any(framework.name in shipped for framework in here):
        names = joined(" or ", shipped)
        raise InputError(Sentence("{}: {} is a program of {}, which does not run on the hardware.", given.name, entry, names))
    named = WRITTEN_FOR.search(text)

    def distance(pair: tuple[Launch, Framework]) -> tuple[int, bool, int, bool, int]:
        (launch, framework), label = pair, named and named[1]
        said, release = launch.said(), framework.release
        strange, accepted_count = _strangeness(said, release)
        starts = not framework.refused_at_start(said)
        return strange, framework.target.label != label, len(unread(release, said)), not starts, -accepted_count

    return min(read, key=distance)


def _strangeness(said: Mapping[str, tuple[str, ...]], release: Release) -> tuple[int, int]:
    """Arguments and values that a release does not have, and the arguments that it has."""
    strange = accepted_count = 0
    for name, values in said.items():
        argument = release.arguments.get(name)
        accepted_count += argument is not None
        known = accepts(argument, values) if argument is not None else name[:1] == " " or release.knows(name)
        strange += not known
    return strange, accepted_count


def read_script_job(
    text: str,
    given: Given,
    profile: HardwareProfile,
    hardware: str,
    *,
    devices: int | None = None,
    target: str | None = None,
    sections: Sections | None = None,
    folder: Path | None = None,
    vocab_size: int | None = None,
    assume: Mapping[str, str] | None = None,
) -> ReadScript:
    """The job of a script on the given hardware. Raises ``InputError``.

    ``sections``: parts of a job that come from flags, in place of the script's; ``folder`` contains the files that they name.
    ``vocab_size``: rows of the embedding, if the script takes them from the tokenizer. ``assume``: arguments to ignore although
    the price depends on them, by name; the value is always "ignored".
    """
    launch, framework = read_launch(text, given, profile.family, target)
    _refuse_unread_layers(launch, framework, given)
    if refused := framework.refused_at_start(launch.said()):
        reasons = joined("; ", (reason.rstrip(".") for reason in refused))
        raise InputError(Sentence("{}: this script does not start: {} ({}).", given.name, reasons, framework.target.label))
    runs_here = profile.family in framework.target.families
    faults = framework.environment_faults(launch.said(), launch.environment, profile) if runs_here else EnvironmentFaults()
    if faults.refused:
        raise InputError(
            Sentence("{}: this script does not start: {} ({}).", given.name, joined("; ", faults.refused), framework.target.label)
        )
    not_understood = list(launch.not_understood)
    started = launch.num_devices
    if devices is not None and started not in (None, devices):
        not_understood.append(
            Passed(None, "", Sentence("the launcher starts {} devices, and {} were asked for", started, devices))
        )
    num_devices = started if devices is None else _allowed(devices)
    read = _read_job(framework, launch, given, num_devices, folder, is_stated=devices is not None)
    ignored = _ignored(framework, read, launch, given, assume or {})
    strategy = read.strategy
    if num_devices is None and framework.suffix != "sh":
        num_devices = strategy.tp * strategy.pp * strategy.cp * strategy.dp
    if num_devices is None:
        raise InputError(Sentence("devices: the script's launcher does not say how many processes it starts; give --devices."))
    num_devices = _allowed(num_devices)
    if vocab_size is not None:
        read = replace(read, not_understood=tuple(note for note in read.not_understood if note != ROWS_UNSAID))
    not_understood += _sentences(read, launch, not_understood)
    named = replace(read.model, name=read.model.name or PurePath(given.name).stem[:100] or "script")
    model, rows = with_vocabulary(replace(read, model=named), given.name, vocab_size)
    document = _document(framework, replace(read, model=model), hardware, num_devices, profile)
    document["search"] = _switches_to_try(strategy.features)
    if read.legacy_layers:
        document["search"] |= _of_legacy_layers(strategy)
    stated = dict(sections or {})
    changes = stated.pop("strategy", {})
    for section, values in stated.items():
        document[section] = {**document.get(section, {}), **values}
    try:
        workload = parse_job(document, folder=folder).workload
        own = canonical(workload, _with_other_layers(workload, strategy))
        document["strategy"] = _with_changes(strategy_to_mapping(workload, own), changes)
    except (WorkloadError, ReadingError) as error:
        raise InputError(Sentence("{}: {}.", given.name, error)) from None
    job = parse_job(document, folder=folder)
    assert job.section is not None
    if read.padded and job.workload.training.mean_squared_length_fraction < 1.0:
        raise InputError(
            Sentence("--lengths: {} of {} pads samples to the sequence and packs none; leave it out.", read.padded, given.name)
        )
    stack = job.workload.software.stack
    foreign = Sentence(
        "{} runs on no {} device: the layout is priced as stack {} runs it.", framework.name, profile.family, stack
    )
    return ReadScript(
        launch,
        framework,
        replace(
            job,
            assumptions=(*rows, *job.assumptions),
            warnings=(*read.warnings, *faults.doubts, *(() if runs_here else (foreign,)), *job.warnings),
            uneven=read.uneven,
        ),
        strategy_from_section(job.section, job.workload),
        tuple(not_understood),
        ignored,
    )


def _refuse_unread_layers(launch: Launch, framework: Framework, given: Given) -> None:
    """Refuse symbols of layers beside a program that builds the usual layers all the same."""
    if launch.entry not in READ or launch.entry in HYBRID:
        return
    for name in (hybrid.PATTERN, hybrid.FORMER):
        if name in framework.release.arguments and (line := launch.line_of(name)) is not None:
            raise InputError(
                Sentence(
                    "{}: line {}: {}: {} builds layers of attention and MLP all the same; start {}.",
                    given.name,
                    line,
                    name,
                    launch.entry,
                    hybrid.ENTRY_POINT,
                )
            )


def _with_other_layers(workload: Workload, s: ParallelStrategy) -> ParallelStrategy:
    """The strategy with recompute by rank, where modules of the other layers stand beside block recompute.

    MindSpeed's switches for norms and activation functions act on the layers that block recompute leaves [mindspeed-llm,
    mlp.py]. DualPipeV is left as it is: no plan by rank is legal there.
    """
    is_joint = s.recompute is Recompute.FULL and s.recompute_method is RecomputeMethod.BLOCK and s.recompute_modules
    if not is_joint or s.recompute_layers_per_stage is not None or s.schedule.rules.is_vee:
        return s
    layout = layout_of(workload, s)
    layers = tuple(sum(min(s.recompute_num_layers, chunk[rank]) for chunk in layout) for rank in range(s.pp))
    return replace(s, recompute_layers_per_stage=layers)


def _ignored(framework: Framework, read: ReadJob, launch: Launch, given: Given, assume: Mapping[str, str]) -> tuple[Passed, ...]:
    """The arguments that are not understood and that the user ignores. Raises ``InputError`` if there are others."""
    found = {entry.name: entry.change for entry in read.unread}
    refuse_unless_ignored(given.name, {name: _where(launch, name, change, framework) for name, change in found.items()}, assume)
    return tuple(Passed(launch.line_of(name), name, change) for name, change in found.items())


def _where(launch: Launch, name: str, change: str, framework: Framework) -> str:
    """An argument with its line, what it changes, and another framework that has it if its own has not."""
    line = launch.line_of(name)
    lead = Sentence("{}: ", show(name)) if line is None else Sentence("line {}: {}: ", line, show(name))
    others = [f.target.label for f in FRAMEWORKS if f.suffix == framework.suffix and name in f.release.arguments]
    known = name in framework.release.arguments or not others
    return lead + change + ("" if known else Sentence(" ({} has it)", others[0]))


def _switches_to_try(features: Feature) -> dict[str, Any]:
    """Switches to try on and off: those that the script sets and that are neither default nor change the results."""
    numeric = Feature.GRAD_REDUCE_IN_BF16
    own = features & ~(DEFAULT_FEATURES | UNPRICED_FEATURES | numeric)
    tried = [feature for feature in own if SWITCHES[feature].in_search in LEFT_OUT][:MAX_TRIED]
    return {**{str(f.name).lower(): [True, False] for f in tried}, str(numeric.name).lower(): numeric in features}


def _of_legacy_layers(strategy: ParallelStrategy) -> dict[str, Any]:
    """Limits to what all older layers share: their modules have other names, and not all split sequences or swap."""
    swaps = Feature.SWAP_ATTENTION in strategy.features
    return {"recompute": WHOLE_LAYERS, "cp": strategy.cp, **({} if swaps else {"forbid": ["swap_attention"]})}


def _with_changes(strategy: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The strategy with changes by flags; dependent fields are derived again."""
    if not changes:
        return dict(strategy)
    placed = ("layer_layout", "noop_layers", "mtp_before_head", "tensor_plan")
    derived = ("dp", "num_microbatches", *placed, "schedule", "microbatch_group_size_per_vp_stage")
    kept = {name: value for name, value in strategy.items() if name not in derived}
    return {**kept, **changes}


def _allowed(num_devices: int) -> int:
    if not 1 <= num_devices <= MAX_DEVICES:
        raise InputError(Sentence("devices: {} is not allowed; give 1 to {:,}.", num_devices, MAX_DEVICES))
    return num_devices


def _whose_number(is_stated: bool) -> str:
    """Where the number of devices comes from that arguments contradict, as the end of a sentence."""
    if is_stated:
        return Sentence("; their number is that of --devices")
    return Sentence("; the launcher starts that many, and --devices states another number")


def _read_job(
    framework: Framework, launch: Launch, given: Given, num_devices: int | None, folder: Path | None, *, is_stated: bool
) -> ReadJob:
    try:
        if framework.named is None:
            return framework.read_job(launch.arguments, num_devices)
        named = framework.named.model(launch.arguments)
        return framework.named.read_job(launch.arguments, num_devices, named_shape(named, given, folder))
    except ReadingError as error:
        hint = _whose_number(is_stated) if isinstance(error, DevicesError) else ""
        if "is not given" in str(error) and (unset := [each for each in launch.not_understood if "--set" in each.reason]):
            hint = Sentence("; line {}: {}: {}", unset[0].line, unset[0].text, unset[0].reason)
        raise InputError(Sentence("{}: {}{}.", given.name, str(error).rstrip("."), hint)) from None


def _sentences(read: ReadJob, launch: Launch, found: list[Passed]) -> list[Passed]:
    """Sentences of the argument reader, each with the line of the argument that it names first."""
    known = {(passed.line, passed.text.split(" ")[0].lstrip("-").rstrip(":")) for passed in found}
    sentences = []
    for sentence in read.not_understood:
        names = [word.strip("-:.,'\"") for word in sentence.split()[:4]]
        name = next((name for name in names if launch.line_of(name) is not None), None)
        line = None if name is None else launch.line_of(name)
        if (line, name) not in known:
            sentences.append(Passed(line, name or "", sentence.rstrip(".")))
    return sentences


def _document(framework: Framework, read: ReadJob, hardware: str, num_devices: int, profile: HardwareProfile) -> dict[str, Any]:
    software: dict[str, Any] = {"target": framework.target.label if profile.family in framework.target.families else ANY.name}
    if framework.target.priced_as in stacks_of(profile.family):
        software["stack"] = framework.target.priced_as
        if read.torch_compile is not None:
            software["torch_compile"] = read.torch_compile
        if read.compiled_loss is not None:
            software["compiled_loss"] = read.compiled_loss
        if read.loss_chunks is not None:
            software["loss_chunks"] = read.loss_chunks
    if read.loader_mask:
        software["loader_mask"] = True
    if read.legacy_layers:
        software["legacy_layers"] = True
    if read.fp32_residual != "none":
        software["fp32_residual"] = read.fp32_residual
    return {
        "model": model_to_mapping(read.model),
        "cluster": {"hardware": hardware, "num_devices": num_devices},
        "training": {
            "seq_length": read.seq_length,
            "global_batch_size": read.global_batch_size,
            "precision": read.precision,
            **({} if read.fp8_recipe is None else {"fp8_recipe": read.fp8_recipe}),
            **({} if read.fp8_param_gather is None else {"fp8_param_gather": read.fp8_param_gather}),
            **({} if read.router_balance is None else {"router_balance": read.router_balance}),
            **task_fields(read.task),
            **optimizer_fields(read.optimizer),
        },
        "software": software,
    }
