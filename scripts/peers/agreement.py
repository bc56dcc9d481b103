"""Runs a check of what the peers compute; the comparison ends if it fails."""

import subprocess

from contestants import surroundings
from environment import HERE, PYTHON
from failure import DISAGREE, Failure, note


def check(arguments: list[str], failure: str) -> None:
    """Runs a script of this folder."""
    # In a separate session, so that Ctrl-C does not make it print a traceback.
    done = subprocess.run(
        [PYTHON, *arguments],
        cwd=HERE,
        env=surroundings(1),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        check=False,
    )
    note(done.stdout.rstrip())
    if done.returncode:
        raise Failure(failure, DISAGREE)
