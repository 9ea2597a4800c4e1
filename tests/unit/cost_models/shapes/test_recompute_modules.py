"""Each recompute module is one entry, to which the formulas of bytes and time are held."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from cost_models.layer.activations import layer_activations
from cost_models.layer.costs import layer_costs
from cost_models.shapes import recompute_modules
from cost_models.shapes.recompute_modules import MODULES, RecomputeModule, effective_modules, present_modules
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape
from tests.workloads import DENSE, LATENT, SPARSE, device, keys, network, workload

MODELS = (DENSE, SPARSE, LATENT)
EAGER_SCORES = DEFAULT_FEATURES & ~Feature.FLASH_ATTENTION
KINDS = [(model, moe) for model in MODELS for moe in (False, True) if moe in model.moe_layers()]


def changes(model: ModelShape, module: RecomputeModule, *, moe: bool) -> tuple[set[str], float]:
    """Tensor classes of one layer that become smaller, and seconds of its backward that are added."""
    job = workload(model, stack="mindspeed-llm")
    plain, again = (keys(ep=1, features=EAGER_SCORES, recompute_modules=kept) for kept in (RecomputeModule(0), module))
    before, after = (layer_activations(job, key, moe=moe).saved for key in (plain, again))
    views = {"attention"} if module is RecomputeModule.CORE_ATTN else set()  # its checkpoint keeps values as it gets them
    assert all(after[name][0] <= before[name][0] for name in before.keys() - views)
    seconds = [layer_costs(job, key, device(job), network(job), moe=moe).backward_s[0] for key in (plain, again)]
    return {name for name in before if after[name][0] < before[name][0]}, seconds[1] - seconds[0]


@pytest.mark.parametrize("module", RecomputeModule, ids=lambda m: m.name)
def test_a_module_drops_what_its_entry_says_and_takes_time(module: RecomputeModule) -> None:
    entry, dropped = MODULES[module], set()
    for model, moe in KINDS:
        if not module & present_modules(model):
            continue  # legality refuses it
        classes, seconds = changes(model, module, moe=moe)
        assert classes <= entry.drops
        assert bool(classes) == entry.in_layer(model, moe), (model.name, moe)
        assert (seconds > 0.0) == entry.in_layer(model, moe), (model.name, moe)
        dropped |= classes
    assert dropped == entry.drops


@pytest.mark.parametrize(
    ("model", "absent"),
    [
        (DENSE, RecomputeModule.MLA_UP_PROJ | RecomputeModule.MOE),
        (SPARSE, RecomputeModule.MLA_UP_PROJ),
        (LATENT, RecomputeModule(0)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_which_modules_a_model_has(model: ModelShape, absent: RecomputeModule) -> None:
    known = RecomputeModule.CORE_ATTN | RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT
    known |= RecomputeModule.MLA_UP_PROJ | RecomputeModule.MLP | RecomputeModule.MOE
    assert present_modules(model) & known == known & ~absent
    assert effective_modules(model, absent | RecomputeModule.LAYERNORM) == RecomputeModule.LAYERNORM


def test_the_activation_function_is_part_of_every_block_that_is_recomputed() -> None:
    act, dense, moe = RecomputeModule.MLP_ACT, RecomputeModule.MLP, RecomputeModule.MOE
    assert effective_modules(DENSE, act | dense) == dense
    assert effective_modules(SPARSE, act | dense) == act | dense  # that of experts is none of the dense block's
    assert effective_modules(SPARSE, act | moe) == act | moe
    assert effective_modules(SPARSE, act | dense | moe) == dense | moe
    assert effective_modules(DENSE, act) == act


LAST = '    MOE = _module(5, lambda model, moe: moe, "routed_experts", "shared_experts", "router", whole=True,\n'


@pytest.mark.parametrize(
    ("find", "put", "complaint"),
    [
        (LAST, "    NEW = 1 << 60\n" + LAST, "every member of RecomputeModule is one entry"),
        (LAST, LAST.replace("5", "4"), "duplicate values found"),
        (LAST, "    MOE = _module(5,\n", "'in_layer'"),
        ('meaning="The whole MoE block, its communication included.")', ")", "'meaning'"),
    ],
)
def test_half_a_module_cannot_be_imported(find: str, put: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(recompute_modules.__file__).read_text(encoding="utf-8")
    assert text.count(find) == 1, "recompute_modules.py has changed: bring this test up to date"
    half = ModuleType("half_done_modules")
    monkeypatch.setitem(sys.modules, half.__name__, half)
    with pytest.raises((TypeError, ValueError), match=complaint):
        exec(compile(text.replace(find, put), "half", "exec"), half.__dict__)
