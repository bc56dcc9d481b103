"""The result: human-readable Markdown tables, one JSON object for programs."""

import os
import platform
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from contestants import Figures
from environment import ROOT
from options import Options


def machine() -> dict[str, Any]:
    cores = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    model = cores[0].partition(":")[2].strip() if cores else platform.machine()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit.stdout.strip(),
        "processor": model,
        "cores": len(cores),
        "kernel": platform.release(),
        "busy": _busy_cores(),
        "python": platform.python_version(),
    }


def _busy_cores() -> float:
    """Cores kept busy by other programs, measured for one second while this program sleeps."""

    def busy_ticks() -> int:
        ticks = [int(ticks) for ticks in _read("/proc/stat").partition("\n")[0].split()[1:9]]
        return sum(ticks) - sum(ticks[3:5])  # except idle time and time spent waiting for a disk

    if not _read("/proc/stat"):
        return 0.0
    before, second = busy_ticks(), 1.0
    time.sleep(second)
    return (busy_ticks() - before) / (os.sysconf("SC_CLK_TCK") * second)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def ours(results: list[Figures], threads: int) -> Figures | None:
    """The row that the others are compared with: ganglion in f32 with the same number of threads."""
    return next((r for r in results if r.name == "ganglion, f32" and r.threads == threads), None)


def ratio(result: Figures, results: list[Figures]) -> float | None:
    base = ours(results, result.threads)
    return result.p50 / base.p50 if base else None


def markdown(
    options: Options, about: dict[str, Any], results: list[Figures], fields: list[Figures], notes: list[str]
) -> str:
    versions = {name: v for r in results + fields for name, v in r.facts.get("versions", {}).items()}
    said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    lines = [
        f"{about['date']}, commit {about['commit']}, {about['processor']}, {about['cores']} cores, "
        f"kernel {about['kernel']}, {about['busy']:.1f} cores busy with other work just before. Python {about['python']}, {said}. "
        f"{options.rounds} turns of {options.seconds:g} s each.",
    ]
    lines += _cycles(options, results) if results else []
    lines += _steps(fields) if fields else []
    commands = dict.fromkeys(r.command for r in results + fields)
    lines += ["", *(f"- {line}" for line in notes), *(f"- `{command}`" for command in commands)]
    return "\n".join(lines) + "\n"


def _cycles(options: Options, results: list[Figures]) -> list[str]:
    lines = [
        "",
        f"A cycle of 64 x {options.grid}^3, ms:",
        "",
        "| | threads | p50 | p99 | p99.9 | max | n | p50 / ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        times = " | ".join(_ms(us) for us in (r.p50, r.p99, r.p999, r.worst))
        against = ratio(r, results)
        lines.append(
            f"| {r.name} | {r.threads} | {times} | {r.count} | {f'{against:.2f}' if against else '-'} |"
        )
    return lines


def _steps(fields: list[Figures]) -> list[str]:
    lines = [
        "",
        "A step of a decision field on one thread, us:",
        "",
        "| field | | p50 | p99 | p99.9 | max | n | ns per site (p50) | p50 / ours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in fields:
        times = " | ".join(_us(us) for us in (r.p50, r.p99, r.p999, r.worst))
        name, per_site = r.facts["name"], f"{r.p50 * 1e3 / r.facts['sites']:.1f}"
        way = f", {r.facts['way']}" if "way" in r.facts else ""
        against = f"{step_ratio(r, fields):.2f}"
        lines.append(f"| {name} | {r.name}{way} | {times} | {r.count} | {per_site} | {against} |")
    return lines


def step_ratio(result: Figures, fields: list[Figures]) -> float:
    """How much longer a step takes than ganglion's of the same field."""
    ours = next(r for r in fields if r.facts["name"] == result.facts["name"] and r.name == "ganglion")
    return result.p50 / ours.p50


def _us(us: float | None) -> str:
    return "-" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}"


def _ms(us: float | None) -> str:
    return "-" if us is None else f"{us / 1000:.3f}" if us < 10_000 else f"{us / 1000:.1f}"


def as_object(
    options: Options, about: dict[str, Any], results: list[Figures], fields: list[Figures], notes: list[str]
) -> dict[str, Any]:
    cycles = [_row(r, "cycle", ratio(r, results)) for r in results]
    steps = [_row(r, "step", step_ratio(r, fields)) for r in fields]
    asked = {"grid": options.grid, "seconds": options.seconds, "rounds": options.rounds}
    found = {"machine": about, "results": cycles, "decision_fields": steps, "notes": notes}
    return {"schema": 1, **asked, **found}


def _row(r: Figures, what: str, against: float | None) -> dict[str, Any]:
    return {
        "name": r.name,
        "threads": r.threads,
        what: {"p50_us": r.p50, "p99_us": r.p99, "p999_us": r.p999, "max_us": r.worst, "n": r.count},
        "ratio_to_ours": against,
        "command": r.command,
        "facts": r.facts,
    }
