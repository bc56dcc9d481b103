"""The peers: processes that run for some seconds and report how long their cycles took."""

import json
import os
import shlex
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

    def __init__(self, name: str, kind: str, size: int | str, threads: int) -> None:
        arguments = ["worker.py", kind, str(size), str(threads)]
        self.figures = Figures(
            name, threads, shlex.join(["python", f"scripts/peers/{arguments[0]}", *arguments[1:]])
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


def summary(figures: Figures, turns: list[dict[str, Any]]) -> Figures:
    """Combines the figures of several turns of ganglion. It reports percentiles of a turn, not single times,
    so p50 is the median of the turns' p50; p99 and p99.9 are those of the worst turn."""
    halves = sorted(turn["p50_us"] for turn in turns)
    figures.p50 = halves[len(halves) // 2]
    figures.count = sum(turn["n"] for turn in turns)
    figures.worst = max(turn["max_us"] for turn in turns)
    least = min(turn["n"] for turn in turns)
    figures.p99 = max(turn["p99_us"] for turn in turns) if least >= 100 else None
    figures.p999 = max(turn["p999_us"] for turn in turns) if least >= 1000 else None
    return figures


class Bench:
    """`ganglion bench field`, run once per turn."""

    def __init__(self, name: str, binary: Path, threads: int, more: list[str]) -> None:
        self.arguments = ["bench", "field", "--engine", "cpu", *more]
        self.binary = binary
        self.figures = Figures(name, threads, " ".join(["ganglion", *self.arguments]))
        self.reports: list[dict[str, Any]] = []
        self.process: subprocess.Popen[str] | None = None

    def turn(self, seconds: float) -> None:
        command = [self.binary, *self.arguments, "--seconds", str(seconds), "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        output, errors = self.process.communicate()
        if self.process.returncode:
            last = next(iter(errors.strip().splitlines()), f"exit code {self.process.returncode}")
            raise Failure(f"'{self.figures.command}' failed: {last}")
        self.reports.append(json.loads(output.strip().splitlines()[-1]))

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


class Ganglion(Bench):
    """The field's cycle."""

    def __init__(self, binary: Path, storage: str, grid: int, threads: int) -> None:
        more = ["--storage", storage, "--threads", str(threads), "--grid", str(grid)]
        super().__init__(f"ganglion, {storage}", binary, threads, more)

    def result(self) -> Figures:
        last = self.reports[-1]
        self.figures.facts = {key: last[key] for key in ("simd", "storage", "floor_us") if key in last}
        return summary(self.figures, [report["cycle"] for report in self.reports])


class GanglionDecision(Bench):
    """Its decision fields. The field beside them is the smallest, which leaves the caches to them."""

    def __init__(self, binary: Path) -> None:
        super().__init__("ganglion", binary, 1, ["--grid", "8", "--patterns", "1", "--bank", "1"])

    def results(self) -> list[Figures]:
        found = []
        for at, last in enumerate(self.reports[-1]["decision_fields"]):
            keys = ("name", "sites", "all_steps", "highest")
            facts = {key: last[key] for key in keys}
            figures = Figures(self.figures.name, 1, self.figures.command, facts)
            found.append(summary(figures, [report["decision_fields"][at] for report in self.reports]))
        return found
