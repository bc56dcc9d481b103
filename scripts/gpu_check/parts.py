"""The parts in order: the most important first, because time may run out."""

import dataclasses
import os
import shutil
from typing import Callable, Optional

import reading
from places import IMAGE, KIT, PROGRAM, TESTS

LEVELS = range(6)
STORAGES = ["f32", "f16"]
# A file that does not exist: the program then uses the PTX, which the driver compiles.
NO_IMAGE = KIT / "no-image"
# A fresh folder for the driver's cache of compiled kernels.
CACHE = KIT / "compute-cache"
# Where a CUDA toolkit installs its programs, if they are not in the path.
TOOLKIT = "/usr/local/cuda/bin"
# The test that runs under the sanitizer, which makes it many times slower: it has small fields, and covers
# everything that runs between cycles.
SMALL = "cuda::engine::changes_between_cycles_apply_in_the_next"


@dataclasses.dataclass
class Part:
    """A few commands, how long they may take together, and what is read from their output."""

    name: str
    steps: list
    limit_s: int
    read: Callable[[list], object]
    tool: Optional[str] = None  # a program without which the part is skipped
    probe: bool = False  # whether the tool must also answer --version, because an installed tool may still not run
    fresh: Optional[object] = None  # a folder that is emptied before the part runs
    needs: Optional[object] = None  # a file without which the part is skipped
    lacking: str = ""  # the reason that the report then gives


def chosen(parts, names):
    """The parts with one of these names, or whose names begin with one and a slash; all parts if none is given."""
    return [part for part in parts if not names or any(f"{part.name}/".startswith(f"{name}/") for name in names)]


def tool(name):
    """The path of an NVIDIA tool, or None."""
    return shutil.which(name) or shutil.which(name, path=TOOLKIT)


def parts(emulated):
    sizes, batches = ([8], [2, 4]) if emulated else ([32, 16, 64], [32, 64])
    of = lambda engine, grid: [_bench(engine, emulated, grid, s, level) for level in LEVELS for s in STORAGES]
    first, *rest = sizes
    cuda = of("cuda", first)
    return [
        *_machine(),
        *cuda[: len(STORAGES)],
        _bench("cuda", emulated, first, "f32", batch=batches[0]),
        _bench("cuda", emulated, first, "f16", batch=batches[1]),
        _profile(first),
        _tests(emulated),
        *_kernels(emulated),
        *(_sanitizer(kind) for kind in ("memcheck", "racecheck", "initcheck", "synccheck")),
        _hrr(emulated),
        *cuda[len(STORAGES) :],
        *of("cpu", first),
        *[part for grid in rest for part in of("cuda", grid)],
        *[part for grid in rest for part in of("cpu", grid)],
    ]


def _machine():
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,persistence_mode"
    smi = ["nvidia-smi", f"--query-gpu={query},ecc.mode.current,pcie.link.gen.current", "--format=csv,noheader"]
    nvcc = [tool("nvcc") or "nvcc", "--version"]
    return [
        Part("facts", [smi], 20, reading.rows, tool="nvidia-smi"),
        Part("compiler", [nvcc], 20, reading.lines, tool="nvcc"),
        Part("doctor", [[PROGRAM, "doctor", "--json"]], 60, reading.last_object),
    ]


def _bench(engine, emulated, grid, storage, level=0, batch=None):
    command = [PROGRAM, "bench", "field", "--engine", engine, "--grid", grid, "--storage", storage, "--quality", level]
    if emulated:
        command += ["--patterns", 5, "--bank", 50]
    elif grid == 64:
        command += ["--patterns", 10]  # a hundred patterns take 1.7 GB of host memory
    command += ["--batch", batch] if batch else []
    # Long enough for thousands of cycles on a GPU, or for tens of cycles at 64^3 on one core.
    command += ["--seconds", 1 if emulated or engine == "cpu" else 2, "--json"]
    what = f"batch-{batch}/{storage}" if batch else f"{grid}/{storage}/level-{level}"
    return Part(f"bench/{engine}/{what}", [command], 30, reading.bench(engine, emulated))


def _hrr(emulated):
    # The dimensions and batch sizes that the requirement states; each figure is measured for 50 ms.
    shape = ["--dims", 128, "--batches", "1,8"] if emulated else ["--dims", "512,1024", "--batches", "1,100,1000"]
    command = [PROGRAM, "bench", "hrr", *shape, "--seconds", 0.01 if emulated else 0.05, "--json"]
    return Part("bench/hrr", [command], 45, reading.hrr(emulated))


def _tests(emulated):
    # The stand-in takes minutes for the large fields and for the laws.
    names = [SMALL, "cuda::engine::a_cycle_is_one_call"] if emulated else ["cuda::engine", "field_laws::cuda"]
    names += [] if emulated else ["--include-ignored"]  # laws over many cycles, too slow for the stand-in
    names += ["cuda::release::the_release_image"] if IMAGE.exists() else []
    return Part("tests", [[TESTS, *names, "--test-threads", 1, "--nocapture"]], 150, reading.tests)


def _kernels(emulated):
    """Starts with a small field: with the release image and through the JIT, and twice through the JIT with a cache."""
    field = ["--grid", 8, "--patterns", 5, "--bank", 50, "--seconds", 0.2]
    start = [PROGRAM, "bench", "field", "--engine", "cuda", *field, "--json"]
    without = ["env", f"GANGLION_IMAGE={NO_IMAGE}"]
    jit = [*without, "CUDA_CACHE_DISABLE=1", *start]
    kept = [*without, "CUDA_CACHE_DISABLE=0", f"CUDA_CACHE_PATH={CACHE}", *start]
    return [
        Part(
            "start/image-and-jit",
            [start, jit],
            45,
            reading.with_and_without_image(emulated),
            needs=IMAGE,
            lacking="no release image in target/gpu-check: every part goes through the JIT",
        ),
        Part("start/cache", [kept, kept], 45, reading.cached(emulated, CACHE), fresh=CACHE),
    ]


def _profile(grid):
    """How long each kernel runs on its own, with caches and clocks as they are."""
    program = tool("ncu") or "ncu"
    what = ["--metrics", f"{reading.DURATION},{reading.WARPS}", "--cache-control", "none", "--clock-control", "none"]
    # Skips the kernels that fill the bank, and the start, which runs every graph once; then measures a dozen
    # cycles.
    kernels = "regex:sense|evolve|features|bank_scan|answer|deliver|metrics"
    which = ["--kernel-name", kernels, "--launch-skip", 400, "--launch-count", 160]
    bench = [PROGRAM, "bench", "field", "--engine", "cuda", "--grid", grid, "--seconds", 1, "--json"]
    command = [program, *what, *which, "--csv", "--print-units", "base", *bench]
    return Part("profile", [command], 45, reading.profile, tool="ncu", probe=True)


def _sanitizer(kind):
    program = tool("compute-sanitizer") or "compute-sanitizer"
    command = ["env", "GANGLION_PATIENCE_S=60", program, "--tool", kind, "--error-exitcode", 9]
    command += [TESTS, "--exact", SMALL, "--nocapture"]
    return Part(kind, [command], 45, reading.sanitizer, tool="compute-sanitizer", probe=True)


def environment(emulated, stand_in):
    """The parts' environment. GANGLION_GPU: the tests use the driver that is found, the machine's or the stand-in."""
    env = {**os.environ, "GANGLION_GPU": "1"}
    if IMAGE.exists():
        env["GANGLION_IMAGE"] = str(IMAGE)
    if emulated:
        env["LD_LIBRARY_PATH"] = str(stand_in)
    return env
