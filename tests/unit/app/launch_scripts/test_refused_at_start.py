"""A script that the validator of Megatron-LM refuses is refused; the cases are assertions of ``validate_args``, read by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.main import main

MODEL = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear --vocab-size 32000 "
    "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 64 --bf16 --sequence-parallel "
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-distributed-optimizer --attention-dropout 0 "
    "--hidden-dropout 0"
)
LATENT = (
    "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128"
)


def script(tmp_path: Path, added: str) -> str:
    path = tmp_path / "pretrain.sh"
    path.write_text(f"torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py {MODEL} {added}\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", ["estimate", "tune"])
@pytest.mark.parametrize(
    ("target", "added", "reason"),
    [
        ("megatron-lm@0.12", "--fp16", "fp16 and bf16 exclude each other"),
        ("megatron-lm@0.19", "--fp16", "fp16 and bf16 exclude each other"),
        (
            "megatron-lm@0.12",
            "--num-layers-per-virtual-pipeline-stage 4 --decoder-first-pipeline-num-layers 15",
            "num-layers-per-virtual-pipeline-stage and decoder-first-pipeline-num-layers exclude each other",
        ),
        (
            "megatron-lm@0.19",
            "--pipeline-model-parallel-layout 'Et*16|t*16L' --decoder-first-pipeline-num-layers 15",
            "pipeline-model-parallel-layout and decoder-first-pipeline-num-layers exclude each other",
        ),
        (
            "megatron-lm@0.19",
            "--num-layers-per-virtual-pipeline-stage 4 --num-virtual-stages-per-pipeline-rank 4",
            "num-layers-per-virtual-pipeline-stage and num-virtual-stages-per-pipeline-rank exclude each other",
        ),
        (
            "megatron-lm@0.12",
            "--recompute-granularity selective --recompute-method block",
            "recompute-granularity=selective and recompute-method exclude each other",
        ),
        ("megatron-lm@0.12", "--optimizer-cpu-offload", "optimizer-cpu-offload needs use-precision-aware-optimizer"),
        (
            "megatron-lm@0.12",
            "--tp-comm-overlap --tensor-model-parallel-size 1",
            "tp-comm-overlap and tensor-model-parallel-size=1 exclude each other",
        ),
        (
            "megatron-lm@0.12",
            "--recompute-activations --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
            "recompute-granularity=selective and recompute-method exclude each other",
        ),
        (
            "megatron-lm@0.19",
            "--recompute-granularity selective --recompute-modules gdn_norm_out",
            "recompute-granularity=selective and recompute-modules=gdn_norm_out needs experimental-attention-variant=",
        ),
        ("megatron-lm@0.19", "--ckpt-format fsdp_dtensor", "ckpt-format=fsdp_dtensor needs use-megatron-fsdp"),
        ("megatron-lm@0.12", "--max-position-embeddings 8k", "max-position-embeddings: '8k' is no integer"),
        ("megatron-lm@0.19", "--tensor-model-parallel-size 2.0", "tensor-model-parallel-size: '2.0' is no integer"),
        ("megatron-lm@0.19", "--max-position-embeddings 2048", "max-position-embeddings 2048 is less than seq-length 4096"),
    ],
)
def test_what_the_validator_refuses_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, target: str, added: str, reason: str
) -> None:
    path = script(tmp_path, added)
    assert main([command, path, "--hardware", "h100-sxm-80gb", "--target", target]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"meshplan: {path}: this script does not start: {reason}")
    assert said.rstrip().endswith(f"({target}).")


def test_a_release_that_starts_a_script_is_preferred(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Latent attention of 0.12 refuses the fused rotary embedding, which a later release has."""
    path, flags = script(tmp_path, LATENT), ("--hardware", "h100-sxm-80gb")
    assert main(["estimate", path, *flags]) == 0
    assert "target megatron-lm@0.19" in capsys.readouterr().out
    assert main(["estimate", path, *flags, "--target", "megatron-lm@0.12"]) == 2
    assert "multi-latent-attention needs no-rope-fusion" in capsys.readouterr().err


def test_what_starts_without_effect_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Query groups without --group-query-attention are dropped without a word."""
    assert main(["estimate", script(tmp_path, "--num-query-groups 8"), "--hardware", "h100-sxm-80gb"]) == 0
    assert "num-query-groups>1 needs group-query-attention" in capsys.readouterr().err


QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
SHARDED = {
    "0.12": "--use-custom-fsdp --overlap-grad-reduce --overlap-param-gather",
    "0.19": "--use-megatron-fsdp --ckpt-format fsdp_dtensor --megatron-fsdp-main-grads-dtype bf16",
}
FSDP = "--data-parallel-sharding-strategy optim_grads_params --no-gradient-accumulation-fusion --pipeline-model-parallel-size 1 "
UNSAID = f"needs {QUEUES}=1 on a GPU before Blackwell, which the script does not export"


def estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str], added: str, *flags: str, before: str = "") -> tuple[int, str]:
    """Exit code, and what is said of a script that is priced on H100 unless a flag says otherwise."""
    path = Path(script(tmp_path, added))
    path.write_text(before + path.read_text(encoding="utf-8"), encoding="utf-8")
    hardware = () if "--hardware" in flags else ("--hardware", "h100-sxm-80gb")
    code = main(["estimate", str(path), "--json", *hardware, *flags])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    "before",
    [
        f"export {QUEUES}=1\n",
        f"{QUEUES}=1 ",
        f"env {QUEUES}=1 ",
        f'{QUEUES}="1" ',
        f"FOO='a b' {QUEUES}=1 ",
        f'A="x = 2" \\\n  B=$HOME {QUEUES}=1 ',
    ],
)
@pytest.mark.parametrize("release", SHARDED)
def test_full_sharding_does_not_start_with_one_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], release: str, before: str
) -> None:
    """[megatron-0.12, arguments.py:567] [megatron-0.19, arguments.py:1143]"""
    code, said = estimate(tmp_path, capsys, FSDP + SHARDED[release], "--target", f"megatron-lm@{release}", before=before)
    assert code == 2
    assert f"does not start: {QUEUES}=1 excludes {SHARDED[release].split()[0][2:]} [megatron-{release}, arguments.py]" in said


def test_what_a_program_is_given_is_no_variable_in_front(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = estimate(tmp_path, capsys, f"{FSDP} {SHARDED['0.19']}", before=f"{QUEUES}=8 srun --export {QUEUES}=1 ")
    assert (code, QUEUES in said) == (0, False), said


def test_gathers_overlap_beside_scatters_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """[megatron-0.19, arguments.py:994]; overlap is fixed on under Megatron-FSDP, but the script does not start."""
    lone, both = "--overlap-param-gather", "--overlap-param-gather --overlap-grad-reduce"
    for strategy in ("optim_grads_params", "optim_grads"):
        added = f"{FSDP} {SHARDED['0.19']} --data-parallel-sharding-strategy {strategy}"
        code, said = estimate(tmp_path, capsys, f"{added} {lone}", "--target", "megatron-lm@0.19")
        assert code == 2
        assert "use-megatron-fsdp and overlap-param-gather needs overlap-grad-reduce [megatron-0.19, arguments.py]" in said
        code, said = estimate(tmp_path, capsys, f"{added} {both}", "--target", "megatron-lm@0.19")
        assert (code, "does not start" in said) == (0, False), said


def test_full_sharding_starts_with_more_queues_and_without_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for before in ("", f"export {QUEUES}=8\n"):
        code, said = estimate(tmp_path, capsys, FSDP + SHARDED["0.19"], before=before)
        assert (code, QUEUES in said) == (0, False), said


@pytest.mark.parametrize("release", SHARDED)
def test_split_tensors_need_one_queue_before_blackwell(tmp_path: Path, capsys: pytest.CaptureFixture[str], release: str) -> None:
    """Another number is refused; none may come from outside of the script, which is said. [megatron-0.19, arguments.py:1413]"""
    target = ("--target", f"megatron-lm@{release}")
    code, said = estimate(tmp_path, capsys, "", *target, before=f"export {QUEUES}=8\n")
    assert code == 2
    assert f"tensor-model-parallel-size>1 needs {QUEUES}=1 on a GPU before Blackwell, not 8" in said
    code, said = estimate(tmp_path, capsys, "", *target)
    assert (code, UNSAID in said) == (0, True)
    one, newer, alone = (
        estimate(tmp_path, capsys, "", *target, before=f"export {QUEUES}=1\n"),
        estimate(tmp_path, capsys, "", *target, "--hardware", "b200-sxm-180gb"),
        estimate(tmp_path, capsys, "--tensor-model-parallel-size 1", *target),
    )
    assert [(code, UNSAID in said) for code, said in (one, newer, alone)] == [(0, False)] * 3


def test_pairs_of_micro_batches_start_with_any_number_of_queues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experts = (
        "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall "
        "--moe-grouped-gemm --pipeline-model-parallel-size 1 --overlap-moe-expert-parallel-comm"
    )
    for before in ("", f"export {QUEUES}=32\n"):
        code, said = estimate(tmp_path, capsys, experts, "--target", "megatron-lm@0.19", before=before)
        assert (code, QUEUES in said) == (0, False), said


@pytest.mark.parametrize(
    "added",
    [
        "--fp8-format hybrid --fp8-param-gather",
        "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
    ],
)
def test_full_sharding_of_0_19_turns_the_distributed_optimizer_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], added: str
) -> None:
    """[megatron-0.19, arguments.py:1112]; 0.12 refuses it without."""
    path = script(tmp_path, f"{FSDP} {SHARDED['0.19']} {added}")
    text = Path(path).read_text(encoding="utf-8").replace("--use-distributed-optimizer ", "")
    Path(path).write_text(text, encoding="utf-8")
    assert main(["estimate", path, "--hardware", "h100-sxm-80gb", "--target", "megatron-lm@0.19"]) == 0
    assert "does not start" not in capsys.readouterr().err


def test_the_short_form_of_selective_recompute_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``validate_args`` sets the granularity to selective before it checks it. [megatron-0.12, arguments.py:389]"""
    plain = estimate(tmp_path, capsys, "--recompute-granularity selective")
    assert plain[0] == 0
    assert estimate(tmp_path, capsys, "--recompute-activations --recompute-granularity full") == plain


@pytest.mark.parametrize("release", SHARDED)
def test_modules_that_nothing_reads_refuse_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], release: str) -> None:
    """Modules are checked where recompute is selective alone, and moe_act acts in experts alone."""
    target = ("--target", f"megatron-lm@{release}")
    full = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    plain = estimate(tmp_path, capsys, full, *target)
    assert plain[0] == 0
    assert estimate(tmp_path, capsys, full + " --recompute-modules mla_up_proj", *target) == plain
    grouped = "--moe-grouped-gemm --recompute-granularity selective --recompute-modules moe_act"
    assert estimate(tmp_path, capsys, grouped, *target) == estimate(tmp_path, capsys, "", *target)


@pytest.mark.parametrize(
    ("strategy", "flag"),
    [
        ("optim_grads_params", "--overlap-param-gather"),
        ("optim_grads_params", "--overlap-grad-reduce"),
        ("optim_grads", "--overlap-grad-reduce"),
    ],
)
def test_full_sharding_of_0_12_does_not_start_without_its_overlaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str, flag: str
) -> None:
    """Core 0.12 asserts them, and 0.19 sets them. [megatron-0.12, custom_fsdp/fully_sharded_data_parallel.py:144]"""
    whole = FSDP.replace("optim_grads_params", strategy) + SHARDED["0.12"]
    code, said = estimate(tmp_path, capsys, whole.replace(flag, ""), "--target", "megatron-lm@0.12")
    assert (code, f"needs {flag[2:]} [megatron-0.12" in said) == (2, True), said
    assert estimate(tmp_path, capsys, whole, "--target", "megatron-lm@0.12")[0] == 0
