"""Layers of one block in arguments of Megatron-LM 0.19: written with the stages, and read as published scripts have them."""

from dataclasses import replace
from itertools import product

import pytest

from app.catalogue.models.presets import model_preset
from app.language.choice import said
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Schedule
from cost_models.shapes.training_task import Task, TrainingTask
from cost_models.shapes.workload import Software, TrainingJob, Workload
from frameworks.framework import ReadingError
from frameworks.launch import launch_block
from frameworks.legality import violations
from frameworks.megatron_lm.dialect import CORE_0_12, CORE_0_19
from frameworks.megatron_lm.job_reader import read_job
from frameworks.megatron_lm.writer import arguments
from tests.networks import gpu
from tests.unit.frameworks.single_block_cases import divided, hybrid_job

NANO, EIGHT, NINE = (model_preset(name).model for name in ("nemotron-3-nano-30b-a3b", "nemotron-h-8b", "nemotron-nano-9b-v2"))
JOB = Workload(EIGHT, TrainingJob(8192, 768), gpu(), Software("megatron-lm", target="megatron-lm@0.19"))
# [megatron-0.19, examples/post_training/modelopt/conf/nvidia/NVIDIA-Nemotron-Nano-9B-v2.sh]
NINE_SCRIPT = """
--micro-batch-size 1 --bf16 --no-masked-softmax-fusion --disable-bias-linear --untie-embeddings-and-output-weights
--position-embedding-type none --no-rope-fusion --normalization RMSNorm --squared-relu --hidden-size 4480
--ffn-hidden-size 15680 --num-attention-heads 40 --kv-channels 128 --group-query-attention --num-query-groups 8
--hybrid-layer-pattern M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M- --mamba-head-dim 80 --mamba-num-heads 128
--mamba-num-groups 8 --mamba-state-dim 128 --seq-length 4096 --max-position-embeddings 131072
--make-vocab-size-divisible-by 1 --padded-vocab-size 131072
""".split()


def written(strategy: ParallelStrategy, job: Workload = JOB) -> dict[str, str]:
    words = arguments(CORE_0_19, job, strategy).arguments
    values = {words[i]: words[i + 1] for i in range(len(words) - 1) if words[i].startswith("--")}
    return {name: values[name] for name in values if "layer" in name or "mamba" in name}


def test_bars_end_virtual_stages_in_the_order_of_the_model() -> None:
    uneven = ParallelStrategy(tp=2, dp=8, pp=4, schedule=Schedule.ONE_F_ONE_B, layer_layout=((13, 13, 14, 12),))
    assert written(uneven) == {
        "--hybrid-layer-pattern": "M-M-M-M*-M-M-|M-M-M*-M-M-M-|M-M*-M-M-M-M-M|*-M-M-M-M-M-",
        "--mamba-num-groups": "8",
        "--mamba-num-heads": "128",
        "--mamba-state-dim": "128",
        "--mamba-head-dim": "64",
    }
    virtual = replace(uneven, vpp=2, schedule=Schedule.INTERLEAVED, layer_layout=((7, 7, 7, 7), (6, 6, 6, 6)))
    stages = written(virtual)["--hybrid-layer-pattern"].split("|")
    assert [len(stage) for stage in stages] == [7, 7, 7, 7, 6, 6, 6, 6]
    assert "".join(stages) == EIGHT.hybrid_layer_pattern
    assert written(replace(uneven, pp=1, dp=32, schedule=Schedule.NONE, layer_layout=None))["--hybrid-layer-pattern"] == (
        EIGHT.hybrid_layer_pattern
    )


def test_a_published_script_is_the_model_of_its_checkpoint() -> None:
    job = read_job(CORE_0_19, NINE_SCRIPT, 8)
    said = replace(NINE, name="", constants=job.model.constants)
    assert job.model == said
    assert (job.model.constants.activation, job.unread) == ("relu2", ())


@pytest.mark.parametrize(
    ("bars", "degrees", "layout"),
    [
        ("M-M-|M*EE", ("4", "2"), ((4, 4),)),
        ("M-M|-M|*E|E", ("1", "2"), ((3, 2), (2, 1))),
        ("M-M-M*EE", ("2", "1"), None),
    ],
)
def test_stages_are_read_from_bars(bars: str, degrees: tuple[str, str], layout: object) -> None:
    devices, pp = degrees
    words = [
        "--num-layers",
        "8",
        "--hidden-size",
        "64",
        "--num-attention-heads",
        "4",
        "--num-experts",
        "4",
        "--vocab-size",
        "1024",
    ]
    words += ["--hybrid-layer-pattern", bars, "--pipeline-model-parallel-size", pp, "--position-embedding-type", "none"]
    job = read_job(CORE_0_19, words, int(devices) * int(pp))
    read = job.strategy.layer_layout
    assert job.model.hybrid_layer_pattern == "M-M-M*EE"
    assert (job.strategy.pp, job.strategy.vpp) == (int(pp), len(layout) if isinstance(layout, tuple) else 1)
    assert read in (layout, None)
    assert job.model.no_positions
    assert job.model.local_attention is not None
    assert job.model.local_attention.num_value_heads == 2 * 64 // 64  # twice the hidden size in heads of 64


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--hybrid-layer-pattern", "M-G-"], "layers G are not priced"),
        (["--hybrid-layer-pattern", "MEME"], "has layers E, and num-experts is not given"),
        (["--hybrid-layer-pattern", "M-|M-|M-", "--pipeline-model-parallel-size", "2"], "has 3 stages, and pp 2 does not"),
    ],
)
def test_patterns_that_are_not_understood_are_refused(more: list[str], sentence: str) -> None:
    with pytest.raises(ReadingError, match=sentence):
        read_job(CORE_0_19, ["--hidden-size", "64", "--num-attention-heads", "4", *more], 2)


def test_prediction_beside_such_layers_is_not_understood() -> None:
    words = ["--hidden-size", "64", "--num-attention-heads", "4", "--hybrid-layer-pattern", "M-M-/*-/*-"]
    assert [entry.name for entry in read_job(CORE_0_19, words, 1).unread] == ["hybrid-layer-pattern"]


def test_other_stacks_than_the_usual_are_not_understood() -> None:
    words = ["--hidden-size", "64", "--num-attention-heads", "4", "--hybrid-layer-pattern", "M-M-", "--spec"]
    usual = [*words, "megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"]
    assert [entry.name for entry in read_job(CORE_0_19, usual, 1).unread] == []
    assert [entry.name for entry in read_job(CORE_0_19, [*words, "my.own", "stack"], 1).unread] == ["spec"]


def test_a_convolution_or_chunk_that_no_argument_has_is_refused() -> None:
    local = NANO.local_attention
    assert local is not None
    for changed, named in ((replace(local, conv_kernel=8), "conv_kernel 8"), (replace(local, chunk_size=256), "chunk_size 256")):
        flat = CORE_0_19.models.flat(replace(NANO, local_attention=changed), seq_length=8192)
        assert [words for fact, words in CORE_0_19.models.unsayable(CORE_0_19.release, flat) if fact.priced] == [named]


def test_core_0_12_cannot_be_told() -> None:
    flat = CORE_0_12.models.flat(EIGHT, seq_length=8192)
    priced = [words for fact, words in CORE_0_12.models.unsayable(CORE_0_12.release, flat) if fact.priced]
    assert priced == ["state spaces", "layers of one block each"]
    assert [said(words, "zh") for words in priced] == ["状态空间层", "每层只有一个块的层"]


def starts(heads: int, groups: int, tp: int, cp: int) -> bool:
    """Whether MambaMixer and MambaContextParallel are built [megatron-0.19, mamba_mixer.py, mamba_context_parallel.py]."""
    if heads % tp or groups % tp:
        return False
    if cp == 1:
        return True
    own_heads, own_groups = heads // tp, groups // tp
    return own_heads % cp == 0 and (cp % own_groups == 0 if own_groups < cp else own_groups % cp == 0)


@pytest.mark.parametrize(("heads", "groups"), [(64, 8), (128, 8), (24, 8), (48, 12), (16, 1), (36, 6)])
def test_tp_and_cp_are_those_that_state_spaces_are_built_with(heads: int, groups: int) -> None:
    job = hybrid_job(heads, groups)
    both: set[bool] = set()
    for tp, cp, algo in product((1, 2, 4, 8), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (CpAlgo.RING, CpAlgo.ULYSSES)):
        rules = {violation.rule for violation in violations(job, divided(tp, cp, algo), "any")}
        legal = not rules & {"state_space_heads", "heads_per_tp", "local_attention_ring"}
        assert legal is starts(heads, groups, tp, cp), (tp, cp, algo)
        assert ("ulysses_heads" in rules) is (algo is CpAlgo.ULYSSES and cp > 1 and 32 % (tp * cp) > 0), (tp, cp)
        both.add(legal)
    assert both == {True, False}


def test_no_file_is_written_for_a_fine_tune_of_such_layers() -> None:
    plan = ParallelStrategy(tp=2, dp=2048)
    tuned = replace(JOB, training=replace(JOB.training, task=TrainingTask(Task.SFT)))
    assert launch_block(JOB, plan)["megatron-lm"]["arguments"]
    entry = launch_block(tuned, plan)["megatron-lm"]
    assert entry["arguments"] is None
    assert any("layers of one block is written for pretrain, not sft" in note for note in entry["notes"])


def test_no_file_of_mindformers_is_written_as_another_model() -> None:
    entry = launch_block(hybrid_job(64, 8), divided(2, 1))["mindformers"]
    assert entry["arguments"] is None
    assert any("cannot be told layers of one block each; layers with linear attention" in note for note in entry["notes"])
