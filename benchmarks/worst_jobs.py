"""The heaviest valid jobs, each cut after a minute: ``python -m benchmarks.worst_jobs [SECONDS] [NAME ...]``.

For each, in a process of its own: CPU seconds in all, CPU seconds after the cut, the longest time between two progress reports,
and peak memory. The aims are an answer within a minute, two seconds between progress reports, and 1 GiB.
Prints the table of ``docs/cli.md``; about five CPU minutes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from app.answers.search import search_document
from app.jobs.job import parse_job
from search.session.progress import Progress

LIMIT_S = 60.0
BOTH = [True, False]
_PANGU = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144},
}
_SMALL = {"model": "llama-2-7b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}
_DEEP = {"num_layers": 10_000, "hidden_size": 1024, "num_attention_heads": 16, "ffn_hidden_size": 4096, "vocab_size": 32_000}
_TINY = {"num_layers": 8, "hidden_size": 64, "num_attention_heads": 4, "ffn_hidden_size": 128, "vocab_size": 1000}
SEVEN = (
    "swap_attention", "swap_optimizer", "moe_zero_memory", "grad_reduce_in_bf16", "overlap_p2p", "overlap_grad_reduce",
    "fused_norm",
)  # fmt: skip

JOBS: Mapping[str, dict[str, Any]] = {
    "default 718B": _PANGU,
    "a thousand plans": {**_PANGU, "search": {"top": 1000}},
    "seven switches both ways": {**_PANGU, "search": dict.fromkeys(SEVEN, BOTH)},
    "64 group sizes": {**_PANGU, "search": {"microbatch_group_size_per_vp_stage": list(range(1, 65))}},
    "sequence of 1 M": {**_PANGU, "training": {"seq_length": 1 << 20, "global_batch_size": 6144}},
    "a million devices": {
        **_PANGU,
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 1_000_000},
        "training": {"seq_length": 8192, "global_batch_size": 1_000_000},
    },
    "batch of 524,288, GPipe": {
        **_SMALL,
        "training": {"seq_length": 4096, "global_batch_size": 524_288},
        "search": {"schedule": ["gpipe"]},
    },
    "32,768 micro batches, GPipe": {
        **_SMALL,
        "model": _TINY,
        "training": {"seq_length": 16, "global_batch_size": 32_768},
        "search": {"schedule": ["gpipe"]},
    },
    "groups of a million": {
        **_SMALL,
        "training": {"seq_length": 4096, "global_batch_size": 10_000_000},
        "search": {"microbatch_group_size_per_vp_stage": [999_983, 65_521, 4099, 0]},
    },
    "10,000 layers": {
        "model": _DEEP,
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 4096},
        "training": {"seq_length": 4096, "global_batch_size": 4096},
    },
}


def measured(document: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """Measure one search in this process. The limit is in CPU seconds, so that other work on the machine has no effect."""
    time.perf_counter = time.process_time
    job = parse_job({**document, "search": {**document.get("search", {}), "time_limit_s": limit_s}})
    seen, behind = [time.process_time()], list[float]()

    def tell(progress: Progress) -> None:
        seen.append(time.process_time())
        if progress.elapsed_s >= limit_s:
            behind.append(seen[-1])

    found = search_document(job, tell)
    seen.append(time.process_time())
    return {
        "cpu_s": seen[-1] - seen[0],
        "behind_s": seen[-1] - behind[0] if found.proof.stopped_by and behind else 0.0,
        "silent_s": max(later - sooner for sooner, later in pairwise(seen)),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "legal": found.counts.legal,
        "plans": len(found.plans),
        "proved": found.proof.places,
    }


def main(arguments: list[str]) -> int:
    """Print the table; each job is measured by a process that was started for it."""
    if arguments[:1] == ["--one"]:
        sys.stdout.write(json.dumps(measured(JOBS[arguments[2]], float(arguments[1]))))
        return 0
    limit_s, *names = arguments or [str(LIMIT_S)]
    print("| job | legal strategies | CPU s | of them behind the cut | longest silence, s | peak MiB | plans | proved |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names or JOBS:
        command = [sys.executable, "-m", "benchmarks.worst_jobs", "--one", limit_s, name]
        row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"| {name} | {row['legal']:,} | {row['cpu_s']:.1f} | {row['behind_s']:.1f} | {row['silent_s']:.1f} "
            f"| {row['peak_bytes'] / 2**20:.0f} | {row['plans']} | {row['proved']} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
