"""The comparison from start to end: set up, check that the peers compute the same, take turns,
write the table. Runs on the installed Python and needs only its standard library.
"""

import json
import sys
from pathlib import Path

import decision
import environment
import options
import table
from agreement import check
from contestants import Figures, Ganglion, Peer
from failure import INTERRUPTED, Failure, note
from options import Options

# Largest share of the cores that other programs keep busy on a machine that counts as quiet.
QUIET = 0.1


def main() -> int:
    asked = options.parse(sys.argv[1:])
    try:
        compare(asked)
    except Failure as failure:
        note(f"bench-peers: {failure}")
        return failure.code
    except KeyboardInterrupt:
        note("bench-peers: ended by Ctrl-C; nothing was written")
        return INTERRUPTED
    return 0


def compare(asked: Options) -> None:
    notes: list[str] = []
    environment.python()
    torch, compiled = _torch(asked, notes) if asked.cycle else (False, False)
    binary = environment.ganglion(asked.binary)
    if asked.binary:
        notes.append("The commit is that of the scripts; ganglion was already built (--binary).")
    if asked.cycle:
        agree(asked.grid, torch, compiled, notes)
    if asked.decision:
        decision.agree(notes)
    about = table.machine()
    if about["busy"] > QUIET * about["cores"]:
        notes.append(
            f"Not a quiet machine: other programs kept {about['busy']:.1f} of {about['cores']} cores busy just before. "
            "Peers with two or more threads suffer most: the threads wait for each other at every operation."
        )
    results: list[Figures] = []
    for threads in asked.threads if asked.cycle else []:
        results += measure(asked, threads, binary, torch, compiled, notes)
    fields = decision.measure(asked, binary, notes) if asked.decision else []
    text = table.markdown(asked, about, results, fields, notes)
    found = json.dumps(table.as_object(asked, about, results, fields, notes))
    print(text)
    if asked.output:
        try:
            asked.output.write_text(text)
            asked.output.with_suffix(".json").write_text(found + "\n")
        except OSError as error:
            raise Failure(f"--output {asked.output}: {error.strerror}") from error
    if asked.json:
        print(found)


def _torch(asked: Options, notes: list[str]) -> tuple[bool, bool]:
    """Whether PyTorch is available, and whether it can compile."""
    missing = environment.torch() if asked.torch else "left out, as asked"
    if missing and asked.require_torch:
        raise Failure(f"PyTorch: {missing}")
    if missing:
        notes.append(f"No PyTorch: {missing}.")
        return False, False
    without = environment.compiler()
    if without and asked.require_torch:
        raise Failure(without)
    if without:
        notes.append(f"No compiled PyTorch: {without}.")
    return True, without is None


def agree(grid: int, torch: bool, compiled: bool, notes: list[str]) -> None:
    """Ends the comparison unless the peers' cycles give the same numbers."""
    note("comparing what the peers compute (compiling takes half a minute the first time) ...")
    wanted = [name for name, there in (("torch", torch), ("compiled", compiled)) if there]
    check(["agree.py", str(grid), *wanted], "the peers do not compute the same cycle; nothing was timed")
    notes.append(
        "Before the timing the peers' cycles agreed in field, features, matches, prediction and motors."
    )


def measure(
    asked: Options, threads: int, binary: Path, torch: bool, compiled: bool, notes: list[str]
) -> list[Figures]:
    """Measures all peers with that many threads, in turns."""
    field: list[Ganglion | Peer] = [
        Ganglion(binary, storage, asked.grid, threads) for storage in ("f32", "f16")
    ]
    kinds = [("NumPy/SciPy", "numpy")]
    if threads == asked.threads[0]:
        kinds.append(("NumPy, plain copy of the field", "copy"))
    kinds = [("PyTorch, eager", "torch-eager")] * torch + kinds
    kinds = [("PyTorch, compiled", "torch-compiled")] * compiled + kinds
    try:
        for name, kind in kinds:
            note(f"threads {threads}: {name}: warming up ...")
            peer = Peer(name, kind, asked.grid, 1 if kind == "copy" else threads)
            field.append(peer)
            peer.start()
        for number in range(asked.rounds):
            for one in list(field):
                note(f"threads {threads}: turn {number + 1} of {asked.rounds}: {one.figures.name} ...")
                try:
                    one.turn(asked.seconds)
                except Failure as failure:
                    if isinstance(one, Peer):
                        raise
                    notes.append(f"{failure}.")
                    field.remove(one)
    finally:
        for one in field:
            one.stop()
    results = [one.result() for one in field]
    for one in results:
        if "way" in one.facts:
            tried = ", ".join(f"{way} {us / 1000:.2f} ms" for way, us in one.facts["ways_us"].items())
            notes.append(
                f"{one.name}, threads {threads}: {one.facts['way']} was kept (tried before: {tried})."
            )
    return results


if __name__ == "__main__":
    sys.exit(main())
