"""A script is read as what it trains, or refused with the line and the reason; nothing that matters is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import command

MODEL = (
    "--num-layers 4 --hidden-size 1024 --ffn-hidden-size 2816 --num-attention-heads 8 --swiglu --normalization RMSNorm "
    "--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --seq-length 2048 "
    "--max-position-embeddings 2048 --vocab-size 32000 --bf16 --micro-batch-size 1 --global-batch-size 16 "
)
OFFLOAD = "--use-distributed-optimizer --use-precision-aware-optimizer --optimizer-cpu-offload"
GPU = ("--hardware", "h100-sxm-80gb")


def script(tmp_path: Path, text: str, name: str = "train.sh") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def torchrun(more: str = "", program: str = "pretrain_gpt.py") -> str:
    return f"#!/bin/bash\ntorchrun --nproc_per_node 8 {program} {MODEL}{more}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (torchrun("--no-such-flag 3"), "line 2: 'no-such-flag': no argument of megatron-lm"),
        (torchrun("--freeze-all-layers"), "line 2: 'freeze-all-layers': it decides which weights are trained"),
        (torchrun("--moe-latent-size 64 --num-experts 8 --moe-router-topk 2"), "'moe-latent-size': it makes another model"),
        (torchrun("--heterogeneous-layers-config-path x.json"), "'heterogeneous-layers-config-path': it makes another model"),
        (torchrun("--experimental-attention-variant dsa"), "'experimental-attention-variant': it makes another model"),
        (torchrun("--num-experts 8 --moe-layer-freq [0,1,1,0]"), "'moe-layer-freq': no order of dense and MoE layers"),
        (torchrun("--spec my.layers layer_spec"), "'spec': it makes another model"),
        (torchrun("--optimizer lion"), "'optimizer': it changes step time and memory"),
        (torchrun("--normalization PowerNorm"), "'normalization': its value is not understood"),
        (torchrun("--swap-attention"), "mindspeed-llm@master has it"),
        (torchrun("--zero-stage 3"), "--zero-stage is an argument of Megatron-DeepSpeed"),
        ("python pretrain_gpt.py --num_layers 4\n", "--num_layers is an argument of epfLLM's Megatron-LLM"),
        (torchrun(program="pretrain_bert.py"), "line 2: 'pretrain_bert.py' trains BERT"),
        (torchrun(program="examples/multimodal/train.py"), "'examples/multimodal/train.py' trains a model of pictures"),
        (torchrun(program="train_my_diffusion.py"), "what 'train_my_diffusion.py' does is not known"),
        (torchrun(program="posttrain_gpt.py"), "posttrain_gpt.py is a program of mindspeed-llm"),
        ("python -m torchtitan.train --job.config_file x.toml\n", "by torchtitan"),
        ("llamafactory-cli train x.yaml\n", "by LLaMA-Factory"),
        (torchrun("$(cat more.txt)"), "line 2: '$(cat more.txt)' may hold arguments"),
        ("python -m my.serving --num-layers 4\n", "line 1: what 'my.serving' does is not known"),
        (
            f'RUN=\'torchrun pretrain_gpt.py {MODEL}\'\n[ -n "$P" ] && RUN="nsys $RUN"\neval $RUN\n',
            "line 3: '${RUN}' may start a training",
        ),
        ("python convert_it.py --load-dir x \\ \n--num-layers 61 --num-layer-list 16,15,15,15\n", "no command in it starts"),
        ("rm -rf megatron\n", "no command in it starts"),
        ("swift infer --model x\n", "no command in it starts"),
        ("swift sft --model x\n", "'swift' trains by ms-swift"),
        (
            "sbatch run.sh\npython pretrain_gpt.py $PARAMS\n",
            "line 2: $PARAMS: the script does not set PARAMS; --set PARAMS=VALUE does",
        ),
        (
            torchrun(f"{OFFLOAD} --no-pin-cpu-grads"),
            "line 2: 'no-pin-cpu-grads': beside optimizer-cpu-offload it changes the step",
        ),
        (torchrun(f"{OFFLOAD} --no-pin-cpu-params"), "line 2: 'no-pin-cpu-params': beside optimizer-cpu-offload it changes"),
        (torchrun("--no-such-flag $JOB/x"), "line 2: 'no-such-flag': no argument of megatron-lm"),
    ],
)
def test_a_script_is_refused_with_the_line_and_what_it_would_change(tmp_path: Path, text: str, words: str) -> None:
    answer = command("estimate", script(tmp_path, text), *GPU)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "model_name_or_path: x\nstage: sft\nfinetuning_type: lora\nmodel: y\n",
            "a file of LLaMA-Factory, whose files are not read",
        ),
        ("trainer: {devices: 8}\nexp_manager: {}\nmodel: {num_layers: 4}\n", "a file of NeMo"),
        ("model: {num_layers: 4}\ntrain: {micro_batch_size: 1}\n", "whose it is, is not known"),
        ("parallel: {parallel_mode: 1}\n", "num_hidden_layers is missing"),
        ("use_parallel: true\nmodel: {}\n", "num_hidden_layers is missing"),
        ("model: {model_config: {hidden_size: 64}}\n", "num_hidden_layers is missing"),
    ],
)
def test_a_yaml_file_of_another_program_is_refused_as_its(tmp_path: Path, text: str, words: str) -> None:
    answer = command("estimate", script(tmp_path, text, "train.yaml"), "--hardware", "atlas-800t-a2")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr


@pytest.mark.parametrize("more", [(), ("--hardware", "atlas-800t-a2")])
def test_a_broken_yaml_file_is_named_with_its_line_whether_hardware_is_given_or_not(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    answer = command("estimate", script(tmp_path, "model: [1,2\n", "train.yaml"), *more)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "train.yaml: line 2: did not find expected ',' or ']'" in answer.stderr


def test_pages_of_host_memory_matter_only_beside_states_on_the_host(tmp_path: Path) -> None:
    answers = [
        command("estimate", script(tmp_path, torchrun(more)), *GPU, "--json")
        for more in ("", "--no-pin-cpu-grads --no-pin-cpu-params")
    ]
    assert [answer.returncode for answer in answers] == [0, 0]
    plain, pageable = (json.loads(answer.stdout)["estimate"] for answer in answers)
    assert plain == pageable


@pytest.mark.parametrize(
    ("more", "devices", "words"),
    [
        ("--tensor-model-parallel-size 3", (), "the 8 devices; the launcher starts that many, and --devices states another"),
        ("--tensor-model-parallel-size 8", ("--devices", "12"), "the 12 devices; their number is that of --devices."),
    ],
)
def test_a_number_of_devices_that_degrees_contradict_is_said_to_come_from_where_it_does(
    tmp_path: Path, more: str, devices: tuple[str, ...], words: str
) -> None:
    answer = command("tune", script(tmp_path, torchrun(more)), *GPU, *devices)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr


def test_an_ignored_argument_is_in_the_first_line_and_there_is_no_verdict(tmp_path: Path) -> None:
    path = script(tmp_path, torchrun("--defer-embedding-wgrad-compute --no-such-flag 3"))
    refused = command("estimate", path, *GPU)
    assert refused.returncode == 2
    assert "--assume defer-embedding-wgrad-compute=ignored" in refused.stderr
    assert command("estimate", path, *GPU, "--assume", "no-such-flag=ignored").returncode == 2
    flags = ("--assume", "no-such-flag=ignored", "--assume", "defer-embedding-wgrad-compute=ignored")
    answer = command("estimate", path, *GPU, *flags)
    assert answer.returncode == 0
    assert answer.stdout.splitlines()[0].startswith("Priced without defer-embedding-wgrad-compute, no-such-flag, as asked")
    assert " sure" not in answer.stdout
    document = json.loads(command("estimate", path, *GPU, *flags, "--json").stdout)
    assert document["ignored"] == ["defer-embedding-wgrad-compute", "no-such-flag"]
    assert (document["estimate"]["fits"], document["estimate"]["fits_probability"]) == (None, None)
    tuned = command("tune", path, *GPU, *flags, "--time-limit", "2")
    assert tuned.returncode == 0
    assert tuned.stdout.splitlines()[0].startswith("Priced without ")
    assert " sure" not in tuned.stdout


@pytest.mark.parametrize(
    ("flag", "words"),
    [("no-such-flag=5", "give no-such-flag=ignored"), ("bf16=ignored", "'bf16' is nothing in")],
)
def test_only_what_is_not_understood_can_be_ignored(tmp_path: Path, flag: str, words: str) -> None:
    answer = command("estimate", script(tmp_path, torchrun("--no-such-flag 3")), *GPU, "--assume", flag)
    assert answer.returncode == 2
    assert words in answer.stderr


def test_an_undecided_branch_may_add_arguments_without_effect_only(tmp_path: Path) -> None:
    text = '#!/bin/bash\nMORE=(--lr 1e-4)\nif [ -n "$KEY" ]; then\n  MORE+=({})\nfi\n' + torchrun('"${{MORE[@]}}"')[12:]
    assert command("estimate", script(tmp_path, text.format("--wandb-project x")), *GPU).returncode == 0
    answer = command("estimate", script(tmp_path, text.format("--num-experts 8")), *GPU)
    assert (answer.returncode, "--set MORE=VALUE" in answer.stderr) == (2, True)


def test_escapes_of_a_script_are_not_printed(tmp_path: Path) -> None:
    escape = "\x1b[2J\x1b]0;x\x07"
    for text in (torchrun(f"--no{escape}such"), torchrun(program=f"a{escape}.py"), torchrun(f"--normalization {escape}")):
        answer = command("estimate", script(tmp_path, text), *GPU)
        assert answer.returncode == 2
        assert "\x1b" not in answer.stderr + answer.stdout


LAUNCHERS = {
    "torchrun --nnodes 2 --nproc_per_node=8 pretrain_gpt.py": 16,
    "srun --nodes 4 --ntasks-per-node=8 python pretrain_gpt.py": 32,
    "srun -N4 -n 16 python pretrain_gpt.py": 16,
    "mpirun -np 24 python pretrain_gpt.py": 24,
    "deepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt.py": 8,
    "srun -N 2 --ntasks-per-node 1 torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES pretrain_gpt.py": 16,
    'srun --nodes=2 --ntasks-per-node=8 bash -c "python pretrain_gpt.py"': 16,
}


@pytest.mark.parametrize(("line", "devices"), LAUNCHERS.items())
def test_each_launcher_says_how_many_processes_it_starts(tmp_path: Path, line: str, devices: int) -> None:
    text = f"{line.removesuffix(chr(34))} {MODEL}{chr(34) if line.endswith(chr(34)) else ''}\n"
    answer = command("estimate", script(tmp_path, f"#!/bin/bash\n{text}"), *GPU, "--json", "--global-batch-size", "96")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["job"]["cluster"]["num_devices"] == devices


SBATCH = "#!/bin/bash\n#SBATCH --nodes=4  # all\n#SBATCH --ntasks-per-node=8\n#SBATCH --job-name=a:b\n"


@pytest.mark.parametrize("name", ["job.slurm", "job.sbatch", "job.txt", "job"])
@pytest.mark.parametrize("command_line", ["srun python", "torchrun --nproc_per_node 8 --nnodes $SLURM_JOB_NUM_NODES"])
def test_a_file_is_read_by_its_first_line_and_slurm_says_the_nodes(tmp_path: Path, name: str, command_line: str) -> None:
    path = script(tmp_path, f"{SBATCH}{command_line} pretrain_gpt.py {MODEL}\n", name)
    answer = command("estimate", path, *GPU, "--json", "--global-batch-size", "32")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["job"]["cluster"]["num_devices"] == 32


COMMAND = f"torchrun --nproc_per_node 8 pretrain_gpt.py {MODEL}"
FORMS = {
    "eval of a text": f'CMD="{COMMAND}"\neval ${{CMD}}\n',
    "eval of a quoted text": f'CMD="{COMMAND} --save \\"$HOME/a b\\" 2>&1 | tee log"\nHOME=/root\neval "$CMD"\n'.replace(
        'CMD="torch', 'HOME=/root\nCMD="torch'
    ),
    "bash -c": f"bash -c '{COMMAND}'\n",
    "bash -c with more commands": f'bash -lc "cd /work && {COMMAND}"\n',
    "a here-document": f"bash <<EOF\n{COMMAND}\nEOF\n",
    "a here-document in a file": f"cat > in.sh <<'EOF'\nTP=1\n{COMMAND} --tensor-model-parallel-size $TP\nEOF\nbash in.sh\n",
    "sbatch of a here-document": f"sbatch <<EOF\n#!/bin/bash\nX=1\n{COMMAND} --seed \\$X\nEOF\n",
    "a conversion beside it": f"python tools/checkpoint/convert.py --num-layers 9 --hidden-size 64\n{COMMAND}\n",
    "a conversion by name": f"python convert_ckpt_v2.py --tensor-model-parallel-size 4\n{COMMAND}\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_training_is_found_in_each_form(tmp_path: Path, form: str) -> None:
    answer = command("estimate", script(tmp_path, "#!/bin/bash\n" + FORMS[form]), *GPU, "--json")
    assert answer.returncode == 0, answer.stderr
    job = json.loads(answer.stdout)["job"]
    assert (job["model"]["num_layers"], job["cluster"]["num_devices"]) == (4, 8)


def test_a_part_of_a_text_for_a_shell_that_only_the_shell_knows_is_a_value(tmp_path: Path) -> None:
    text = f'#!/bin/bash\neval "{COMMAND} --save `pwd`/x --load $UNSET 2>&1 | tee log"\n'
    assert command("estimate", script(tmp_path, text), *GPU).returncode == 0
    needed = command("estimate", script(tmp_path, text.replace("--save", "--num-experts $EXPERTS; true")), *GPU)
    assert (needed.returncode, "line 2: --num-experts ${EXPERTS}" in needed.stderr.replace("$EXPERTS", "${EXPERTS}")) == (2, True)


@pytest.mark.parametrize("name", ["seq-length", "tensor-model-parallel-size"])
def test_a_number_that_only_the_shell_knows_is_asked_for(tmp_path: Path, name: str) -> None:
    text = torchrun(f"--max-position-embeddings 8192 --{name} $NUMBER")
    needed = command("estimate", script(tmp_path, text), *GPU)
    assert (needed.returncode, "NUMBER" in needed.stderr, "internal" in needed.stderr) == (2, True, False)
    assert "does not start" not in needed.stderr


@pytest.mark.parametrize(
    ("flags", "hardware", "words"),
    [
        # 131,072^2 entries: 4 bytes each and one more for the sample are 80 GiB of the host, one byte each 16 GiB of a device.
        ("", "h100-sxm-80gb", ("80.00 GiB of host memory", "for each micro batch 16.00 GiB on each device")),
        ("--micro-batch-size 2", "h100-sxm-80gb", ("96.00 GiB of host memory", "for each micro batch 32.00 GiB on each device")),
        ("--no-create-attention-mask-in-dataloader", "h100-sxm-80gb", ()),
        ("--seq-length 4096", "h100-sxm-80gb", ()),
        ("", "atlas-800t-a2", ()),  # MindSpeed-LLM's loader builds none
    ],
)
def test_a_mask_that_the_loader_builds_is_warned_of(tmp_path: Path, flags: str, hardware: str, words: tuple[str, ...]) -> None:
    text = torchrun("--seq-length 131072 --max-position-embeddings 131072 " + flags)
    answer = command("estimate", script(tmp_path, text), "--hardware", hardware)
    warned = " ".join(answer.stdout.split())
    assert ("The data loader builds a mask" in warned) == bool(words)
    assert all(word in warned for word in words)
