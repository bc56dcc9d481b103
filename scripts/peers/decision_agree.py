"""Computes the peers' decision fields from rest and fails if they differ from the definition, so that no
wrong step is timed. It also shows that a wrong step is noticed: one with a kernel that is 1 % stronger.

With arguments (name, steps, highest activation; for each field) it checks what ganglion measured instead.
"""

import sys

import numpy as np

from decision_field import SHAPES, WAYS, Direct, activation

# Largest allowed difference of the activation, whose range is about 15; measured: 4e-5 at most.
TOLERANCE = 2e-4
# Enough to decide: ten time constants.
STEPS = 200
# More steps change nothing: the fields are steady, and a difference would be seen after fewer.
MOST_STEPS = 400
WRONG = "a kernel that is 1 % stronger"


def peers() -> bool:
    """Whether all peers agree with the definition, and the wrong one does not."""
    good = True
    for name, shape in SHAPES.items():
        given = shape.input()
        exact = activation(Direct(shape), given, STEPS)
        fields = {way: build(shape) for way, build in WAYS.items()}
        fields |= {f"{way}, {WRONG}": build(shape, 1.01) for way, build in WAYS.items()}
        for way, field in fields.items():
            good &= judged(f"{name}: {way}", np.abs(activation(field, given, STEPS) - exact).max(), WRONG in way)
    return good


def ganglion(found: list[str]) -> bool:
    """Whether the highest activations that ganglion measured are those of the definition."""
    good = True
    for name, steps, highest in zip(found[::3], found[1::3], found[2::3]):
        for strength in (1.0, 1.01):
            shape, count = SHAPES[name], min(int(steps), MOST_STEPS)
            exact = activation(Direct(shape, strength), shape.input(), count).max()
            title = f"{name}: ganglion after {steps} steps" + (f", {WRONG}" if strength != 1.0 else "")
            good &= judged(title, abs(float(highest) - exact), strength != 1.0)
    return good


def judged(title: str, gap: float, is_wrong: bool) -> bool:
    agrees = gap <= TOLERANCE  # false for NaN
    print(f"{title}: {'agrees' if agrees else 'differs'}, by {gap:.1e} at most")
    return agrees != is_wrong


if __name__ == "__main__":
    sys.exit(0 if (ganglion(sys.argv[1:]) if sys.argv[1:] else peers()) else 1)
