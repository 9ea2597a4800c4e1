"""CPU seconds to choose the tensors of PP16 VPP2 Pangu Ultra MoE, by micro batch: ``python -m benchmarks.tensors``."""

from __future__ import annotations

import time
from dataclasses import replace

from app.calibrations.constants import constants_for
from scripts.case_studies.write_systems import everything_on
from search.tensor_choice.tensor_plan import with_tensors


def main() -> None:
    """Prints a line for each micro batch."""
    workload, strategy = everything_on()
    constants = constants_for(workload)
    for size in (1, 2, 4):
        begun_s = time.process_time()
        found = with_tensors(workload, replace(strategy, micro_batch_size=size), constants)
        taken_s = time.process_time() - begun_s
        gap = "no choice fits" if found is None else f"at most {1e3 * found.gap_s:.3f} ms a micro batch above the least"
        print(f"micro batch {size}: {taken_s:.2f} CPU s, {gap}")


if __name__ == "__main__":
    main()
