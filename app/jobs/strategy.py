"""A job's ``strategy`` mapping as a ``ParallelStrategy``: defaults filled in, arithmetic checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from operator import or_

from app.jobs.fields import (
    CP_ALGOS,
    DISPATCHERS,
    GRANULARITIES,
    RECOMPUTE_METHODS,
    RecomputeSection,
    StrategySection,
)
from app.jobs.tensor_plan import check_shares, tensor_plan_of
from cost_models.layer.idle_modules import idle_modules
from cost_models.shapes.canonical import canonical, canonical_group_size, schedules_of
from cost_models.shapes.effective_switches import scope_of, usual_features, why_idle
from cost_models.shapes.layout import default_layout, has_default_layout, stage_table
from cost_models.shapes.recompute_modules import MODULE_NAMES, RecomputeModule, names_of, present_modules
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, RecomputeMethod, Schedule
from cost_models.shapes.switches import UNPRICED_FEATURES, Feature, acting_in
from cost_models.shapes.workload import ModelShape, Workload
from documents.bounds import MAX_DEGREE
from documents.errors import InfeasibleStrategyError, InputError, show
from documents.sentences import Sentence, joined
from frameworks.accepted_switches import on_anyway, with_usual
from frameworks.legality import cautions, violations
from frameworks.mindformers.cells import by_rank
from frameworks.physics.degrees import refuses_ring
from frameworks.registry import framework_of, usual_cp_algo
from frameworks.rule import either
from search.errors import SearchError
from search.space.limits import DEGREES, SCHEDULES, SWITCHES
from search.space.recompute_modes import recompute_mode

_default_layout = lru_cache(maxsize=512)(default_layout)  # parts of strategies repeat in a list of them


def strategy_from_section(section: StrategySection, workload: Workload) -> ParallelStrategy:
    """The strategy of ``section`` for this model, batch and cluster, without idle switches. Raises ``InputError``."""
    dp = _data_parallel(section, workload)
    if section.pp * section.vpp > MAX_DEGREE:  # a rule would refuse it too, but only after the layers of every stage were listed
        raise InfeasibleStrategyError(
            Sentence(
                "strategy: pp {} x vpp {} = {} virtual stages are more than {:,}, and {} has {} layers.",
                section.pp,
                section.vpp,
                section.pp * section.vpp,
                MAX_DEGREE,
                workload.model.name,
                workload.model.num_layers,
            )
        )
    cp_algo, ulysses_degree = _context_parallel(section, workload)
    schedule = _schedule(section)
    recompute = _recompute_section(section)
    strategy = ParallelStrategy(
        **{name: getattr(section, name) for name in DEGREES},
        dp=dp,
        sequence_parallel=section.tp > 1 if section.sequence_parallel is None else section.sequence_parallel,
        cp_algo=cp_algo,
        ulysses_degree=ulysses_degree,
        schedule=schedule,
        microbatch_group_size_per_vp_stage=_group_size(section, schedule),
        mtp_before_head=_mtp_before_head(section, workload.model),
        zero_stage=_zero_stage(section, workload),
        optimizer_shard_size=section.optimizer_shard_size,
        dispatcher=_dispatcher(section, workload),
        recompute=GRANULARITIES[recompute.granularity],
        recompute_method=_recompute_method(recompute),
        recompute_num_layers=_recompute_num_layers(recompute),
        recompute_modules=_recompute_modules(recompute),
        features=usual_features(workload) if section.features is None else _features(tuple(section.features)),
        recompute_layers_per_stage=_layers_per_stage(recompute, section.pp),
        layer_layout=_layout(section, workload.model, schedule),
        tensor_plan=None if section.tensor_plan is None else tensor_plan_of(section.tensor_plan, section, workload.model),
    )
    if section.features is None:
        # Avoids `replace`, which takes half of the time of reading a list of strategies.
        strategy = ParallelStrategy(**{**vars(strategy), "features": _acting(workload, strategy, strategy.features)})
        strategy = with_usual(workload, strategy)
    if section.switches.model_fields_set:
        strategy = replace(strategy, features=_switched(strategy.features, dict(section.switches)))
    if idle := strategy.features & ~_acting(workload, strategy, strategy.features):
        strategy = replace(strategy, features=strategy.features & ~idle)
    if strategy.layer_layout is not None:
        try:
            stage_table(workload.model, strategy.pp, strategy.vpp, strategy.layer_layout)
        except ValueError:
            raise _misplaced(strategy.layer_layout, workload.model, section) from None
    check_shares(strategy, workload.model)
    _check_num_microbatches(section, strategy, workload)
    return strategy


def _misplaced(layout: LayerLayout, model: ModelShape, section: StrategySection) -> InputError:
    rows = [list(row) for row in layout]
    needed = (
        Sentence("{} stages", section.pp)
        if section.vpp == 1
        else Sentence("{} chunks of {} stages each", section.vpp, section.pp)
    )
    return InputError(
        Sentence(
            "strategy.layer_layout: {} places {} layers; give the {} of {} to {}.",
            show(rows[0] if len(rows) == 1 else rows),
            sum(map(sum, rows)),
            model.num_layers,
            model.name,
            needed,
        )
    )


def _data_parallel(section: StrategySection, workload: Workload) -> int:
    devices = workload.cluster.num_devices
    product = section.tp * section.cp * section.pp
    arithmetic = Sentence("tp {} x cp {} x pp {} = {}", section.tp, section.cp, section.pp, product)
    dp, left = divmod(devices, product)
    if left:
        legal = [n for n in (devices - left, devices - left + product) if n and _is_legal_on(section, workload, n)]
        would_do = Sentence("; {} devices would do", joined(" or ", map(str, legal))) if legal else ""
        raise InfeasibleStrategyError(
            Sentence("strategy: {} does not divide the {} devices of the cluster{}.", arithmetic, devices, would_do)
        )
    if section.dp not in (None, dp):
        raise InputError(
            Sentence(
                "strategy.dp: {} is given, but {} devices / ({}) = {}; leave dp out or give {}.",
                section.dp,
                devices,
                arithmetic,
                dp,
                dp,
            )
        )
    return dp


def _is_legal_on(section: StrategySection, workload: Workload, num_devices: int) -> bool:
    """Whether the strategy breaks no rule on that number of devices."""
    there = replace(workload, cluster=replace(workload.cluster, num_devices=num_devices))
    try:
        return not violations(there, strategy_from_section(section, there))
    except InputError:
        return False


def _check_num_microbatches(section: StrategySection, strategy: ParallelStrategy, workload: Workload) -> None:
    if section.num_microbatches is None:
        return
    batch, per_round = workload.training.global_batch_size, strategy.micro_batch_size * strategy.dp
    if section.num_microbatches * per_round != batch:
        raise InputError(
            Sentence(
                "strategy.num_microbatches: {} is given, but global_batch_size {} / (micro_batch_size {} x dp {}) = {:g}.",
                section.num_microbatches,
                batch,
                strategy.micro_batch_size,
                strategy.dp,
                batch / per_round,
            )
        )


def _context_parallel(section: StrategySection, workload: Workload) -> tuple[CpAlgo, int]:
    split = CpAlgo.ULYSSES if refuses_ring(workload) else usual_cp_algo(workload.software.target)
    algo = CP_ALGOS[section.cp_algo] if section.cp_algo else split if section.cp > 1 else CpAlgo.NONE
    if (algo == CpAlgo.NONE) != (section.cp == 1):
        raise InputError(
            Sentence("strategy.cp_algo: {!r} does not go with cp {}; leave it out or change cp.", algo.label, section.cp)
        )
    natural = {CpAlgo.ULYSSES: section.cp, CpAlgo.HYBRID: None}.get(algo, 1)
    degree = natural if section.ulysses_degree is None else section.ulysses_degree
    if degree is None:
        raise InputError(Sentence("strategy.ulysses_degree: missing; cp_algo 'hybrid' needs the Ulysses share of cp."))
    if natural is not None and degree != natural:
        raise InputError(
            Sentence(
                "strategy.ulysses_degree: {} is given, but cp_algo {!r} with cp {} has {}.",
                degree,
                algo.label,
                section.cp,
                natural,
            )
        )
    if section.cp % degree:
        raise InputError(Sentence("strategy.ulysses_degree: {} does not divide cp {}.", degree, section.cp))
    return algo, degree


def _schedule(section: StrategySection) -> Schedule:
    if section.pp == 1 and section.vpp > 1:
        raise InputError(Sentence("strategy.vpp: {} needs a pipeline; give pp above 1 or leave vpp out.", section.vpp))
    usual, *others = schedules_of(section.pp, section.vpp)
    schedule = usual if section.schedule is None else SCHEDULES[section.schedule]
    if schedule in (usual, *others):
        return schedule
    if section.pp > 1 and schedule.rules.is_vee:
        raise InputError(
            Sentence(
                "strategy.vpp: {} is given, but schedule {!r} folds the model into 2 chunks a rank; give vpp 2.",
                section.vpp,
                schedule.label,
            )
        )
    raise InputError(
        Sentence(
            "strategy.schedule: {!r} is given, but pp {} with vpp {} runs {}.",
            section.schedule,
            section.pp,
            section.vpp,
            either([repr(runnable.label) for runnable in (usual, *others)]),
        )
    )


def _group_size(section: StrategySection, schedule: Schedule) -> int:
    size = section.microbatch_group_size_per_vp_stage
    if size is not None and not schedule.rules.in_groups:
        in_groups = either([repr(one.label) for one in Schedule if one.rules.in_groups])
        raise InputError(
            Sentence(
                "strategy.microbatch_group_size_per_vp_stage: {} is given, but only the chunks of "
                "{} take turns, and the schedule is {!r}; leave it out.",
                size,
                in_groups,
                schedule.label,
            )
        )
    return canonical_group_size(section.pp, schedule, size or 0)


def _mtp_before_head(section: StrategySection, model: ModelShape) -> int:
    given, stages = section.mtp_before_head, section.pp * section.vpp
    if given and not model.mtp_num_layers:
        raise InputError(
            Sentence("strategy.mtp_before_head: {} is given, but {} predicts no further tokens; leave it out.", given, model.name)
        )
    if given >= stages:
        raise InputError(
            Sentence(
                "strategy.mtp_before_head: {} is not allowed; pp {} x vpp {} = {} virtual stages "
                "leave 0 to {} before that of the head.",
                given,
                section.pp,
                section.vpp,
                stages,
                stages - 1,
            )
        )
    return given


def usual_zero_stage(workload: Workload, pp: int) -> int:
    """The ZeRO stage where none is stated: that of optimizer states, if ranks usually share them.

    A stack that shards weights keeps them behind a forward in a pipeline alone.
    """
    if not workload.software_traits.fp32_shards:
        return int(workload.shares_optimizer)
    return 2 if pp > 1 else 3  # as PyTorch's FSDP does


def _zero_stage(section: StrategySection, workload: Workload) -> int:
    if section.zero_stage is None:
        usual, given = usual_zero_stage(workload, section.pp), section.distributed_optimizer
        return usual if given is None else int(given)
    if section.distributed_optimizer not in (None, section.zero_stage >= 1):
        raise InputError(
            Sentence(
                "strategy.zero_stage: {} contradicts distributed_optimizer {}; give one of the two.",
                section.zero_stage,
                str(section.distributed_optimizer).lower(),
            )
        )
    return section.zero_stage


def _dispatcher(section: StrategySection, workload: Workload) -> Dispatcher:
    is_moe = workload.model.moe is not None
    given = section.moe_dispatcher
    if given not in (None, "none") and not is_moe:
        raise InputError(
            Sentence("strategy.moe_dispatcher: {!r} is given, but {} has no experts; leave it out.", given, workload.model.name)
        )
    if given is not None:
        return DISPATCHERS[given]
    return Dispatcher.ALLTOALL if is_moe else Dispatcher.NONE


def _recompute_section(section: StrategySection) -> RecomputeSection:
    return section.recompute if isinstance(section.recompute, RecomputeSection) else _named_recompute(section.recompute)


@lru_cache(maxsize=256)
def _named_recompute(name: str) -> RecomputeSection:
    try:
        mode = recompute_mode(name)
    except SearchError as error:
        raise InputError(Sentence("strategy.recompute: {}", error)) from None
    if mode.share_percent:
        raise InputError(
            Sentence("strategy.recompute: {!r} is a share; give the layers of a virtual stage, as in block:2.", name)
        )
    names = list(names_of(mode.modules))
    return RecomputeSection(
        granularity=mode.granularity.label, method=mode.method.label, num_layers=mode.num_layers or None, modules=names or None
    )


def _recompute_method(section: RecomputeSection) -> RecomputeMethod:
    default = "uniform" if section.granularity == "full" and section.layers_per_stage is None else "none"
    if section.method not in (None, "none") and section.granularity != "full":
        raise InputError(
            Sentence("strategy.recompute.method: {!r} belongs to granularity full, not {}.", section.method, section.granularity)
        )
    return RECOMPUTE_METHODS[section.method or default]


def _recompute_num_layers(section: RecomputeSection) -> int:
    if section.granularity != "full" or section.layers_per_stage is not None:
        if section.num_layers:
            raise InputError(
                Sentence(
                    "strategy.recompute.num_layers: {} belongs to granularity full without layers_per_stage.", section.num_layers
                )
            )
        return 0
    if section.num_layers is None and section.method == "block":
        raise InputError(Sentence("strategy.recompute.num_layers: missing; method block needs the layers of each virtual stage."))
    return 1 if section.num_layers is None else section.num_layers


def _recompute_modules(section: RecomputeSection) -> RecomputeModule:
    beside = section.granularity == "full" and section.layers_per_stage is not None
    if section.modules and section.granularity != "selective" and not beside:
        raise InputError(
            Sentence(
                "strategy.recompute.modules: belongs to granularity selective, or to full with layers_per_stage, not {}.",
                section.granularity,
            )
        )
    return _modules(tuple(section.modules or (["core_attn"] if section.granularity == "selective" else ())))


@lru_cache(maxsize=1024)
def _modules(names: tuple[str, ...]) -> RecomputeModule:
    return reduce(or_, (MODULE_NAMES[name] for name in names), RecomputeModule(0))


def _layers_per_stage(section: RecomputeSection, pp: int) -> tuple[int, ...] | None:
    layers = section.layers_per_stage
    if layers is None:
        return None
    if section.granularity != "full":
        raise InputError(Sentence("strategy.recompute.layers_per_stage: belongs to granularity full."))
    if len(layers) != pp:
        raise InputError(
            Sentence("strategy.recompute.layers_per_stage: holds {} entries, but pp is {}; give one a stage.", len(layers), pp)
        )
    return tuple(layers)


def feature_warnings(workload: Workload, strategy: ParallelStrategy, section: StrategySection) -> list[str]:
    """A sentence on each switch of ``section`` without anything to act on, and one on switches without effect on the price."""
    there = scope_of(workload.model, strategy)
    asked = _switched(_features(tuple(section.features or ())), dict(section.switches))
    idle = [(feature, why) for feature in asked if (why := why_idle(feature, there))]
    sentences: list[str] = [Sentence("strategy.features: {} has no effect: {}.", (f.name or "").lower(), why) for f, why in idle]
    if workload.training.fp8_param_gather and strategy.zero_stage == 0:
        sentences.append(
            Sentence("training.fp8_param_gather has no effect: the optimizer is not sharded (strategy.zero_stage is 0).")
        )
    unpriced = _acting(workload, strategy, strategy.features) & UNPRICED_FEATURES
    if unpriced:
        names = joined(", ", ((feature.name or "").lower() for feature in unpriced))
        sentences.append(
            Sentence(
                "strategy.features: {}: priced as if off, since no formula says what it changes.",
                names,
            )
        )
    framework = framework_of(workload.software.target)
    sentences += (*(framework.mispacked(workload) if framework else ()), *on_anyway(workload, strategy, dict(section.switches)))
    modules = strategy.recompute_modules & present_modules(workload.model)
    inside = modules & idle_modules(workload, strategy.features)
    covered = modules & ~inside & ~canonical(workload, strategy).recompute_modules
    for unused, why in (
        (covered, Sentence("other recompute covers it")),
        (inside, Sentence("stack {} does not compute it again in layers of this model", workload.software.stack)),
    ):
        if unused:
            names = joined(", ", names_of(unused))
            sentences.append(Sentence("strategy.recompute: {} has no effect: {}.", names, why))
    whole = -(-workload.model.num_layers // (strategy.pp * strategy.vpp))
    if (
        strategy.recompute_method is RecomputeMethod.BLOCK
        and strategy.layer_layout is None
        and strategy.recompute_num_layers > whole
    ):
        sentences.append(
            Sentence(
                "strategy.recompute: block:{} is more than the {} layers of a virtual stage; all of them are recomputed.",
                strategy.recompute_num_layers,
                whole,
            )
        )
    return [*sentences, *cautions(workload, strategy)]


def _acting(workload: Workload, strategy: ParallelStrategy, features: Feature) -> Feature:
    return features & acting_in(scope_of(workload.model, strategy))


@lru_cache(maxsize=1024)
def _features(names: tuple[str, ...]) -> Feature:
    return reduce(or_, (SWITCHES[name] for name in names), Feature(0))


def _switched(features: Feature, switches: Mapping[str, bool | None]) -> Feature:
    off = _features(tuple(name for name, on in switches.items() if on is False))
    return features & ~off | _features(tuple(name for name, on in switches.items() if on))


def _layout(section: StrategySection, model: ModelShape, schedule: Schedule) -> LayerLayout | None:
    num_layers = model.num_layers
    noops = section.noop_layers
    positions = noops if isinstance(noops, list) else []
    given = [name for name in ("layer_layout", "layer_offset") if getattr(section, name) is not None]
    given += ["noop_layers"] if positions else []
    if len(given) > 1:
        raise InputError(Sentence("strategy.{}: given beside {}; give one of the two.", given[1], given[0]))
    layout: LayerLayout | None = None
    if section.layer_layout is not None:
        rows = section.layer_layout if isinstance(section.layer_layout[0], list) else [section.layer_layout]
        layout = tuple(tuple(row) for row in rows)
    elif section.layer_offset is not None:
        layout = _layout_with_offsets(section.layer_offset, num_layers // (section.pp * section.vpp), schedule)
    elif positions:
        layout = _layout_with_noops(set(positions), num_layers, section.pp, section.vpp)
    has_default = has_default_layout(model, section.pp, section.vpp, schedule)  # if not, a rule reports the numbers
    if layout is None and not has_default:
        return None
    default = _default_layout(model, section.pp, section.vpp, schedule)
    if isinstance(noops, int):
        _check_num_noops(noops, layout or default, num_layers)
    return None if layout == default and has_default else layout


def _layout_with_offsets(given: list[int] | list[list[int]], each: int, schedule: Schedule) -> LayerLayout:
    """Layout with MindFormers' offsets; a V lists chunk 2 by rank [mindformers-1.8, training_graph/transformer/utils.py]."""
    rows = [row for row in given if isinstance(row, list)] or [[offset for offset in given if isinstance(offset, int)]]
    least = min(map(min, rows))
    if each + least < 0:
        raise InputError(
            Sentence(
                "strategy.layer_offset: {} is not allowed; an even share of {} layers leaves {} at least.", least, each, -each
            )
        )
    return tuple(tuple(each + offset for offset in row) for row in by_rank(rows, schedule))


def _check_num_noops(given: int, layout: LayerLayout, num_layers: int) -> None:
    slots = max(map(max, layout)) * sum(map(len, layout))
    if given != slots - num_layers:
        raise InputError(
            Sentence(
                "strategy.noop_layers: {} is given, but the layout has {} slots for {} layers, "
                "which leaves {}; leave it out or give positions.",
                given,
                slots,
                num_layers,
                slots - num_layers,
            )
        )


def _layout_with_noops(noops: set[int], num_layers: int, pp: int, vpp: int) -> LayerLayout:
    positions, stages = num_layers + len(noops), pp * vpp
    if max(noops) >= positions or positions % stages:
        raise InputError(
            Sentence(
                "strategy.noop_layers: {} layers and {} no-op layers do not spread evenly over "
                "pp {} x vpp {} = {} virtual stages, with positions from 0 to {}.",
                num_layers,
                len(noops),
                pp,
                vpp,
                stages,
                positions - 1,
            )
        )
    size = positions // stages
    counts = [sum(p not in noops for p in range(first, first + size)) for first in range(0, positions, size)]
    return tuple(tuple(counts[chunk * pp : (chunk + 1) * pp]) for chunk in range(vpp))
