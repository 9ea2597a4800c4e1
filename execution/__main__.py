"""Runs ranks of a launch file in the framework itself: ``python -I execution/__main__.py REQUEST ANSWER``.

Both are JSON files. The framework is imported once; every rank runs in a fork, so that none sees another's state.
"""

import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path

FRAMEWORKS = {
    "megatron-lm": "execution.megatron",
    "mindspeed-llm": "execution.mindspeed",
    "transformers-fsdp2": "execution.fully_sharded",
}
PROTOCOL = 1


def load_package() -> None:
    """Make this folder importable as ``execution`` without any of its neighbours."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location("execution", folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["execution"] = package
    spec.loader.exec_module(package)


def main() -> None:
    request, answer = (Path(each) for each in sys.argv[1:3])
    question = json.loads(request.read_text(encoding="utf-8"))
    started = time.time()
    try:
        load_package()
        framework = importlib.import_module(FRAMEWORKS[question["framework"]])
        framework.prepare(question)
    except BaseException as error:
        ranks = [{"rank": rank, "failed": failure("import", error)} for rank in question["ranks"]]
    else:
        ranks = in_forks(framework, question, request.parent)
    document = {
        "protocol": PROTOCOL,
        "python": sys.version.split()[0],
        "seconds": round(time.time() - started, 1),
        "ranks": ranks,
    }
    torch = sys.modules.get("torch")
    document["torch"] = str(getattr(torch, "__version__", "")) if torch else None
    answer.write_text(json.dumps(document), encoding="utf-8")


def failure(stage: str, error: BaseException) -> dict[str, str]:
    """What stopped a rank, for a reader: the stage, the exception, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    deepest = frames[-1] if frames else None
    return {
        "stage": stage,
        "kind": type(error).__name__,
        "message": str(error)[:2000],
        "place": f"{deepest.filename}:{deepest.lineno}" if deepest else "",
        "traceback": traceback.format_exc()[-6000:],
    }


def in_forks(framework: object, question: dict, folder: Path) -> list[dict]:
    """The counts of every rank, or what stopped it; as many run at once as the question allows."""
    waiting, running = list(question["ranks"]), {}
    while waiting or running:
        if waiting and len(running) < question["processes"]:
            rank = waiting.pop(0)
            print(f"rank {rank}", flush=True)
            child = os.fork()
            if child == 0:
                answer_for(framework, question, rank, folder / f"{rank}.json")
                os._exit(0)
            running[child] = rank
        else:
            child, _ = os.wait()
            running.pop(child, None)
    return [answered(rank, folder / f"{rank}.json") for rank in question["ranks"]]


def answer_for(framework: object, question: dict, rank: int, path: Path) -> None:
    """Run one rank and write its answer."""
    stages, began = ["start"], time.process_time()
    try:
        found = {"rank": rank, **framework.run(question, rank, stages)}
    except BaseException as error:
        found = {"rank": rank, "failed": failure(stages[-1], error)}
    found["cpu_seconds"] = round(time.process_time() - began, 2)
    path.write_text(json.dumps(found), encoding="utf-8")


def answered(rank: int, path: Path) -> dict:
    """What a rank wrote."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    failed = {"stage": "start", "kind": "Died", "message": "the process ended without an answer"}
    return {"rank": rank, "failed": failed}


if __name__ == "__main__":
    main()
