"""Runs the peers' cycles from the same start and fails if they do not agree, so that no wrong cycle
is timed. It also shows that a wrong cycle is noticed: one with another diffusion rate must not agree.
"""

import sys

import numpy as np

import problem as p
from numpy_cycle import NumpyCycle, ScipyCycle

# Largest allowed difference, as a share of the largest number of each kind; measured: 2e-6 at most.
TOLERANCE = 2e-5
CYCLES = 30
WRONG = "numpy with 1 % more diffusion"


def outcome(cycle, stimuli) -> dict[str, np.ndarray]:  # noqa: ANN001
    """All results and the learned state after CYCLES cycles."""
    for sensors in stimuli[:CYCLES]:
        motors = cycle.step(sensors)
    state = getattr(cycle, "state", cycle)
    found = {
        "motors": motors,
        "field": cycle.field,
        "features": cycle.features,
        "best": cycle.best,
        "shares": cycle.shares,
        "matches": cycle.matches,
        "predicted": state.predicted,
        "learned": state.learned,
    }
    return {name: np.asarray(value) for name, value in found.items()}


def worst(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, float]:
    """For each name, the largest difference divided by the largest number; a NaN counts as infinite."""
    gaps = {name: float(np.max(np.abs(one[name] - other[name])) / np.max(np.abs(one[name]))) for name in one}
    return {name: gap if gap == gap else float("inf") for name, gap in gaps.items()}


def main() -> int:
    given = p.problem(int(sys.argv[1]))
    plain = outcome(NumpyCycle(given), given.stimuli)
    others = {
        WRONG: outcome(NumpyCycle(given, 1.01 * p.LAMBDA), given.stimuli),
        "scipy": outcome(ScipyCycle(given), given.stimuli),
    }
    if "torch" in sys.argv[2:]:
        import torch
        from torch_eager import Eager

        torch.set_num_threads(1)
        others["torch eager"] = outcome(Eager(given), torch.from_numpy(given.stimuli))
    if "compiled" in sys.argv[2:]:
        from torch_compiled import Compiled

        others["torch compiled"] = outcome(Compiled(given), torch.from_numpy(given.stimuli))
    failed = False
    for name, found in others.items():
        gaps = worst(plain, found)
        agrees = max(gaps.values()) <= TOLERANCE
        failed |= agrees == (name == WRONG)
        listed = ", ".join(f"{what} {gap:.1e}" for what, gap in gaps.items())
        print(f"{name} against numpy after {CYCLES} cycles: {'agrees' if agrees else 'differs'}: {listed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
