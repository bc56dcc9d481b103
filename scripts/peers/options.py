"""The command line of bench-peers."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

USAGE = 64


@dataclass(frozen=True)
class Options:
    threads: list[int]
    grid: int
    seconds: float
    rounds: int
    cycle: bool
    decision: bool
    json: bool
    output: Path | None
    binary: Path | None
    torch: bool
    require_torch: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"bench-peers: {message}\nbench-peers --help says what is allowed", file=sys.stderr)
        sys.exit(USAGE)


def parse(arguments: list[str]) -> Options:
    parser = _Parser(
        prog="bench-peers",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Times a field cycle of ganglion, PyTorch (eager and compiled) and NumPy/SciPy, and a\n"
        "step of a decision field of ganglion and NumPy/SciPy, in turns on this machine. Prints Markdown\n"
        "tables; progress goes to standard error.",
        epilog="""environment:
  PEERS_TORCH_INDEX   a package index that serves PyTorch's CPU build, for pip's --index-url

Everything is installed into target/peers. If the variable is not set and the index in pip's own
settings has no CPU build either, PyTorch's default build is installed: with CUDA, up to 3 GB to
download and 6 GB on the disk. --no-torch leaves PyTorch out.

exit codes: 0 done (if PyTorch is missing, a note says so); 64 wrong command line; 69 something needed
is not available; 70 the peers do not compute the same; 130 ended by Ctrl-C""",
    )
    parser.add_argument(
        "--threads", type=_threads, default=[1, 2], metavar="T,..", help="thread counts (default 1,2)"
    )
    parser.add_argument(
        "--grid", type=int, choices=(8, 16, 32, 64), default=32, help="cells per axis (default 32)"
    )
    parser.add_argument(
        "--seconds", type=_seconds, metavar="S", help="length of a peer's turn, seconds (default 4)"
    )
    parser.add_argument("--rounds", type=_count, metavar="N", help="turns per peer (default 5)")
    parser.add_argument("--only", choices=("cycle", "decision"), help="only this comparison")
    parser.add_argument("--quick", action="store_true", help="two turns of one second")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on the last line")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the table to FILE, the JSON beside it (.json)"
    )
    parser.add_argument("--binary", type=Path, metavar="FILE", help="an already built ganglion")
    torch = parser.add_mutually_exclusive_group()
    torch.add_argument("--require-torch", action="store_true", help="fail if PyTorch cannot be installed")
    torch.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    given = parser.parse_args(arguments)
    if given.output and given.output.suffix == ".json":
        parser.error("--output names the table, e.g. FILE.md; the JSON is written to FILE.json beside it")
    if given.output and not given.output.resolve().parent.is_dir():
        parser.error(f"--output: there is no folder {given.output.resolve().parent}")
    return Options(
        threads=given.threads,
        grid=given.grid,
        seconds=given.seconds or (1.0 if given.quick else 4.0),
        rounds=given.rounds or (2 if given.quick else 5),
        cycle=given.only != "decision",
        decision=given.only != "cycle",
        json=given.json,
        output=given.output,
        binary=given.binary,
        torch=not given.no_torch,
        require_torch=given.require_torch,
    )


def _threads(text: str) -> list[int]:
    counts = [int(count) if count.isdecimal() else 0 for count in text.split(",")]
    if not all(1 <= count <= 64 for count in counts) or len(set(counts)) < len(counts):
        raise argparse.ArgumentTypeError("allowed: different counts from 1 to 64, e.g. 1,2")
    return counts


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.2 <= seconds <= 600.0:
        raise argparse.ArgumentTypeError("allowed: 0.2 to 600 seconds")
    return seconds


def _count(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= 1000:
        raise argparse.ArgumentTypeError("allowed: 1 to 1000")
    return count
