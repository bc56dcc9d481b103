"""How the comparison ends when it cannot continue; the codes are those of the ganglion program."""

UNAVAILABLE = 69  # something that is needed is missing
DISAGREE = 70  # the peers do not compute the same
INTERRUPTED = 130


class Failure(Exception):
    """A message for the user, and the exit code."""

    def __init__(self, message: str, code: int = UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = code


def note(text: str) -> None:
    """Prints progress and remarks to standard error; standard output is for the table."""
    import sys

    print(text, file=sys.stderr, flush=True)
