"""Paths, and how a command is displayed."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KIT = ROOT / "target" / "gpu-check"
PROGRAM, TESTS, IMAGE, BUILT = KIT / "ganglion", KIT / "tests", KIT / "ganglion.fatbin", KIT / "build.json"
STAND_IN = ROOT / "target" / "stand-in"


def short(command):
    """A command as a person would type it in the root of the repository."""
    return " ".join(str(word).replace(f"{ROOT}/", "") for word in command)
