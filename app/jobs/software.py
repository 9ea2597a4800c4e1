"""The software of a job: stack, target, release and options, with the sentences about them."""

from __future__ import annotations

from typing import Any

from app.jobs.fields import SoftwareSection
from app.jobs.stack_name import GRAPH_STACKS
from cost_models.shapes.software_options import HOST, OPERATORS, OPTION_NAMES, SOFTWARE_OPTIONS, has_option, options_for
from cost_models.shapes.traits import STACKS, default_stack, family_traits, stacks_of
from cost_models.shapes.workload import Software, Workload
from documents.errors import InputError, unknown_name
from documents.sentences import Sentence, joined
from frameworks.registry import TARGETS, newer_release, parse_target, releases_of
from frameworks.target import ANY
from hardware_profiles.schema import HardwareProfile


def software_from_section(section: SoftwareSection, profile: HardwareProfile, assumed: dict[str, str]) -> Software:
    """The software of a job; records defaults in ``assumed``. Raises ``InputError``."""
    target = parse_target(ANY.name if section.target is None else section.target)
    if target.families and profile.family not in target.families:
        others = dict.fromkeys(known.name for known in TARGETS if not known.families or profile.family in known.families)
        raise InputError(
            Sentence(
                "software.target: {} runs on {} devices, and {} is of family {}; give {}.",
                target.name,
                joined(" and ", target.families),
                profile.name,
                profile.family,
                joined(", ", others, " or "),
            )
        )
    newer = newer_release(target.label)
    if section.target is not None and "@" not in section.target and newer is not None:
        assumed["software.target"] = Sentence("(the bare name means it; {} is newer)", newer)
    stack: str | None = section.stack
    if stack is None and target.priced_as in stacks_of(profile.family):
        stack = target.priced_as
        assumed["software.stack"] = Sentence("(the target)")
    elif stack is None:
        stack = default_stack(profile.family)
        assumed["software.stack"] = Sentence("(default on {} devices)", Sentence.whole(profile.family))
    execution = section.execution or ("graph" if stack in GRAPH_STACKS else "eager")
    plain = not STACKS[stack].traits.own_kernels
    compiled = _is_compiled("torch_compile", section.torch_compile, plain=plain, usual=target.torch_compile)
    compiles_loss = _is_compiled("compiled_loss", section.compiled_loss, plain=plain, usual=compiled)
    chunks = section.loss_chunks
    if chunks and not plain:
        raise InputError(Sentence("software.loss_chunks: the stack has a loss of its own; give it for stack fsdp."))
    year = _year(section, stack)
    if year is None and target.year is not None and target.priced_as == stack:
        year = target.year
        assumed["software.year"] = Sentence("(release of {})", target.label)
    return Software(
        stack=stack,
        execution=execution,
        year=year,
        fp32_parameters=section.fp32_parameters,
        loader_mask=section.loader_mask,
        legacy_layers=_has_legacy_layers(section, stack),
        fp32_residual=_fp32_residual(section, stack),
        portable_attention=_has_portable_attention(section, profile, plain=plain),
        plain_cross_entropy=plain and not compiles_loss,
        compiled_loss=compiles_loss,
        torch_compile=compiled,
        newest_layers=plain and target.newest_layers,
        loss_chunks=(target.loss_chunks if plain else 0) if chunks is None else chunks,
        target=target.label,
        time_factor=section.time_factor,
        **_options(section, profile.family, stack, execution),
    )


def _has_portable_attention(section: SoftwareSection, profile: HardwareProfile, *, plain: bool) -> bool:
    """Whether fused attention is FlashAttention-2, which plain PyTorch has where the vendor has no kernel of its own."""
    if section.portable_attention is not None:
        return section.portable_attention
    return plain and not family_traits(profile.family).own_fused_attention


def _has_legacy_layers(section: SoftwareSection, stack: str) -> bool:
    if section.legacy_layers and stack != "mindformers":
        raise InputError(Sentence("software.legacy_layers: these are layers of MindFormers; give it for stack mindformers."))
    return section.legacy_layers


def _fp32_residual(section: SoftwareSection, stack: str) -> str:
    """The form of the FP32 residual, if the stack's layers have it."""
    form = section.fp32_residual
    if form != "none" and stack != "mindformers":
        raise InputError(Sentence("software.fp32_residual: these are layers of MindFormers; give it for stack mindformers."))
    if form != "none" and section.legacy_layers == (form == "layer"):
        raise InputError(
            Sentence("software.fp32_residual: {} is not of these layers; legacy_layers have sums or stream, others layer.", form)
        )
    return form


def _is_compiled(name: str, given: bool | None, *, plain: bool, usual: bool) -> bool:
    """Whether ``torch.compile`` fuses kernels of plain PyTorch; other stacks have kernels of their own."""
    if given and not plain:
        raise InputError(Sentence("software.{}: the stack has fused kernels of its own; give it for stack fsdp.", name))
    return plain and (usual if given is None else given)


def _options(section: SoftwareSection, family: str, stack: str, execution: str) -> dict[str, Any]:
    """Operator packs and host options, without duplicates, in the order of their table."""
    allowed = {option.name for option in options_for(family_traits(family).library, eager=execution == "eager")}
    given = {OPERATORS: section.operators, HOST: section.host}
    for kind, names in given.items():
        for name in names or ():
            if name not in allowed:
                here = joined(", ", (known for known in OPTION_NAMES[kind] if known in allowed))
                what = (
                    Sentence("{} in a compiled graph", stack)
                    if kind == HOST and execution != "eager"
                    else Sentence("{} on {} devices", stack, family)
                )
                raise InputError(
                    Sentence(
                        "software.{}: {} is none of {}; {}.",
                        kind,
                        name,
                        what,
                        Sentence("it has {}", here) if here else Sentence("it has none"),
                    )
                )
    return {
        kind: None if names is None else tuple(name for name in OPTION_NAMES[kind] if name in names)
        for kind, names in given.items()
    }


def _year(section: SoftwareSection, stack: str) -> float | None:
    if section.release is None:
        return section.year
    if section.year is not None:
        raise InputError(Sentence("software: year and release are two names of one thing; give one of them."))
    ladder = STACKS[stack].traits.releases
    year = None if ladder is None else ladder.year_of(section.release)
    if year is None:
        known = () if ladder is None else ladder.names
        raise unknown_name("software.release", section.release, known, what=Sentence("release of {}", stack))
    return year


def option_sentences(software: Software) -> list[str]:
    """Sentences on the effect of each option that differs from the measured runs, with its source."""
    found = []
    for option in SOFTWARE_OPTIONS:
        has = has_option(option, software.operators, software.host)
        if has != option.in_runs:
            changes = joined(
                ", ", (Sentence("{} {} {:.3g}", change.constant, "x" if has else "/", change.factor) for change in option.changes)
            )
            without = "" if has else "without "
            found.append(
                f"software.{option.kind} {without}{option.name}: {changes} ({option.basis}, {option.source.strip('[]')})"
            )
    return found


def warn_of_software(workload: Workload, warnings: list[str]) -> None:
    """Add warnings about software settings without effect or with a contradiction."""
    software, profile = workload.software, workload.cluster.profile
    if software.portable_attention and workload.device_traits.own_fused_attention:
        warnings.append(
            Sentence("software.portable_attention has no effect: {} has a fused attention of its vendor's.", profile.name)
        )
    if workload.fuses_no_attention:
        warnings.append(
            Sentence(
                "In fp32 {} has no fused attention, and is priced without: all scores are written to memory, and kept for the "
                "backward unless core_attn is recomputed.{}",
                software.stack,
                Sentence(" Linear layers multiply in TF32, the head in FP32.") if workload.linear_precision == "tf32" else "",
            )
        )
    for framework in releases_of(software.stack)[:1]:
        warnings += framework.unpriced(workload)
    named = parse_target(software.target)
    target, own = named.name, named.priced_as
    if own not in (ANY.name, software.stack):
        warnings.append(
            Sentence(
                "software.stack is {} and software.target is {}: times are of the one, rules of the other; "
                "give stack {} unless both are meant.",
                software.stack,
                target,
                own,
            )
        )


def written_options(software: Software) -> dict[str, Any]:
    """Fields of a document that ``Software`` holds in another form: options as lists, and a loss that compilation may fuse."""
    plain = not STACKS[software.stack].traits.own_kernels
    return {
        OPERATORS: list(software.operators),
        HOST: None if software.host is None else list(software.host),
        "compiled_loss": software.compiled_loss if plain else None,
    }
