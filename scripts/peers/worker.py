"""One peer in a separate process: warms up, then reads a number of seconds from each line of standard
input, runs its cycle for that long and answers with one line of JSON. Sleeps in between.
"""

import json
import sys
import time
from functools import partial
from typing import Any, Callable

import numpy as np

import problem as p

# Cycles that are run but do not count in the result: at the start (torch.compile compiles in the first
# one), to choose between ways to compute the cycle, and at the start of every turn, while the caches still
# hold another peer's data.
WARM_UP, TRIAL, UNCOUNTED = 20, 40, 4

Step = Callable[[Any], Any]
MODES = ("default", "max-autotune-no-cudagraphs")


def timed(step: Step, stimuli: Any, seconds: float, least: int = 5) -> list[float]:
    """Microseconds of each cycle."""
    times: list[float] = []
    clock = time.perf_counter
    until = clock() + seconds
    count = 0
    while clock() < until or len(times) < least:
        sensors = stimuli[count % len(stimuli)]
        start = clock()
        step(sensors)
        end = clock()
        if count >= UNCOUNTED:
            times.append((end - start) * 1e6)
        count += 1
    return times


def fastest(ways: dict[str, Callable[[], Any]], stimuli: Any) -> tuple[Step, dict[str, Any]]:
    """The fastest of several ways to compute the same result, and the times measured."""
    steps: dict[str, Step] = {}
    for way, build in ways.items():
        steps[way] = build().step
        for sensors in stimuli[:WARM_UP]:
            steps[way](sensors)
    # Each runs twice, alternating, and the better run counts: another program may have disturbed one.
    found = {way: float("inf") for way in ways}
    for way in (*ways, *ways):
        found[way] = min(found[way], float(np.median(timed(steps[way], stimuli, 0.0, TRIAL))))
    best = min(found, key=found.__getitem__)
    return steps[best], {"way": best, "ways_us": found}


def numpy_peer(given: p.Problem) -> tuple[Step, Any, dict[str, Any]]:
    """The faster of slices and scipy.ndimage."""
    import scipy
    from numpy_cycle import NumpyCycle, ScipyCycle

    ways = {"slices": lambda: NumpyCycle(given), "scipy.ndimage": lambda: ScipyCycle(given)}
    step, facts = fastest(ways, given.stimuli)
    return step, given.stimuli, facts | {"versions": {"numpy": np.__version__, "scipy": scipy.__version__}}


def copy_peer(given: p.Problem) -> tuple[Step, Any, dict[str, Any]]:
    """A plain copy of the field."""
    field, target = (np.ones((p.CHANNELS, given.grid**3), np.float32) for _ in range(2))
    return lambda _: np.copyto(target, field), given.stimuli, {"versions": {"numpy": np.__version__}}


def decision_peer(name: str) -> tuple[Step, Any, dict[str, Any]]:
    """The fastest of several ways to compute a step of a decision field."""
    import scipy
    from decision_field import SHAPES, WAYS

    shape = SHAPES[name]
    stimuli = [shape.input()] * WARM_UP
    step, facts = fastest({way: partial(build, shape) for way, build in WAYS.items()}, stimuli)
    facts |= {"name": name, "sites": shape.sites**shape.axes}
    return step, stimuli, facts | {"versions": {"numpy": np.__version__, "scipy": scipy.__version__}}


def eager_peer(given: p.Problem, threads: int) -> tuple[Step, Any, dict[str, Any]]:
    import torch
    from torch_eager import Eager

    torch.set_num_threads(threads)
    return Eager(given).step, torch.from_numpy(given.stimuli), _torch_facts(torch)


def compiled_peer(given: p.Problem, threads: int) -> tuple[Step, Any, dict[str, Any]]:
    """The faster of two ways of compiling."""
    import torch
    from torch_compiled import Compiled

    torch.set_num_threads(threads)
    stimuli = torch.from_numpy(given.stimuli)
    # Both run in one process, each with its own code: without this the second would reuse that of the first.
    torch._dynamo.config.recompile_limit = 64
    step, facts = fastest({mode: partial(Compiled, given, mode) for mode in MODES}, stimuli)
    return step, stimuli, facts | _torch_facts(torch)


def _torch_facts(torch: Any) -> dict[str, Any]:
    return {"versions": {"torch": torch.__version__}, "threads": torch.get_num_threads()}


def main() -> None:
    kind, size, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if kind == "decision":
        step, stimuli, facts = decision_peer(size)
    elif kind.startswith("torch"):
        peer = eager_peer if kind == "torch-eager" else compiled_peer
        step, stimuli, facts = peer(p.problem(int(size)), threads)
    else:
        step, stimuli, facts = (numpy_peer if kind == "numpy" else copy_peer)(p.problem(int(size)))
    for sensors in stimuli[:WARM_UP]:
        step(sensors)
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        print(json.dumps([round(us, 3) for us in timed(step, stimuli, float(line))]), flush=True)


if __name__ == "__main__":
    main()
