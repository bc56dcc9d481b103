"""Sets up what the comparison runs on: a virtual environment under target/peers, and our binary."""

import os
import shutil
import subprocess
import venv
from pathlib import Path

from failure import Failure, note

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLACE = ROOT / "target" / "peers"
PYTHON = PLACE / "bin" / "python"
INDEX = "PEERS_TORCH_INDEX"
# Twice the unpacked size of PyTorch's default build, because pip needs as much again while unpacking.
DISK_NEEDED = 9e9


def python() -> None:
    """Makes the virtual environment, with NumPy and SciPy."""
    if not PYTHON.exists():
        note(f"creating a virtual environment in {PLACE.relative_to(ROOT)} ...")
        try:
            venv.create(PLACE, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(PLACE, ignore_errors=True)
            raise Failure(
                f"python3 cannot create a virtual environment ({error}); Debian: apt-get install python3-venv"
            ) from error
    if not _has(HERE / "requirements.txt"):
        note("installing NumPy and SciPy ...")
        problem = _pip("--require-hashes", "--only-binary", ":all:", "-r", str(HERE / "requirements.txt"))
        if problem:
            raise Failure(f"pip could not install NumPy and SciPy: {problem}")


def torch() -> str | None:
    """Installs PyTorch from wherever possible; returns the reason if that fails."""
    requirements = HERE / "requirements-torch.txt"
    if _has(requirements):
        return None
    wanted = [line for line in requirements.read_text().split() if line.startswith("torch==")][0]
    index = os.environ.get(INDEX)
    if index:
        note(f"installing {wanted} from ${INDEX} ...")
        problem = _pip(wanted, "--index-url", index)
        return problem and f"pip could not install {wanted} from ${INDEX}: {problem}"
    note(f"looking for a CPU build of {wanted} ...")
    if _pip(f"{wanted}+cpu") is None:
        return None
    free = shutil.disk_usage(PLACE).free
    if free < DISK_NEEDED:
        return f"no CPU build was found, and {free / 1e9:.0f} GB of disk are not enough for the default one ({DISK_NEEDED / 1e9:.0f})"
    note(f"none known to pip; installing the default build of {wanted}: up to 3 GB, some minutes ...")
    problem = _pip("--no-cache-dir", wanted)
    return problem and f"pip could not install {wanted}: {problem}"


def compiler() -> str | None:
    """The reason why torch.compile cannot work here, if there is one."""
    if shutil.which(os.environ.get("CXX", "g++")):
        return None
    return "torch.compile needs a C++ compiler and g++ is missing; Debian: apt-get install g++"


def ganglion(binary: Path | None) -> Path:
    """Our program, built in release mode unless `binary` names one."""
    if binary:
        if not os.access(binary, os.X_OK):
            raise Failure(f"{binary} is not a program")
        return binary
    if not shutil.which("cargo"):
        raise Failure("there is no cargo; install Rust, or name a built ganglion with --binary")
    note("building ganglion in release mode ...")
    built = subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=ROOT, check=False)
    if built.returncode:
        raise Failure("cargo could not build ganglion; see its message above")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return ROOT / target / "release" / "ganglion"


def _has(requirements: Path) -> bool:
    """Whether exactly these versions are installed. A local tag such as +cpu is ignored."""
    check = (
        "import sys, importlib.metadata as m\n"
        "for line in open(sys.argv[1]):\n"
        "    name, pinned, version = line.partition('#')[0].strip(' \\n\\\\').partition('==')\n"
        "    assert not pinned or m.version(name).partition('+')[0] == version\n"
    )
    done = subprocess.run([PYTHON, "-c", check, requirements], capture_output=True, check=False)
    return done.returncode == 0


def _pip(*arguments: str) -> str | None:
    """Installs packages; returns the last line of pip's message if it failed."""
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False)
    if done.returncode == 0:
        return None
    return next(iter(reversed(done.stderr.strip().splitlines())), f"exit code {done.returncode}")
