"""Python configurations of torchtitan: read from a syntax tree that is never run, and edited where the value stands."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from time import process_time

import pytest

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from app.launch_scripts.forms import form_of
from app.launch_scripts.launch import Given
from app.launch_scripts.python_launch import PythonLaunch
from app.launch_scripts.reading import read_launch, read_script_job
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from documents.errors import InputError
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.legality import violations
from frameworks.registry import BY_LABEL
from tests.unit.frameworks.torchtitan_cases import EXPERTS, PIPELINE

RELEASE = BY_LABEL["torchtitan@2026.08"].release
TEXT = '''"""A file of one's own, with ü."""

from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer


def mine() -> Trainer.Config:
    """As the release's own functions."""
    model_spec = model_registry("8B")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(
            loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),
        ),
        hf_assets_path="./ü",
        model_spec=model_spec,
        optimizer=default_adamw(lr=-3e-4),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192),
        parallelism=ParallelismConfig(
            tensor_parallel_degree=2,  # inside a node
            module_fqns_per_model_part=[["tok_embeddings"], ["norm", "lm_head"]],
        ),
        activation_checkpoint=None,
    )
'''


def launch(text: str = TEXT) -> PythonLaunch:
    return PythonLaunch(text, Given("mine.py"), RELEASE)


def test_values_are_read_by_path_with_their_lines() -> None:
    read = launch()
    assert dict(entry.split("=", 1) for entry in read.arguments) == {
        "loss": '"ChunkedLossWrapper"',
        "loss.loss_fn": '"CrossEntropyLoss"',
        "loss.loss_fn.global_vocab_size": "null",
        "hf_assets_path": '"./\\u00fc"',
        "model_spec.name": '"llama3"',
        "model_spec.flavor": '"8B"',
        "optimizer": '"default_adamw"',
        "optimizer.lr": "-0.0003",
        "training.num_tokens_per_microbatch_per_dp_rank": "16384",
        "training.max_context_length": "8192",
        "parallelism.tensor_parallel_degree": "2",
        "parallelism.module_fqns_per_model_part": '[["tok_embeddings"], ["norm", "lm_head"]]',
        "activation_checkpoint": '"None"',
    }
    assert BY_LABEL["torchtitan@2026.08"].read_job(read.arguments, 8).loss_chunks == 8
    assert not any("vocab" in entry.name for entry in BY_LABEL["torchtitan@2026.08"].read_job(read.arguments, 8).unread)
    assert read.line_of("model_spec.flavor") == 14
    assert read.line_of("parallelism.tensor_parallel_degree") == 24
    assert read.line_of("training.steps") is None


@pytest.mark.parametrize(
    ("name", "value", "piece"),
    [
        ("parallelism.tensor_parallel_degree", "4", "tensor_parallel_degree=4,  # inside a node"),
        ("training.max_context_length", "4096", "max_context_length=4096)"),
        ("training.num_tokens_per_microbatch_per_dp_rank", "8192", "(num_tokens_per_microbatch_per_dp_rank=8192, "),
        ("training.disable_cuda_graphs", "true", "max_context_length=8192, disable_cuda_graphs=True)"),
        ("compile.enable", "true", "compile=CompileConfig(enable=True)"),
        ("activation_checkpoint", '"FullAC"', "activation_checkpoint=FullAC.Config(),"),
        ("model_spec.flavor", '"70B"', 'model_registry("70B")'),
        ("model_spec.attn_backend", '"varlen"', 'model_registry("8B", attn_backend="varlen")'),
        ("hf_assets_path", '"x"', 'hf_assets_path="x",'),
    ],
)
def test_a_value_is_set_where_it_stands_or_in_its_call(name: str, value: str, piece: str) -> None:
    read = launch()
    changed = read.again(next(read.with_values(name, (value,))))
    assert piece in changed.text
    assert changed.said() == {**read.said(), name: (value,)}
    imported = {alias.name for each in ast.parse(changed.text).body if isinstance(each, ast.ImportFrom) for alias in each.names}
    called = {node.id for node in ast.walk(ast.parse(changed.text)) if isinstance(node, ast.Name) and node.id[0].isupper()}
    assert called <= imported


def test_a_value_is_left_out_with_its_name() -> None:
    read = launch()
    for name in ("parallelism.module_fqns_per_model_part", "parallelism.tensor_parallel_degree"):
        changed = read.again(next(read.without(name)))
        assert changed.said() == {other: v for other, v in read.said().items() if other != name}
    assert list(read.without("training.steps")) == []
    assert list(read.without("model_spec.flavor")) == []


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("odd", ["\u2028", "\u0085", "\x0b", "\x0c", "\x1d"])
def test_an_edit_stands_in_its_place_behind_odd_characters(line_end: str, odd: str) -> None:
    read = launch(TEXT.replace("own", f"o{odd}n").replace("inside", f"{odd}in").replace("\n", line_end))
    tensor, options = "parallelism.tensor_parallel_degree", read.said()
    for text in (*read.with_values(tensor, ("16",)), *read.with_values("model_spec.attn_backend", ('"varlen"',))):
        assert len(read.again(text).said().items() - options.items()) == 1
        assert odd in text
    assert read.again(next(read.without(tensor))).said() == {name: v for name, v in options.items() if name != tensor}


IN_PARENTHESES = """ParallelismConfig(
            pipeline_parallel_schedule=("GPipe"),  # ), one of them
            tensor_parallel_degree=((2)  # ) and ,
            ),
            module_fqns_per_model_part=([["a"], ["norm"]]), context_parallel_degree=(
                1  # )
            )  # ,
        ),"""


def test_values_in_parentheses_are_edited_with_them() -> None:
    text = TEXT[: TEXT.index("ParallelismConfig(\n")] + IN_PARENTHESES + TEXT[TEXT.index("\n        activation_checkpoint") :]
    read = launch(text.replace('model_registry("8B")', 'model_registry(("8B"))'))
    said, field = read.said(), "parallelism."
    assert (said[f"{field}tensor_parallel_degree"], said[f"{field}context_parallel_degree"]) == (("2",), ("1",))
    for name in said:
        if name.startswith(field):
            assert read.again(next(read.without(name))).said() == {other: v for other, v in said.items() if other != name}
            assert read.again(next(read.with_values(name, ("7",)))).said() == {**said, name: ("7",)}
    for name, value in ((f"{field}expert_parallel_degree", "1"), ("model_spec.attn_backend", '"flex"')):
        assert read.again(next(read.with_values(name, (value,)))).said() == {**said, name: (value,)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tensor_parallel_degree=2,", "tensor_parallel_degree=int(2),", "line 24: int has a value without a name"),
        ("tensor_parallel_degree=2,", "**MORE,", "has \\*\\* values"),
        ("tensor_parallel_degree=2,", "tensor_parallel_degree=DEGREE,", "is computed"),
        (
            "activation_checkpoint=None",
            "activation_checkpoint=FullAC()",
            "activation_checkpoint is built by FullAC.Config, and FullAC is not read",
        ),
        ("model_spec=model_spec,", "model_spec=model_spec, model_spec=model_spec,", "not valid Python"),
        ("parallelism=ParallelismConfig(", "parallelism=own(", "parallelism is built by ParallelismConfig, and own is not read"),
        ('model_spec = model_registry("8B")', "import os; os.abort()", "only names with a value"),
        ("def mine()", "def other(): pass\n\n\ndef mine()", "2 functions"),
        ("def mine()", "DEGREE = 2\n\n\ndef mine()", "only imports and one function"),
        ("models.llama3 import", "models.common import", "common 8B is no flavor"),
        ("import model_registry", "import model_registry as registry", "imported as another"),
        ("def mine() -> Trainer.Config:", "@cache\ndef mine() -> Trainer.Config:", "decorators"),
        ("return Trainer.Config(", "return (", "not valid Python|returns no"),
        ("def mine()", "def mine(x, /)", "arguments or decorators"),
        ("def mine()", "def mine(*, x=1)", "arguments or decorators"),
        ("from torchtitan.config import", "from mine import", "is not imported from torchtitan.config"),
        ("from torchtitan.trainer import", "from .trainer import", "Trainer is not imported from torchtitan.trainer"),
        ("from torchtitan.models.common.config_utils import", "from mine import", "decoder_vocab_size is not imported"),
        ("from torchtitan.models.llama3 import", "from mine import", "model_registry is not imported from torchtitan.models"),
        ("\n\n\ndef", "\nfrom mine import model_registry\n\n\ndef", "line 10: model_registry has two meanings"),
        ("\n\n\ndef", "\nimport TrainingConfig\n\n\ndef", "TrainingConfig has two meanings"),
        ("\n\n\ndef", "\nimport mine as TrainingConfig\n\n\ndef", "imported as another"),
        ("\n\n\ndef", "\nfrom mine import *\n\n\ndef", "all names"),
        ("def mine()", "def Trainer()", "Trainer has two meanings"),
        ("    model_spec =", "    TrainingConfig = 1\n    model_spec =", "TrainingConfig has two meanings"),
        ("        optimizer=", "        metrics=Mine.Config(),\n        optimizer=", "Mine is not imported from torchtitan"),
        ("decoder_vocab_size(model_spec)", 'decoder_vocab_size(model_registry("70B"))', "global_vocab_size is computed"),
        ("decoder_vocab_size(model_spec)", "decoder_vocab_size()", "global_vocab_size is computed"),
        ("decoder_vocab_size(model_spec)", "999", "global_vocab_size is 999, and llama3 8B has 128256 rows"),
        ('"./ü"', f"({'1, ' * 60_000})", "hf_assets_path is 180000 characters long"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises((InputError, ValueError), match=words):
        BY_LABEL["torchtitan@2026.08"].read_job(launch(TEXT.replace(old, new)).arguments, 8)


def test_a_data_set_is_one_of_torchtitan() -> None:
    text = TEXT.replace('"./ü"', 'DATASETS["c4"]')
    assert launch(text).said()["hf_assets_path"] == ('"c4"',)
    with pytest.raises(InputError, match=r"DATASETS is not imported from torchtitan\.hf_datasets"):
        launch(text.replace("from torchtitan.hf_datasets.text_datasets", "from mine"))


def test_a_class_of_torchtitan_is_read_from_the_module_that_defines_it() -> None:
    text = TEXT.replace("from torchtitan.config import", "from torchtitan.config.configs import")
    assert launch(text).said() == launch().said()
    metrics = "from torchtitan.components.metrics import MetricsProcessor\n\n\ndef"
    text = TEXT.replace("\n\ndef", metrics).replace(
        "    optimizer=", "    metrics=MetricsProcessor.Config(log_freq=1),\n        optimizer="
    )
    assert launch(text).said()["metrics"] == ('"MetricsProcessor"',)


def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    found = tmp_path / "found"
    text = TEXT.replace('"./ü"', f'open("{found}", "w").name')
    with pytest.raises(InputError, match="hf_assets_path is computed"):
        launch(text)
    assert not found.exists()


def test_a_text_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InputError, match="not valid Python"):
        launch(TEXT.replace("own", "\ud800"))


def test_many_imports_are_told_from_a_configuration_in_little_time() -> None:
    text = "from torchtitan.a import b\n" * 10_000
    start = process_time()
    assert form_of(text) == "sh"
    assert form_of(f"    return Trainer.Config(\n{text}") == "sh"
    assert form_of(f"{text}def mine():\n    return Trainer.Config(\n") == "torchtitan.py"
    assert process_time() - start < 2


def test_a_configuration_is_recognised_and_read_for_main() -> None:
    assert form_of(TEXT) == "torchtitan.py"
    assert form_of("#!/usr/bin/env python3\n" + TEXT) == "py"
    assert read_launch(TEXT, Given("x.py"), "nvidia", None)[1].target.label == "torchtitan@2026.08"
    with pytest.raises(InputError, match=r"does not start from such a file; give torchtitan@2026\.08"):
        read_launch(TEXT, Given("x.py"), "nvidia", "megatron-lm")


def job_of(model: str) -> Workload:
    cluster, training = {"hardware": "h100-sxm-80gb", "num_devices": 64}, {"seq_length": 4096, "global_batch_size": 128}
    return parse_job(
        {"model": model, "cluster": cluster, "training": training, "software": {"target": "torchtitan@main"}}
    ).workload


@pytest.mark.parametrize(
    ("model", "planned"),
    [
        ("qwen3-30b-a3b", replace(PIPELINE, tp=1, pp=2, dp=32, ep=8, sequence_parallel=False, dispatcher=Dispatcher.ALLTOALL)),
        ("qwen3-30b-a3b", EXPERTS),
        ("llama-3.1-8b", PIPELINE),
    ],
)
def test_a_written_plan_with_pipelines_or_experts_starts_and_has_its_price(model: str, planned: ParallelStrategy) -> None:
    workload = job_of(model)
    profile = workload.cluster.profile
    strategy, _ = BY_LABEL["torchtitan@2026.08"].nearest(workload, planned)
    assert not violations(workload, strategy)
    assert (strategy.pp, strategy.ep) == (planned.pp, planned.ep)
    _, text = launch_file("torchtitan", launch_block(workload, strategy)["torchtitan"], Start("Plan 1", 64, 8))
    read = read_script_job(text, Given("plan.py"), profile, profile.name).job
    assert read.strategy is not None
    assert (read.strategy.pp, read.strategy.ep, read.strategy.tp) == (strategy.pp, strategy.ep, strategy.tp)
    pairs = ((workload, strategy), (read.workload, read.strategy))
    told, again = (estimate(of, StrategyBatch.of([s]), constants_for(of, [])) for of, s in pairs)
    assert told.step_time_s == pytest.approx(again.step_time_s)
    assert told.peak_memory_bytes == pytest.approx(again.peak_memory_bytes)
    (graphs,) = PythonLaunch(text, Given("plan.py"), RELEASE).with_values("training.disable_cuda_graphs", ("false",))
    with pytest.raises(InputError, match=r"does not start: .* and training\.disable_cuda_graphs"):
        read_script_job(graphs, Given("plan.py"), profile, profile.name)


def test_context_parallelism_over_lengths_does_not_start() -> None:
    text = TEXT.replace("tensor_parallel_degree=2", "context_parallel_degree=2").replace("module_fqns", "# module_fqns")
    text = text.replace('model_registry("8B")', 'model_registry("8B", attn_backend="varlen")')
    with pytest.raises(InputError, match=r"does not start: .*context_parallel_degree>1 and model_spec\.attn_backend=varlen"):
        read_script_job(text, Given("plan.py"), job_of("llama-3.1-8b").cluster.profile, "h100-sxm-80gb", devices=16)
