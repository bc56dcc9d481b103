"""The targets of each device (docs/measurements.md, "On a GPU"), and the verdict on a figure."""

import dataclasses
import re
from typing import Optional


@dataclasses.dataclass
class Target:
    """A figure: its part, its keys, the value it must reach and the value aimed at. Less is better, unless `more`
    is set: for a share of what is possible."""

    name: str
    part: str
    keys: tuple
    least: float
    aim: Optional[float]
    more: bool = False

    def verdict(self, outputs, why_not):
        value = outputs.get(self.part)
        for key in self.keys:
            if isinstance(value, list):
                value = next((row for row in value if isinstance(row, dict) and row.get("name") == key), None)
            else:
                value = value.get(key) if isinstance(value, dict) else None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        facts = {"name": self.name, "part": self.part, "key": ".".join(self.keys), "value": value if number else None}
        facts.update(least=self.least, aim=self.aim)
        if not number:
            return {**facts, "verdict": "not measured", "why": "no such figure in the part's output"}
        if why_not:
            return {**facts, "verdict": "not judged", "why": why_not}
        held = lambda bound: value >= bound if self.more else value <= bound
        reached = None if self.aim is None else held(self.aim)
        return {**facts, "verdict": "pass" if held(self.least) else "fail", "aim_reached": reached}


ROBOT_F32, ROBOT_F16 = "bench/cuda/32/f32/level-0", "bench/cuda/32/f16/level-0"
SHARE = ("evolve_share_of_copy",)


def cycles(least, aim):
    return [
        Target("full cycle, one robot, f32, us", ROBOT_F32, ("cycle", "p50_us"), least, aim),
        Target("full cycle, one robot, f16, us", ROBOT_F16, ("cycle", "p50_us"), least, aim),
    ]


MEMORY = Target("GPU memory, one robot, MB", ROBOT_F32, ("memory_mb",), 128, 64)
HOST = Target("host CPU at 100 Hz, share of a core", ROBOT_F32, ("host_cpu_share",), 0.05, 0.01)
COPY = Target("evolve + features relative to a copy, 32 robots", "bench/cuda/batch-32/f32", SHARE, 0.5, 0.8, True)

# Keyed by a word in the device's name. Only an H200 has targets for 64 robots and for the match.
H200 = [
    *cycles(60, 30),
    COPY,
    Target("64 robots, f16, us", "bench/cuda/batch-64/f16", ("cycle", "p50_us"), 1000, 400),
    Target("match 10,000 x 512, us", ROBOT_F32, ("stages", "bank", "p50_us"), 20, 6),
    MEMORY,
    HOST,
]
H100 = [*cycles(60, 30), COPY, MEMORY, HOST]
ORIN = [*cycles(5000, None), MEMORY]
DEVICES = {"H200": H200, "H100": H100, "Orin": ORIN}


def of(device):
    """The device's keyword and targets, and the reason if they are not judged; a MIG slice is not judged."""
    name = device if isinstance(device, str) else ""
    if not re.search(r"\bMIG\b", name):
        for word, targets in DEVICES.items():
            if re.search(rf"\b{word}\b", name):
                return word, targets, None
    return "H200", H200, f"these are the targets of an H200, and this is {name or 'no known device'}"


def judged(device, outputs, emulated):
    """The verdicts on all targets of a device, from the outputs of the parts by name."""
    word, targets, why_not = of(device)
    if emulated:
        why_not = "emulated: no figure is a measurement"
    return [{"device": word, **target.verdict(outputs, why_not)} for target in targets]
