"""The header of a launch file, and the processes that it would start: arguments, environment and number."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from frameworks.launch_text import LaunchFacts
from scripts.conformance.checkouts import UncheckedError

# Repositories from which a target's start imports, the first one first.
REPOSITORIES = {
    "megatron-lm": ("NVIDIA/Megatron-LM",),
    "mindspeed-llm": ("Ascend/MindSpeed-LLM", "Ascend/MindSpeed", "NVIDIA/Megatron-LM"),
    "mindformers": ("mindspore-lab/mindformers",),
}
LAUNCHERS = ("torchrun", "python", "python3", "msrun")
CALLED_BESIDE = ("tee", "mkdir")  # set by the scripts that frameworks ship
FOLDERS = tuple("abcdefgh")
SECONDS = 10
# The same start; the second then chooses a trainer by its stage, and the third makes other layers.
ENTRY_POINTS = ("pretrain_gpt.py", "posttrain_gpt.py", "pretrain_hybrid.py")
CHOICES = {"PROMPT_TYPE": "default"}  # variables of a script that are no folders
RECORDER = """#!{bash}
printf '%s\\0' "${{0##*/}}" "$@" > "$STARTED.arguments"
"{env}" -0 > "$STARTED.environment"
"""
OF_THE_SHELL = ("PATH", "STARTED", "_", "SHLVL", "PWD", "OLDPWD")


@dataclass(frozen=True)
class Header:
    """Target, release and commits in the first lines, and whether they say that the plan runs unchanged."""

    target: str
    release: str
    commits: dict[str, str]
    as_it_is: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Started:
    """The call of the launcher: arguments of the training script, environment, and number of processes."""

    arguments: list[str]
    environment: dict[str, str]
    num_processes: int


def header(path: Path) -> Header:
    """The header of an exported file, in whatever language its comments are."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#!"):
            continue
        if not line.startswith("# "):
            break
        lines.append(line[2:].rstrip())
    facts = next(filter(None, map(LaunchFacts.read, lines)), None)
    if facts is None or facts.name not in REPOSITORIES:
        raise UncheckedError("The first lines name no target and commits.")
    missing = [name for name in REPOSITORIES[facts.name] if name not in facts.commits]
    if missing:
        raise UncheckedError(f"The first lines name no commit of {' and '.join(missing)}.")
    return Header(facts.name, facts.version, dict(facts.commits), facts.as_it_is, _notes(lines))


def _notes(lines: list[str]) -> tuple[str, ...]:
    notes: list[str] = []
    for line in lines:
        if line.startswith("- "):
            notes.append(line[2:])
        elif line.startswith("  ") and notes:
            notes[-1] += f" {line.strip()}"
    return tuple(notes)


def run_script(path: Path, folder: Path) -> Started:
    """Run a copy of the script; its path has only recorders in place of launchers."""
    programs, here = folder / "programs", folder / "here"
    shutil.rmtree(folder, ignore_errors=True)
    programs.mkdir(parents=True)
    here.mkdir()
    bash, env, nothing = (shutil.which(name) or name for name in ("bash", "env", "true"))
    for name in LAUNCHERS:
        recorder = programs / name
        recorder.write_text(RECORDER.format(bash=bash, env=env))
        recorder.chmod(0o755)
    for name in CALLED_BESIDE:
        (programs / name).symlink_to(nothing)
    # A shipped script has placeholders for folders, such as "your model path", or takes them as arguments.
    (here / path.name).write_text(re.sub(r'="your [^"]*"', "=yours", path.read_text(encoding="utf-8")), encoding="utf-8")
    (here / "yours").mkdir()
    (here / "yours" / "model.safetensors").write_text("{}")
    (here / "yours" / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')  # for a converter of checkpoints
    given = _filled_in(path, folder)
    started = folder / "started"
    environment = {"PATH": str(programs), "STARTED": str(started), **given}
    try:
        done = subprocess.run(
            [bash, path.name, *FOLDERS], cwd=here, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise UncheckedError(f"The script ran for more than {SECONDS} s.") from None
    arguments = started.with_suffix(".arguments")
    if done.returncode or not arguments.exists():
        raise UncheckedError(f"The script ends with {done.returncode} and starts nothing: {done.stderr.strip()[-300:]}")
    pairs = (pair.partition("=") for pair in started.with_suffix(".environment").read_text().split("\0") if pair)
    return _started(arguments.read_text().split("\0")[:-1], {name: value for name, _, value in pairs if name not in OF_THE_SHELL})


def _filled_in(path: Path, folder: Path) -> dict[str, str]:
    """A folder for each variable that the script's user must set, and a rendezvous."""
    given = {"MASTER_ADDR": "localhost", "NODE_RANK": "0"}
    for name in re.findall(r'^([A-Z_]+)="\$\{\1:-SET-ME\}"', path.read_text(encoding="utf-8"), re.MULTILINE):
        if name in CHOICES:
            given[name] = CHOICES[name]
            continue
        place = folder / "given" / name.lower()
        place.mkdir(parents=True)
        given[name] = str(place)
    if "DATA_PATH" in given:
        given["DATA_PATH"] += "/corpus"
        for suffix in ("bin", "idx"):
            Path(f"{given['DATA_PATH']}.{suffix}").touch()
    return given


def _started(called: list[str], environment: dict[str, str]) -> Started:
    """The call without the launcher's own options, which give the number of processes."""
    place = 3 if called[1:2] == ["-m"] else 1
    options = {}
    while place < len(called) and called[place].startswith("--"):
        name, equals, value = called[place].partition("=")
        if not equals:
            place += 1
            value = called[place]
        options[name.strip("-").replace("_", "-")] = value
        place += 1
    if place >= len(called):
        raise UncheckedError("The script starts its launcher without a training script.")
    if Path(called[place]).name not in ENTRY_POINTS:
        raise UncheckedError(f"The script starts {called[place]}, not {' or '.join(ENTRY_POINTS)}.")
    processes = int(options.get("worker-num", 0)) or int(options.get("nproc-per-node", 1)) * int(options.get("nnodes", 1))
    return Started(called[place:], environment, processes)


def smallest_start(started: Started) -> int:
    """Fewest processes for the degrees of a shipped script, which may exceed the nodes that it is written for."""

    def degree(name: str) -> int:
        given = started.arguments[:-1].index(f"--{name}") if f"--{name}" in started.arguments[:-1] else None
        return int(started.arguments[given + 1]) if given is not None else 1

    stages, tensor = degree("pipeline-model-parallel-size"), degree("tensor-model-parallel-size")
    experts = degree("expert-model-parallel-size") * degree("expert-tensor-parallel-size")  # over the replicas and their ranks
    return max(started.num_processes, stages * tensor * degree("context-parallel-size"), stages * experts)


def yaml_processes(path: Path) -> int:
    """Processes started by the command in a YAML file's first lines; for a shipped template, the product of its degrees."""
    text = path.read_text(encoding="utf-8")
    command = re.search(r'msrun_launcher\.sh "[^"]*" (\d+) (\d+)', text)
    if command:
        return int(command[1])
    processes = 1
    for name in ("data_parallel", "model_parallel", "pipeline_stage", "context_parallel"):
        degree = re.search(rf"^  {name}:\s*(?:&\w+\s*)?(\d+)", text, re.MULTILINE)
        processes *= int(degree[1]) if degree else 1
    return processes
