"""``meshplan verify`` on counts of Megatron-LM 0.19 that were recorded once, and on processes that stand for a user's Python."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli.main import main
from app.jobs.job import load_job
from app.verification.process import counts_of, read_counts
from app.verification.service import verification_document
from cost_models.memory.held_layers import FINAL_NORM_INPUTS, module_inputs
from cost_models.shapes.strategy import StrategyBatch
from documents.errors import InputError

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "verification"
PLAN, COUNTS = FOLDER / "llama-3.1-70b.job.yaml", FOLDER / "llama-3.1-70b.counts.json"


def verified(change: Any = None) -> Any:
    counts = json.loads(COUNTS.read_text())
    if change is not None:
        change(counts)
    found = read_counts(json.dumps(counts), "counts")
    return verification_document(load_job(str(PLAN), {}, {}), lambda _question: found, None, [])


def wrong(document: Any) -> set[tuple[str, str]]:
    return {(row.quantity, row.detail) for rank in document.ranks for row in rank.rows if not row.within}


def test_the_price_of_a_full_size_plan_is_what_the_framework_counted() -> None:
    document = verified()
    assert document.passed
    assert [rank.pipeline_rank for rank in document.ranks] == [0, 1, 2, 3]
    rows = {(row.quantity, row.detail): row for row in document.ranks[0].rows}
    # By hand: (10,240 + 8,192 + 3 x 28,672 rows of 8,192) / 4 in each of 20 layers, their norms, and the embedding / 4.
    layer = (10_240 * 8_192 + 8_192 * 8_192 + 3 * 28_672 * 8_192) // 4 + 2 * 8_192
    assert rows["parameters", ""].counted == 20 * layer + 128_256 * 8_192 // 4
    # Keys and values of 4,096 tokens go to the other rank of two, three times a layer and micro batch.
    assert rows["sent", "cp"].counted == 3 * 2 * (2 * 128 * 4_096 * 2) * 20 * 8
    assert rows["sent", "pp"].counted == 3 * 8 * 2 * 4_096 * 8_192 // 4  # of four sends of an inner rank three


def test_the_largest_disagreement_comes_first() -> None:
    def change(counts: Any) -> None:
        counts["ranks"][1]["states"]["master"] *= 2

    rank = verified(change).ranks[1]
    assert rank.rows[0].quantity == "master"
    assert rank.rows[0].ratio == pytest.approx(0.5)


def scaled(function: Any, factor: float) -> Any:
    return lambda *values, **keywords: factor * function(*values, **keywords)


def changed(function: Any, **fields: Any) -> Any:
    """The record that a function returns, with fields made of the old ones."""

    def run(*values: Any, **keywords: Any) -> Any:
        made = function(*values, **keywords)
        return replace(made, **{name: change(getattr(made, name)) for name, change in fields.items()})

    return run


def none(value: Any) -> Any:
    return value * 0.0


# A planted error of the model: module, name, the wrong one, and a row that must show it.
ERRORS = {
    "norms keep nothing": (
        "cost_models.layer.activations", "_norm_bytes",
        lambda real: lambda *v, **k: {name: none(part) for name, part in real(*v, **k).items()}, ("kept by a layer", "dense"),
    ),
    "attention keeps its input twice": (
        "cost_models.layer.activations", "attention_bytes_per_token",
        lambda real: lambda *v, **k: tuple(1.5 * part for part in real(*v, **k)), ("kept by a layer", "dense"),
    ),
    "a gather of the backward is missing": (
        "cost_models.step.traffic", "tensor_parallel_comm", lambda real: changed(real, regather_s=none), ("sent", "tp"),
    ),
    "a ring has a hop too many": (
        "cost_models.step.traffic", "context_parallel_comm", lambda real: changed(real, num_hops=lambda n: n + 1),
        ("sent", "cp"),
    ),
    "gradients go to another group": (
        "cost_models.step.traffic", "_gradient_exchange",
        lambda real: lambda *v: dict(zip(("expert_dp", "dp"), real(*v).values(), strict=True)), ("sent", "dp"),
    ),
    "ends of the pipeline send both ways": (
        "cost_models.step.traffic", "pipeline_sends_s", lambda real: scaled(real, 4.0 / 3.0), ("sent", "pp"),
    ),
    "master weights in 16 bits": ("cost_models.memory.model_states", "MASTER_BYTES", lambda _: 2, ("master", "")),
    "one moment": ("cost_models.memory.model_states", "MOMENT_BYTES", lambda _: 4, ("moments", "")),
    "gradients in 16 bits": (
        "cost_models.memory.model_states", "gradient_bytes", lambda real: scaled(real, 0.5), ("gradients", ""),
    ),
    "the final norm is forgotten": (
        "cost_models.memory.model_states", "edge_parameters",
        lambda real: lambda workload, batch: (lambda first, last, *mtp: (first, last - workload.model.hidden_size, *mtp))(
            *real(workload, batch)), ("parameters", ""),
    ),
    "attention's scores are free": (
        "cost_models.shapes.flops", "attention_score_flops_per_token", lambda real: scaled(real, 0.0), ("forward", ""),
    ),
    "a micro batch less is in flight": (
        "cost_models.memory.peak", "saved_bytes", lambda real: scaled(real, 10.0 / 11.0), ("held between passes", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_a_planted_error_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, plant, row = ERRORS[name]
    real = getattr(sys.modules[module], attribute)
    monkeypatch.setattr(sys.modules[module], attribute, plant(real))
    document = verified()
    assert not document.passed
    assert row in wrong(document)


def test_a_run_that_leaves_bytes_is_in_doubt() -> None:
    def change(counts: Any) -> None:
        counts["ranks"][0]["after_step"] += 10**10

    document = verified(change)
    assert not wrong(document)
    assert not document.passed


def test_a_forward_without_backward_is_in_doubt() -> None:
    def change(counts: Any) -> None:
        counts["ranks"][0]["flops"]["backward/matmul"] //= 2

    assert not verified(change).passed


def test_counts_of_another_step_are_refused() -> None:
    def change(counts: Any) -> None:
        counts["ranks"][0]["num_microbatches"] = 4

    with pytest.raises(InputError, match="of a step of 4 micro batches, and this plan's has 8"):
        verified(change)


@pytest.mark.parametrize(("tampered", "code"), [(False, 0), (True, 3)])
def test_the_exit_code_is_the_verdict(tampered: bool, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = json.loads(COUNTS.read_text())
    if tampered:
        counts["ranks"][2]["parameters"][0]["dense"] += 1
    (tmp_path / "counts.json").write_text(json.dumps(counts))
    assert main(["verify", str(PLAN), "--counts", str(tmp_path / "counts.json"), "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is not tampered
    assert len(document["ranks"]) == 4


def test_the_table_names_what_disagrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = json.loads(COUNTS.read_text())
    counts["ranks"][0]["layers"]["dense"] = {"300000000": 5}
    (tmp_path / "counts.json").write_text(json.dumps(counts))
    assert main(["verify", str(PLAN), "--counts", str(tmp_path / "counts.json")]) == 3
    out = capsys.readouterr().out
    first = out.index("pipeline rank 0")
    assert out.index("kept by a layer (dense)", first) < out.index("peak", first)
    assert "0.9376  !" in out
    assert "1 counts disagree." in out
    assert "mlp/linear_fc1" in out  # the largest tensor of such a layer


@pytest.mark.parametrize(
    "given", [["--server", "http://127.0.0.1:1"], ["--keep", "a/b"], ["--server", "http://x", "--keep", "a"]]
)
def test_a_server_and_a_plan_on_it_go_together(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(PLAN), "--counts", str(COUNTS), *given]) == 2
    assert "--server and --keep go together" in capsys.readouterr().err


@pytest.mark.parametrize(("agrees", "said"), [(True, "all counts agree"), (False, "counts disagree")])
def test_a_server_gets_the_counts_as_they_were_counted(
    agrees: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[tuple[Any, ...]] = []

    def keep(*given: Any) -> bool:
        sent.append(given)
        return agrees

    monkeypatch.setattr("app.cli.remote.keep_verification", keep)
    assert main(["verify", str(PLAN), "--counts", str(COUNTS), "--server", "http://x", "--keep", "s1/p1"]) == 0
    ((url, study, plan, counts),) = sent
    assert (url, study, plan) == ("http://x", "s1", "p1")
    assert read_counts(json.dumps(counts), "sent") == read_counts(COUNTS.read_text(), "counts")
    assert f"kept with plan p1 of study s1; by its price, {said}" in capsys.readouterr().err.replace("\n", " ")


def process(tmp_path: Path, body: str) -> Path:
    program = tmp_path / "program.py"
    program.write_text(f"import json, sys\nquestion = json.load(open(sys.argv[1]))\nanswer = sys.argv[2]\n{body}\n")
    return program


def asked(tmp_path: Path, body: str, python: str = sys.executable) -> Any:
    return counts_of({"ranks": [0], "arguments": []}, python, lambda _line: None, process(tmp_path, body))


def answer_with(rank: Any) -> str:
    document = {"protocol": 1, "python": "3.11", "torch": "2.9.1", "seconds": 1.0, "ranks": [rank]}
    return f"json.dump(json.loads({json.dumps(json.dumps(document))}), open(answer, 'w'))"


def test_an_answer_is_read(tmp_path: Path) -> None:
    assert asked(tmp_path, answer_with({"rank": 0, "num_microbatches": 3})).ranks[0].num_microbatches == 3


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (answer_with({"rank": 3, "failed": {"stage": "step", "kind": "UnknownKernelError", "message": "te.Magic"}}),
         "Rank 3: the framework calls te.Magic, and what it keeps is not known"),
        (answer_with({"rank": 0, "failed": {"stage": "import", "kind": "ModuleNotFoundError", "message": "No module 'torch'"}}),
         "No module 'torch'; name an interpreter that has it by --python"),
        (answer_with({"rank": 0, "failed": {"stage": "validate", "kind": "AssertionError", "message": "no", "place": "a.py:1"}}),
         r"stopped at its stage validate: AssertionError: no \(a.py:1\)"),
        ("sys.exit('it broke')", "ended with 1 and without an answer: it broke"),
        ("open(answer, 'w').write('[]')", "no counts of a run"),
        (answer_with({"rank": -1}), "no counts of a run: ranks.0.rank"),
    ],
)  # fmt: skip
def test_a_process_that_does_not_answer_is_told(tmp_path: Path, body: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        asked(tmp_path, body)


def test_an_interpreter_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--python: /no/python does not start"):
        asked(tmp_path, "", "/no/python")


def test_the_question_is_the_launch_file_and_the_ranks_that_differ() -> None:
    found: dict[str, Any] = {}

    def run(question: dict[str, Any]) -> Any:
        found.update(question)
        return read_counts(COUNTS.read_text(), "counts")

    verification_document(load_job(str(PLAN), {}, {}), run, None, ["/there"])
    words = found["arguments"]
    assert words[words.index("--pipeline-model-parallel-size") + 1] == "4"
    assert "--clip-grad" in words  # of the part that is the user's
    assert found["ranks"] == [0, 16, 32, 48]
    assert found["global_batch_size"] == 16  # two rounds of four micro batches on two replicas
    assert found["folders"] == ["/there"]


def test_a_fully_sharded_model_is_compared_by_its_numbers() -> None:
    plan, counts = (FOLDER / f"llama-3.1-8b-fsdp2.{name}" for name in ("job.yaml", "counts.json"))
    asked: dict[str, Any] = {}

    def run(question: dict[str, Any]) -> Any:
        asked.update(question)
        return read_counts(counts.read_text(), "counts")

    document = verification_document(load_job(str(plan), {}, {}), run, None, [])
    assert asked["model"]["num_key_value_heads"] == 8
    assert asked["num_microbatches"] == 2
    assert document.passed
    rows = {(row.quantity, row.detail): row for row in document.ranks[0].rows}
    # Two micro batches gather each layer twice, and the ends once, in 16 bits, and scatter FP32 gradients.
    layers, ends = 8_030_261_248 - 2 * 128_256 * 4_096 - 4_096, 2 * 128_256 * 4_096 + 4_096
    assert rows["sent", "dp"].counted == pytest.approx(2 * (8 * layers + 6 * ends) * 7 / 8, rel=1e-3)
    assert rows["weights", ""].counted == 8_030_261_248 * 4 // 8


def test_the_price_of_a_mixture_is_what_the_framework_counted() -> None:
    counts = read_counts((FOLDER / "deepseek-v3.counts.json").read_text(), "counts")
    document = verification_document(load_job(str(FOLDER / "deepseek-v3.job.yaml"), {}, {}), lambda _question: counts, None, [])
    assert wrong(document) == set()
    rows = {(row.quantity, row.detail): row for row in document.ranks[1].rows}
    assert rows["parameters", "experts"].counted == 4 * 16 * 3 * 7_168 * 2_048
    assert abs((rows["held between passes", ""].ratio or 0.0) - 1.0) < 0.002
    assert abs((rows["sent", "tp"].ratio or 0.0) - 1.0) < 1e-4


def test_merged_passes_and_modules_on_a_stage_of_their_own_are_counted() -> None:
    counts = read_counts((FOLDER / "deepseek-v3-merged.counts.json").read_text(), "counts")
    job = load_job(str(FOLDER / "deepseek-v3-merged.job.yaml"), {}, {})
    document = verification_document(job, lambda _question: counts, None, [])
    # The list of docs/verify.md, and nothing beside it: the last two ranks.
    assert [[row.quantity for row in rank.rows if not row.within] for rank in document.ranks] == [
        [], [], ["held between passes"], ["held between passes"]
    ]  # fmt: skip
    held = [row.ratio for rank in document.ranks for row in rank.rows if row.quantity == "held between passes"]
    assert held == pytest.approx([1.0, 0.994, 0.978, 0.971], abs=0.001)
    # Rank 14 of 16: a chunk of two layers, and then one of a layer and the module. What the module keeps beside its layer is the
    # norm's input and six more, of 4,096 tokens of 7,168 channels in 16 bits over two tensor-parallel ranks.
    held_bytes = [each for _, each in counts.ranks[2].held]
    layers, module = held_bytes[14] - held_bytes[13], held_bytes[17] - held_bytes[16]
    one_input = 2 * 4_096 * 7_168 // 2
    assert (module - layers) / one_input == pytest.approx(7.0, abs=0.01)
    batch = StrategyBatch.of([job.strategy])
    assert (module_inputs(job.workload, batch) + FINAL_NORM_INPUTS).tolist() == [7.0]


def test_the_first_stage_names_what_it_sends_and_a_gradient() -> None:
    counts = read_counts((FOLDER / "glm-4.5-pp2.counts.json").read_text(), "counts")
    document = verification_document(load_job(str(FOLDER / "glm-4.5-pp2.job.yaml"), {}, {}), lambda _question: counts, None, [])
    held = [row for rank in document.ranks for row in rank.rows if row.quantity == "held between passes"]
    assert [row.ratio for row in held] == pytest.approx([1.0, 1.0], abs=0.0005)
    # Two micro batches of three dense layers and, of 4,096 tokens and 5,120 channels in 16 bits, the last output and a gradient.
    (kept,) = (row for row in document.ranks[0].rows if row.quantity == "kept by a layer")
    assert held[0].counted == pytest.approx(2 * 3 * kept.counted + 2 * 2 * 4_096 * 5_120, rel=0.0005)


def of_mindspeed(name: str) -> tuple[Any, dict[str, Any]]:
    """The document of a plan for Ascend, and the question that the framework got."""
    counts = read_counts((FOLDER / f"{name}.counts.json").read_text(), "counts")
    asked: dict[str, Any] = {}

    def run(question: dict[str, Any]) -> Any:
        asked.update(question)
        return counts

    return verification_document(load_job(str(FOLDER / f"{name}.job.yaml"), {}, {}), run, None, []), asked


def test_a_plan_of_mindspeed_llm_is_compared_by_its_own_launch_file() -> None:
    document, asked = of_mindspeed("llama-3.1-70b-a2")
    assert document.framework == "mindspeed-llm@master"
    assert asked["framework"] == "mindspeed-llm"
    words = asked["arguments"]
    assert words[words.index("--noop-layers") + 1] == "20,41,82,83"
    assert {"--use-ascend-mc2", "--recompute-norm", "--recompute-activation-function"} <= {*words}
    # The list of docs/verify.md, and nothing beside it.
    known = {("kept by a layer", "dense"), ("held between passes", ""), ("peak", "")}
    assert wrong(document) <= known
    first = {(row.quantity, row.detail): row for row in document.ranks[0].rows}
    assert abs((first["peak", ""].ratio or 0.0) - 1.0) <= 0.02
    assert abs((first["held between passes", ""].ratio or 0.0) - 1.0) <= 0.01
    # By hand: two norms' inputs, q after rotation and the output (8,192 wide), the projection of q, k and v (10 heads), k after
    # rotation (1 head), gate and up (57,344 / 8), each of 16,384 / 8 rows or of an eighth of the width; 8 FP32 twice for each of
    # the rank's 8 heads and 16,384 rows; cos and sin of q and of k, 8,192 rows of 128. Norms' and activation's outputs are freed.
    rows = 16_384
    wide = 2 * rows * (4 * 8_192 // 8 + 10 * 128 + 128 + 57_344 // 8)
    assert first["kept by a layer", "dense"].counted == wide + 2 * 8 * 4 * 8 * rows + 4 * 2 * 8_192 * 128
    # Every layer gathers before two matmuls and scatters after two, and gathers again before two weight gradients; the embedding
    # scatters once and the head, which is on the other rank, does neither.
    passes = 41 * 4 * (4 + 4 + 2) + 2 * 4
    assert first["sent", "tp"].counted == pytest.approx(2 * rows * 8_192 * 7 / 8 * passes, rel=1e-3)


def test_a_mixture_of_mindspeed_llm_is_compared_by_its_own_launch_file() -> None:
    document, asked = of_mindspeed("qwen3-30b-a3b-a2")
    assert {"--moe-grouped-gemm", "--moe-permute-fusion"} <= {*asked["arguments"]}
    assert asked["ranks"] == [0, 16, 48]  # of four, the two inner ones hold the same
    assert wrong(document) == set()
    for rank in document.ranks[:2]:
        rows = {(row.quantity, row.detail): row for row in rank.rows}
        assert abs((rows["peak", ""].ratio or 0.0) - 1.0) <= 0.02
        assert abs((rows["held between passes", ""].ratio or 0.0) - 1.0) <= 0.01
        # By hand: 12 layers of 16 experts with three matrices of 2,048 by 768.
        assert rows["parameters", "experts"].counted == 12 * 16 * 3 * 2_048 * 768
        # Four exchanges of 65,536 rows in each layer and micro batch, of eight ranks with 2,048 of 16 bits and one weight a row.
        assert rows["sent", "ep"].counted == pytest.approx(4 * 12 * 8 * 65_536 * 2 * 2_048 * 7 / 8, rel=1e-3)
        # MindSpeed gathers the parameters once a step: scattered as FP32, gathered as 16 bits.
        assert rows["sent", "dp"].counted == pytest.approx(rows["parameters", ""].counted * (4 + 2) * 15 / 16)


def test_a_plan_of_dualpipev_is_compared_by_its_own_launch_file() -> None:
    document, asked = of_mindspeed("qwen3-30b-a3b-dualpipev")
    words = asked["arguments"]
    assert {"dualpipev", "--dualpipev-dw-detach", "--moe-fb-overlap", "--reuse-fp32-param", "level0"} <= {*words}
    assert words[words.index("--noop-layers") + 1] == "0,1,7,14,21,53,54,55"
    assert asked["ranks"] == [0, 16, 48]
    # The list of docs/verify.md, and nothing beside it: the peak of the first rank.
    assert wrong(document) == {("peak", "")}
    for rank, layers in zip(document.ranks, (9, 13, 13), strict=True):
        rows = {(row.quantity, row.detail): row for row in rank.rows}
        # By hand: experts' three matrices, 16 a layer. Weights in 16 bits are the upper halves of the master weights, whose
        # lower halves remain: 2 bytes, over 16 ranks, or over the 2 that share experts.
        experts = layers * 16 * 3 * 2_048 * 768
        assert rows["parameters", "experts"].counted == experts
        assert rows["master", ""].counted == pytest.approx(rows["parameters", ""].counted * 2 / 16 + experts * 2 / 2, rel=1e-5)
        # Five exchanges of 65,536 rows in each layer and micro batch: the backward repeats the dispatch, without weights.
        sent = (5 * 2 * 2_048 + 2 * 4) * 65_536 * 7 / 8
        assert rows["sent", "ep"].counted == pytest.approx(layers * 8 * sent, rel=1e-3)
        assert abs((rows["held between passes", ""].ratio or 0.0) - 1.0) <= 0.01
    for rank in document.ranks[1:]:
        (peak,) = (row for row in rank.rows if row.quantity == "peak")
        assert abs((peak.ratio or 0.0) - 1.0) <= 0.02


def test_a_target_that_nobody_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = FOLDER / "qwen3-30b-a3b-a2.job.yaml"
    assert main(["verify", str(plan), "--counts", str(COUNTS), "--target", "mindformers"]) == 2
    assert "mindformers does not run without data" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "deepseek-v3"])
def test_a_model_that_fsdp2_is_not_verified_for_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text((FOLDER / "llama-3.1-8b-fsdp2.job.yaml").read_text().replace("model: llama-3.1-8b", f"model: {model}"))
    assert main(["verify", str(plan), "--counts", str(COUNTS)]) == 2
    assert "FSDP2 is verified for dense models of transformers (llama, qwen3)" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "sentence"), [("9", "0 to 3"), ("a", "give numbers"), ("", "give numbers")])
def test_ranks_that_the_plan_has_not_are_refused(flag: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(PLAN), "--counts", str(COUNTS), f"--ranks={flag}"]) == 2
    assert sentence in capsys.readouterr().err


def test_a_plan_that_the_framework_does_not_take_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.read_text().replace("target: megatron-lm@0.19", "target: any").replace("zero_stage: 1", "zero_stage: 3"))
    assert main(["verify", str(plan), "--counts", str(COUNTS)]) == 2
    assert "cannot run this plan" in capsys.readouterr().err


@pytest.mark.parametrize("hardware", ["h100-sxm-80gb", "atlas-800t-a2"])
def test_a_task_that_starts_another_program_is_refused_by_name(
    hardware: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"model: qwen3-8b\ncluster: {{hardware: {hardware}, num_devices: 8}}\n"
        "training: {task: lora, adapter: {rank: 16}, seq_length: 4096, global_batch_size: 32}\n"
        "software: {target: any}\nstrategy: {tp: 2, pp: 2}\n"
    )
    assert main(["verify", str(plan)]) == 2
    assert "training.task lora: its launch file starts another program than pretrain_gpt.py" in capsys.readouterr().err


def test_bytes_of_all_ranks_are_those_of_the_slowest_tier_of_each() -> None:
    """The plan's own traffic and the flat count agree where a group stays within a node."""
    from cost_models.constants import prior_constants
    from cost_models.step.traffic import sent_bytes, step_traffic

    job = load_job(str(PLAN), {}, {})
    assert job.strategy is not None
    constants = prior_constants(job.workload.cluster.profile.family)
    flat = sent_bytes(job.workload, job.strategy, constants)
    for group in step_traffic(job.workload, job.strategy, constants):
        if len(group.tiers) == 1:
            assert np.max(flat[group.group]) == pytest.approx(group.tiers[0].bytes_moved), group.group
