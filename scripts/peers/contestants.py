"""The peers: processes that run for some seconds and report how long their cycles took."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environment import HERE, PYTHON
from failure import Failure


@dataclass
class Figures:
    """The measurements of one peer."""

    name: str
    threads: int
    command: str
    facts: dict[str, Any] = field(default_factory=dict)
    p50: float = 0.0
    p99: float | None = None
    p999: float | None = None
    worst: float = 0.0
    count: int = 0


def surroundings(threads: int) -> dict[str, str]:
    """The environment of a peer, tuned for speed: no GPU to look for, memory kept between cycles
    instead of returned and faulted in again, large pages."""
    return os.environ | {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "TORCHINDUCTOR_CACHE_DIR": str(PYTHON.parent.parent / "inductor"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Peer:
    """A peer that runs worker.py."""

    def __init__(self, name: str, kind: str, grid: int, threads: int) -> None:
        arguments = ["worker.py", kind, str(grid), str(threads)]
        self.figures = Figures(
            name, threads, " ".join(["python", f"scripts/peers/{arguments[0]}", *arguments[1:]])
        )
        self.times: list[float] = []
        # In a separate session: this process handles Ctrl-C and then ends the peers.
        self.process = subprocess.Popen(
            [PYTHON, *arguments],
            cwd=HERE,
            env=surroundings(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self) -> None:
        """Waits until it has warmed up."""
        self.figures.facts = self._answer()

    def turn(self, seconds: float) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        self.times += self._answer()

    def result(self) -> Figures:
        times, figures = sorted(self.times), self.figures
        figures.count, figures.worst = len(times), times[-1]
        figures.p50 = times[len(times) // 2]
        # A percentile needs enough cycles that at least one lies above it.
        figures.p99 = times[len(times) * 99 // 100] if len(times) >= 100 else None
        figures.p999 = times[len(times) * 999 // 1000] if len(times) >= 1000 else None
        return figures

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()

    def _answer(self) -> Any:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(("{", "[")):  # inductor's autotuning prints its own tables
                return json.loads(line)
        raise Failure(f"{self.figures.name} ended; its message is above")


class Ganglion:
    """`ganglion bench field`, run once per turn. It reports percentiles of the turn, not single cycles, so
    p50 is the median of the turns' p50; p99 and p99.9 are those of the worst turn."""

    def __init__(self, binary: Path, storage: str, grid: int, threads: int) -> None:
        self.arguments = [
            "bench",
            "field",
            "--engine",
            "cpu",
            "--storage",
            storage,
            "--threads",
            str(threads),
        ]
        self.arguments += ["--grid", str(grid)]
        self.binary = binary
        self.figures = Figures(f"ganglion, {storage}", threads, " ".join(["ganglion", *self.arguments]))
        self.turns: list[dict[str, Any]] = []
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.figures.facts = {}

    def turn(self, seconds: float) -> None:
        command = [self.binary, *self.arguments, "--seconds", str(seconds), "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        output, errors = self.process.communicate()
        if self.process.returncode:
            last = next(iter(errors.strip().splitlines()), f"exit code {self.process.returncode}")
            raise Failure(f"'{self.figures.command}' failed: {last}")
        report = json.loads(output.strip().splitlines()[-1])
        self.turns.append(report["cycle"])
        self.figures.facts = {key: report[key] for key in ("simd", "storage", "floor_us") if key in report}

    def result(self) -> Figures:
        figures, turns = self.figures, self.turns
        halves = sorted(turn["p50_us"] for turn in turns)
        figures.p50 = halves[len(halves) // 2]
        figures.count = sum(turn["n"] for turn in turns)
        figures.worst = max(turn["max_us"] for turn in turns)
        least = min(turn["n"] for turn in turns)
        figures.p99 = max(turn["p99_us"] for turn in turns) if least >= 100 else None
        figures.p999 = max(turn["p999_us"] for turn in turns) if least >= 1000 else None
        return figures

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()
