from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import pytest

from cost_models.shapes.canonical import canonical
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature, InSearch, treated
from cost_models.shapes.workload import ModelShape, Workload
from documents.errors import InputError
from search.errors import SearchError
from search.space.allowed_names import notes
from search.space.limits import Range, SearchLimits, limits_from_mapping
from search.space.recompute_modes import RecomputeMode, recompute_mode
from search.space.search_space import search_space, tried_options
from tests.search_workloads import DENSE, MOE, workload


def test_default_grid_of_a_moe_model() -> None:
    space = search_space(workload(MOE, num_devices=48, seq_length=16384))
    assert space.tp == (1, 2, 4, 8)  # a node of the 800T A2 holds 8 devices
    assert space.pp == (1, 2, 3, 4, 6, 8, 12)  # divisors of 48 up to the 12 layers
    assert space.cp == (1, 2, 4)  # 16384 / 4 = 4096 tokens a rank
    assert space.ep == (1, 2, 4, 8, 16, 32)  # divisors of 32 experts
    assert space.etp == (1, 2)  # 4096 expert columns / 2 = 2048
    assert [mode.name for mode in space.recompute] == [
        "none",
        "layernorm+mlp_act",
        "layernorm+mlp_act+mla_up_proj",
        "layernorm+mla_up_proj+mlp+moe",
        *(f"block:{layers}" for layers in range(1, 12)),  # of 12
        "block:25%",
        "block:50%",
        "block:75%",
        "full",
    ]
    assert space.features == (DEFAULT_FEATURES,)
    assert space.wanted & treated(InSearch.ON) == Feature.MC2 | Feature.COC
    assert space.leaner == treated(InSearch.LEAN_ON, InSearch.LEAN_OFF) & ~Feature.OPTIMIZER_CPU_OFFLOAD  # of GPUs


USUAL = (Schedule.NONE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)


@pytest.mark.parametrize(
    ("model", "target", "limits", "expected"),
    [
        (DENSE, "any", {}, USUAL),
        (MOE, "any", {}, (*USUAL, Schedule.DUALPIPE_V)),
        (MOE, "mindspeed-llm@master", {}, (*USUAL, Schedule.DUALPIPE_V)),
        (MOE, "megatron-lm@0.12", {}, USUAL),
        (MOE, "mindformers@1.8", {}, USUAL),
        (MOE, "any", {"ep": (1,)}, USUAL),
        (MOE, "any", {"schedule": (Schedule.ZBV,)}, (Schedule.ZBV,)),
    ],
)
def test_schedules_that_are_tried_by_default(
    model: ModelShape, target: str, limits: dict[str, Any], expected: tuple[Schedule, ...]
) -> None:
    assert search_space(workload(model, num_devices=32, target=target), SearchLimits(**limits)).schedule == expected


def test_dualpipev_is_tried_with_the_switches_that_go_with_it() -> None:
    if_set = Feature.FUSED_NORM | Feature.FUSED_SWIGLU | Feature.MOE_PERMUTE_FUSION  # of MindSpeed-LLM, which lacks some kernels
    excluded = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
    for target, usual, merged in (
        ("any", DEFAULT_FEATURES, DEFAULT_FEATURES),
        ("mindspeed-llm", DEFAULT_FEATURES & ~if_set, DEFAULT_FEATURES & ~if_set & ~excluded),
    ):
        space = search_space(workload(MOE, target=target))
        expected = merged | Feature.MOE_COMM_OVERLAP
        assert space.features_with(Schedule.DUALPIPE_V) == (expected,)
        assert space.features_with(Schedule.INTERLEAVED) == (usual, expected)
        assert space.features_with(Schedule.ONE_F_ONE_B) == (usual,)
        assert space.wanted & DEFAULT_FEATURES == DEFAULT_FEATURES & ~usual
    asked = SearchLimits(switches={Feature.MOE_COMM_OVERLAP: (False,), Feature.SWAP_OPTIMIZER: (False,)})
    assert search_space(workload(MOE), asked).features_with(Schedule.DUALPIPE_V) == (DEFAULT_FEATURES,)


@pytest.mark.parametrize(
    ("hardware", "target", "expected"),
    [
        ("atlas-800t-a2", "any", {"mc2", "coc"}),
        ("atlas-800t-a2", "mindspeed-llm", {"mc2", "coc"}),
        ("atlas-800t-a2", "mindformers", set()),
        ("h100-sxm-80gb", "any", {"tp_comm_overlap"}),
        ("h100-sxm-80gb", "megatron-lm", {"tp_comm_overlap"}),
        ("mi300x", "any", set()),
    ],
)
def test_switches_of_a_library_are_on_where_the_target_and_the_devices_have_it(
    hardware: str, target: str, expected: set[str]
) -> None:
    wanted = (
        search_space(workload(DENSE, hardware=hardware, target=target)).wanted & ~Feature.DUALPIPEV_DW_DETACH & ~DEFAULT_FEATURES
    )
    assert {str(feature.name).lower() for feature in wanted} == expected


def test_names_are_allowed_and_forbidden_whatever_their_dimension() -> None:
    limits = limits_from_mapping(
        {
            "allow": ["grad_reduce_in_bf16", "fine_grain_interleave", "zb1p", "core_attn"],
            "forbid": ["mc2", "swap_optimizer", "fused_rope", "two_level", "ulysses", "dualpipev", "mla_up_proj"],
        }
    )
    usual, space = search_space(workload(MOE)), search_space(workload(MOE), limits)
    on = DEFAULT_FEATURES & ~Feature.FUSED_ROPE
    assert space.features == (on, on | Feature.GRAD_REDUCE_IN_BF16)
    assert space.wanted == usual.wanted & ~Feature.MC2 | Feature.FINE_GRAIN_INTERLEAVE
    assert space.leaner == usual.leaner & ~Feature.SWAP_OPTIMIZER
    assert space.schedule == (*USUAL, Schedule.ZB1P)
    assert Dispatcher.TWO_LEVEL not in space.dispatcher
    assert space.cp_algo == (CpAlgo.RING, CpAlgo.HYBRID)
    names = [mode.name for mode in space.recompute]
    counts = [f"block:{layers}" for layers in range(1, 12)]
    assert names == ["none", "layernorm+mlp_act", *counts, "block:25%", "block:50%", "block:75%", "full", "core_attn"]


def test_a_switch_that_changes_the_numbers_is_off_unless_it_is_allowed() -> None:
    for target in ("any", "mindspeed-llm"):
        space = search_space(workload(MOE, target=target))
        ever = (
            reduce(or_, (*space.features, *space.dualpipev_features, *space.interleaved_features)) | space.wanted | space.leaner
        )
        assert Feature.GRAD_REDUCE_IN_BF16 not in ever


def test_a_dimension_without_a_value_left_is_refused() -> None:
    limits = limits_from_mapping({"forbid": ["ring", "ulysses", "hybrid"]})
    with pytest.raises(
        SearchError, match=r"search\.forbid: without hybrid, ring, ulysses cp_algo has no value left; forbid fewer"
    ):
        search_space(workload(), limits)


@pytest.mark.parametrize(
    ("model", "target", "limits", "sentence"),
    [
        (DENSE, "any", {"allow": "moe_zero_memory"}, "search.allow: moe_zero_memory has no effect: the model has no experts."),
        (
            MOE,
            "any",
            {"moe_pad_to_capacity": True},
            "search.moe_pad_to_capacity: it has no effect: the experts have no capacity fac",
        ),
        (MOE, "mindspeed-llm", {"allow": "cuda_graph"}, "cuda_graph has no effect: mindspeed-llm@master has no such switch."),
        (MOE, "any", {"allow": "cuda_graph"}, "cuda_graph has no effect: it belongs to nvidia devices."),
        (MOE, "any", {"allow": "moe_tp_extend_ep"}, "moe_tp_extend_ep has no effect: no price depends on it."),
        (DENSE, "any", {"allow": "mc2"}, "search.allow: mc2 has no effect: a search takes it anyway."),
        (DENSE, "any", {"allow": "swap_optimizer"}, "has no effect: a search tries it anyway where plans do not fit without it."),
        (
            DENSE,
            "megatron-lm",
            {"allow": "optimizer_cpu_offload"},
            "has no effect: a search tries it anyway where plans do not fit without it.",
        ),
        (MOE, "any", {"allow": "moe_alltoall_overlap_comm"}, "takes it anyway, and goes without it where plans do not fit."),
        (DENSE, "any", {"forbid": "tp_2d"}, "search.forbid: tp_2d has no effect: a search leaves it out anyway."),
        (DENSE, "any", {"forbid": "zb1p"}, "search.forbid: zb1p has no effect: a search does not try it anyway."),
        (DENSE, "any", {"allow": "alltoall"}, "search.allow: alltoall has no effect: the model has no experts."),
        (DENSE, "megatron-lm", {"allow": "zb1p"}, "search.allow: zb1p has no effect: megatron-lm@0.12 has none."),
        (
            MOE,
            "mindspeed-llm",
            {"forbid": "moe_grouped_gemm"},
            "wants moe_grouped_gemm elsewhere (moe_alltoall_overlap_comm needs",
        ),
    ],
)
def test_a_name_without_effect_is_said_so(model: ModelShape, target: str, limits: dict[str, Any], sentence: str) -> None:
    hardware = "h100-sxm-80gb" if target == "megatron-lm" else "atlas-800t-a2"
    said = said_of(limits_from_mapping(limits), workload(model, hardware=hardware, target=target))
    assert any(sentence in line for line in said), said


def test_names_with_effect_are_taken_without_a_word() -> None:
    limits = {"allow": ["grad_reduce_in_bf16", "zbv", "core_attn"], "forbid": ["mc2", "two_level", "ring", "mlp_act"]}
    assert said_of(limits_from_mapping(limits), workload(MOE)) == []


def test_what_the_target_always_has_cannot_be_forbidden() -> None:
    limits = limits_from_mapping({"forbid": "overlap_grad_reduce"})
    with pytest.raises(
        SearchError, match=r"overlap_grad_reduce cannot be forbidden: mindformers@1\.8 has it on by itself, always"
    ):
        said_of(limits, workload(MOE, target="mindformers"))


def said_of(limits: SearchLimits, job: Workload) -> list[str]:
    asked = Feature(sum(feature for feature, values in limits.switches.items() if True in values))
    names = {"allow": limits.allow, "forbid": limits.forbid}
    return list(notes(job, names, asked, tried_options(job, SearchLimits())))


def test_pipelines_of_a_space_are_listed_once_each() -> None:
    limits = SearchLimits(pp=(1, 2, 4), vpp=(1, 2, 3), schedule=tuple(Schedule), microbatch_group_size_per_vp_stage=(0, 2, 4))
    pipelines = search_space(workload(MOE), limits).pipelines()
    assert len(set(pipelines)) == len(pipelines)
    # pp 1 has no schedule. Else vpp 1 runs five, vpp 2 two V-shaped ones, and interleaved in groups: of pp, which is one of
    # those given, and of the other; at vpp 3 interleaved alone.
    assert [sum(p.pp == pp for p in pipelines) for pp in (1, 2, 4)] == [3, 5 + 2 + 2 + 2, 5 + 2 + 2 + 2]
    assert {p.group_size for p in pipelines if p.pp == 2 and p.schedule is Schedule.INTERLEAVED} == {0, 4}
    assert {p.group_size for p in pipelines if p.schedule is not Schedule.INTERLEAVED} == {0}


def test_a_dense_model_has_no_expert_dimensions() -> None:
    space = search_space(workload(DENSE))
    assert (space.ep, space.etp, space.dispatcher) == ((1,), (1,), (Dispatcher.NONE,))
    assert "mla_up_proj" not in "".join(mode.name for mode in space.recompute)


def test_tensor_parallelism_may_span_a_supernode_but_not_a_node_boundary() -> None:
    assert search_space(workload(num_devices=1024, hardware="atlas-900-a3-superpod")).tp[-1] == 32
    assert search_space(workload(num_devices=1024)).tp[-1] == 8


def test_a_tuple_replaces_the_grid_and_a_range_selects_from_it() -> None:
    job = workload(num_devices=16)
    space = search_space(
        job, SearchLimits(tp=(5, 3, 3), pp=Range(min=2, max=8), cp=Range(max=1), micro_batch_size=Range(min=16, max=32))
    )
    assert space.tp == (3, 5)
    assert space.pp == (2, 4, 8)
    assert space.cp == (1,)
    assert space.micro_batch_size == (16, 32)


@pytest.mark.parametrize(("layers", "beyond"), [(12, ()), (61, ()), (96, (12, 16, 24, 32, 48)), (80, (10, 16, 20, 40))])
def test_more_than_eight_virtual_stages_divide_the_layers(layers: int, beyond: tuple[int, ...]) -> None:
    # Calculon's best plan of GPT-3 175B (96 layers) on 4,096 A100 is TP8 PP4 VPP12.
    assert search_space(workload(replace(DENSE, num_layers=layers), num_devices=32)).vpp == (*range(1, 9), *beyond)


def test_a_bound_of_virtual_stages_takes_all_up_to_it() -> None:
    long = workload(replace(DENSE, num_layers=96), num_devices=32)
    assert search_space(long, SearchLimits(vpp=Range(min=7, max=13))).vpp == tuple(range(7, 14))
    assert search_space(long, SearchLimits(vpp=Range(min=20))).vpp == (24, 32, 48)


def test_a_range_beyond_the_node_reaches_further_powers_of_two() -> None:
    assert search_space(workload(), SearchLimits(tp=Range(min=8, max=32))).tp == (8, 16, 32)


def test_a_range_without_a_value_says_what_can_run() -> None:
    with pytest.raises(SearchError, match=r"search.pp: nothing from 5 to 7 is among the values that can run here: 1, 2, 4, 8"):
        search_space(workload(num_devices=16), SearchLimits(pp=Range(min=5, max=7)))


def test_a_switch_is_searched_as_asked() -> None:
    limits = SearchLimits(switches={Feature.SWAP_OPTIMIZER: (False,), Feature.MC2: (False, True), Feature.FUSED_ROPE: (False,)})
    space = search_space(workload(), limits)
    off = DEFAULT_FEATURES & ~Feature.FUSED_ROPE
    assert space.features == (off, off | Feature.MC2)


def test_limits_are_read_from_a_job() -> None:
    limits = limits_from_mapping(
        {
            "tp": [1, 2],
            "pp": {"max": 8},
            "ep": 4,
            "cp_algo": "ring",
            "moe_dispatcher": ["alltoall", "two_level"],
            "schedule": "interleaved-1f1b",
            "microbatch_group_size_per_vp_stage": [0, 8],
            "recompute": ["full", "block:50%"],
            "zero_stage": [0, 1],
            "sequence_parallel": [True, False],
            "reuse_fp32_param": True,
        }
    )
    assert limits == SearchLimits(
        tp=(1, 2),
        pp=Range(max=8),
        ep=(4,),
        cp_algo=(CpAlgo.RING,),
        dispatcher=(Dispatcher.ALLTOALL, Dispatcher.TWO_LEVEL),
        schedule=(Schedule.INTERLEAVED,),
        microbatch_group_size_per_vp_stage=(0, 8),
        recompute=(recompute_mode("full"), recompute_mode("block:50%")),
        zero_stage=(0, 1),
        sequence_parallel=(True, False),
        switches={Feature.REUSE_FP32_PARAM: (True,)},
    )


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ({"tpp": 1}, "search.tpp: unknown key; did you mean 'tp'? Allowed: tp, pp, vpp, cp"),
        ({"swap_optimiser": True}, "search.swap_optimiser: unknown key; did you mean 'swap_optimizer'?"),
        ({"tp": 0}, "search.tp: 0 is not allowed; give an integer from 1 to 65,536, or a list of 1 to 256 of them"),
        ({"tp": True}, "search.tp: true is not allowed; give an integer from 1 to 65,536"),
        ({"tp": [1, 2.5]}, "search.tp[1]: 2.5 is not allowed; give an integer"),
        ({"tp": []}, "search.tp: [] is not allowed; give an integer from 1"),
        ({"tp": {"maximum": 8}}, "search.tp.maximum: unknown key; did you mean 'max'? Allowed: min, max."),
        ({"tp": {}}, "search.tp: bounds nothing; give min, max or both."),
        ({"tp": {"min": 8, "max": 4}}, "search.tp: min 8 is above max 4."),
        ({"tp": {"max": 10**7}}, "search.tp.max: 10000000 is not allowed; give an integer from 1 to 65,536."),
        (
            {"cp_algo": "rings"},
            "search.cp_algo: 'rings' is not allowed (did you mean 'ring'?); give one of ring, ulysses, hybrid",
        ),
        ({"schedule": 3}, "search.schedule: 3 is not allowed; give one of none, 1f1b, interleaved-1f1b"),
        ({"schedule": "zb-v"}, "search.schedule: 'zb-v' is not allowed (did you mean 'zbv'?); give one of none, 1f1b"),
        ({"microbatch_group_size_per_vp_stage": -1}, "search.microbatch_group_size_per_vp_stage: -1 is not allowed; give an"),
        ({"recompute": "block:0"}, "search.recompute: 'block:0' is not a recompute mode"),
        ({"recompute": "block:101%"}, "is not a recompute mode"),
        ({"recompute": "full:50%"}, "is not a recompute mode"),
        ({"recompute": "layernom"}, "did you mean 'layernorm'?"),
        ({"recompute": 3}, "search.recompute: 3 is not allowed; give text"),
        ({"zero_stage": 4}, "search.zero_stage: 4 is not allowed; give an integer from 0 to 3"),
        ({"allow": "mc3"}, "search.allow: 'mc3' is not allowed (did you mean 'mc2'?); give one of flash_attention"),
        ({"forbid": ["dualpipe-v"]}, "(did you mean 'dualpipev'?)"),
        ({"allow": "mc2", "forbid": ["coc", "mc2"]}, "search: mc2 is in allow and in forbid; give it in one of the two."),
        ({"mc2": True, "forbid": "mc2"}, "search: mc2 is in forbid and has values of its own; give one of the two."),
        ({"mc2": "yes"}, "search.mc2: 'yes' is not allowed; give true or false"),
        ({"pp": list(range(1, 258))}, "or a list of 1 to 256 of them"),
    ],
)
def test_bad_limits_are_refused_in_one_sentence(mapping: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        limits_from_mapping(mapping)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_range_of_one_value_is_that_value() -> None:
    limits = limits_from_mapping({"tp": {"min": 4, "max": 4}})
    assert limits.tp == Range(min=4, max=4)
    assert search_space(workload(), limits).tp == (4,)


def test_too_many_switches_are_refused() -> None:
    both = {feature.name.lower(): [True, False] for feature in list(Feature)[:13]}
    with pytest.raises(InputError, match="search: at most 12 switches"):
        limits_from_mapping(both)


@pytest.mark.parametrize("module", RecomputeModule, ids=lambda m: m.name)
def test_every_recompute_module_is_a_mode_by_its_name(module: RecomputeModule) -> None:
    mode = recompute_mode(module.name.lower())
    assert (mode.granularity, mode.modules) == (Recompute.SELECTIVE, module)


def test_twelve_switches_are_tried_both_ways_beside_any_number_of_fixed_ones() -> None:
    names = [feature.name.lower() for feature in Feature if feature.name]
    assert len(names) > 24
    limits = limits_from_mapping({name: [True, False] if name in names[:12] else True for name in names})
    assert sum(len(values) for values in limits.switches.values()) == len(names) + 12


def test_the_largest_inputs_that_are_allowed_are_taken() -> None:
    degrees = list(range(1, 257))
    limits = limits_from_mapping({"tp": {"min": 4, "max": 4}, "ep": {"min": 2}, "cp": {"min": 1, "max": None}, "pp": degrees})
    assert limits == SearchLimits(tp=Range(min=4, max=4), ep=Range(min=2), cp=Range(min=1), pp=tuple(degrees))


def test_a_name_like_none_is_refused_without_a_guess() -> None:
    for mapping in ({"qqqqqq": 1}, {"moe_dispatcher": "qqqqqq"}):
        with pytest.raises(InputError) as refused:
            limits_from_mapping(mapping)
        assert "did you mean" not in str(refused.value)
        assert "two_level" in str(refused.value) or "microbatch_group_size_per_vp_stage" in str(refused.value)


@pytest.mark.parametrize("name", ["none", "full", "full:3", "block:2", "block:25%", "layernorm+mlp_act", "core_attn", "mlp+moe"])
def test_a_recompute_mode_keeps_its_name(name: str) -> None:
    assert recompute_mode(name).name == name


@pytest.mark.parametrize(("share", "longest", "layers"), [(25, 8, 2), (25, 3, 1), (50, 3, 2), (75, 4, 3), (100, 4, 4)])
def test_a_share_of_layers_rounds_up(share: int, longest: int, layers: int) -> None:
    assert recompute_mode(f"block:{share}%").layers(longest) == layers


FULL_BLOCK = {"recompute": Recompute.FULL, "recompute_method": RecomputeMethod.BLOCK}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"sequence_parallel": True}, {"sequence_parallel": False}),  # tp 1
        ({"tp": 2, "sequence_parallel": True}, {"sequence_parallel": True}),
        ({"cp_algo": CpAlgo.RING, "ulysses_degree": 4}, {"cp_algo": CpAlgo.NONE, "ulysses_degree": 1}),  # cp 1
        ({"cp": 4, "cp_algo": CpAlgo.ULYSSES}, {"cp_algo": CpAlgo.ULYSSES, "ulysses_degree": 4}),
        ({"cp": 4, "cp_algo": CpAlgo.HYBRID, "ulysses_degree": 4}, {"cp_algo": CpAlgo.ULYSSES, "ulysses_degree": 4}),
        ({"cp": 4, "cp_algo": CpAlgo.HYBRID, "ulysses_degree": 1}, {"cp_algo": CpAlgo.RING, "ulysses_degree": 1}),
        ({"cp": 4, "cp_algo": CpAlgo.HYBRID, "ulysses_degree": 2}, {"cp_algo": CpAlgo.HYBRID, "ulysses_degree": 2}),
        ({"pp": 2}, {"schedule": Schedule.ONE_F_ONE_B}),
        ({"pp": 2, "vpp": 3}, {"schedule": Schedule.INTERLEAVED}),
        ({"schedule": Schedule.ONE_F_ONE_B}, {"schedule": Schedule.NONE}),  # pp 1
        ({"pp": 2, "schedule": Schedule.ZB1P}, {"schedule": Schedule.ZB1P}),
        ({"pp": 2, "vpp": 2, "schedule": Schedule.DUALPIPE_V}, {"schedule": Schedule.DUALPIPE_V}),
        ({"schedule": Schedule.DUALPIPE}, {"schedule": Schedule.NONE}),  # pp 1
        ({"pp": 2, "schedule": Schedule.ZBV}, {"schedule": Schedule.ZBV}),  # needs vpp 2: left to the legality rules
        ({"pp": 2, "vpp": 2, "microbatch_group_size_per_vp_stage": 2}, {"microbatch_group_size_per_vp_stage": 0}),  # pp
        ({"pp": 2, "vpp": 2, "microbatch_group_size_per_vp_stage": 4}, {"microbatch_group_size_per_vp_stage": 4}),
        ({"pp": 2, "microbatch_group_size_per_vp_stage": 4}, {"microbatch_group_size_per_vp_stage": 0}),  # no turns
        ({"pp": 2, "vpp": 2, "features": Feature.DUALPIPEV_DW_DETACH}, {"features": Feature(0)}),
        (
            {"pp": 2, "vpp": 2, "schedule": Schedule.DUALPIPE_V, "features": Feature.DUALPIPEV_DW_DETACH | Feature.OVERLAP_P2P},
            {"features": Feature.DUALPIPEV_DW_DETACH},
        ),
        ({"dispatcher": Dispatcher.ALLGATHER}, {"dispatcher": Dispatcher.ALLTOALL}),  # ep etp = 1: nothing to dispatch
        ({"ep": 8, "dispatcher": Dispatcher.TWO_LEVEL}, {"dispatcher": Dispatcher.ALLTOALL}),  # 8 ranks are one node
        ({"ep": 16, "dispatcher": Dispatcher.TWO_LEVEL}, {"dispatcher": Dispatcher.TWO_LEVEL}),
        ({"ep": 8, "dispatcher": Dispatcher.ALLGATHER}, {"dispatcher": Dispatcher.ALLGATHER}),
        # 12 layers on pp 2 x vpp 2: three a virtual stage.
        (
            {"pp": 2, "vpp": 2, **FULL_BLOCK, "recompute_num_layers": 3},
            {"recompute_method": RecomputeMethod.UNIFORM, "recompute_num_layers": 1},
        ),
        (
            {"pp": 2, "vpp": 2, **FULL_BLOCK, "recompute_num_layers": 2},
            {"recompute_method": RecomputeMethod.BLOCK, "recompute_num_layers": 2},
        ),
        ({**FULL_BLOCK}, {"recompute": Recompute.NONE, "recompute_method": RecomputeMethod.NONE}),  # no layer
        (
            {
                "recompute": Recompute.SELECTIVE,
                "recompute_modules": RecomputeModule.MLP | RecomputeModule.MOE | RecomputeModule.MLP_ACT,
            },
            {"recompute_modules": RecomputeModule.MLP | RecomputeModule.MOE},  # the activations lie inside
        ),
        ({"zero_stage": 0}, {"zero_stage": 0}),
        (
            {"zero_stage": 0, "features": Feature.OVERLAP_PARAM_GATHER | Feature.OVERLAP_GRAD_REDUCE},
            {"features": Feature.OVERLAP_GRAD_REDUCE},  # without sharding nothing is gathered
        ),
        ({"pp": 2, "features": Feature.OVERLAP_P2P}, {"features": Feature(0)}),  # one chunk a rank
        ({"pp": 2, "vpp": 2, "features": Feature.OVERLAP_P2P}, {"features": Feature.OVERLAP_P2P}),
        ({"features": Feature.MC2 | Feature.CP_SEND_RECV_OVERLAP}, {"features": Feature(0)}),
        (
            {"features": Feature.MOE_GROUPED_GEMM | Feature.MOE_ALLTOALL_OVERLAP_COMM},
            {"features": Feature.MOE_GROUPED_GEMM},
        ),  # ep 1
        ({"tp": 2, "pp": 2}, {"dp": 4}),
        ({"tp": 32}, {"dp": 1}),  # does not fill 16 devices: left to the legality rules
    ],
)
def test_an_option_without_effect_takes_one_value(given: dict[str, object], expected: dict[str, object]) -> None:
    job = workload(MOE, num_devices=16)
    strategy = canonical(job, ParallelStrategy(**given))  # type: ignore[arg-type]
    assert {name: getattr(strategy, name) for name in expected} == expected


def test_optimizer_sharding_over_one_rank_is_the_distributed_optimizer() -> None:
    dense, moe = workload(DENSE, num_devices=8), workload(MOE, num_devices=8)
    alone = ParallelStrategy(tp=8, zero_stage=3, features=Feature.OVERLAP_GRAD_REDUCE)
    assert canonical(dense, alone).zero_stage == 1
    assert canonical(dense, alone).features == Feature(0)
    # The experts of tp 8, ep 1 have 8 replicas: their gradients are exchanged.
    assert canonical(moe, alone).zero_stage == 3
    assert canonical(moe, alone).features == Feature.OVERLAP_GRAD_REDUCE


def test_a_layout_that_is_the_default_is_left_out() -> None:
    job = workload(num_devices=16)
    default = ((3, 3), (3, 3))
    strategy = ParallelStrategy(pp=2, vpp=2, layer_layout=default)
    assert canonical(job, strategy).layer_layout is None
    assert canonical(job, replace(strategy, layer_layout=((4, 3), (3, 2)))).layer_layout == ((4, 3), (3, 2))


def test_modes_are_plain_values() -> None:
    assert recompute_mode("full") == RecomputeMode(Recompute.FULL, RecomputeMethod.UNIFORM, num_layers=1)


def test_a_recompute_plan_by_stage_is_an_effect_of_its_own() -> None:
    strategy = canonical(
        workload(DENSE, num_devices=32),
        ParallelStrategy(tp=4, pp=2, recompute=Recompute.FULL, recompute_layers_per_stage=(3, 1)),
    )
    assert strategy.recompute is Recompute.FULL
    assert strategy.recompute_layers_per_stage == (3, 1)
