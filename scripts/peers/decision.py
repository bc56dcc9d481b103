"""The comparison of a decision field's step: what is computed, turns, rows. On one thread."""

from pathlib import Path

from agreement import check
from contestants import Figures, GanglionDecision, Peer
from failure import note
from options import Options

# As `ganglion bench field` and decision_field.py name them.
FIELDS = ("100 sites", "64^2 sites", "32^3 sites")


def agree(notes: list[str]) -> None:
    """Ends the comparison unless the peers' steps give the numbers of the definition."""
    note("comparing the peers' decision fields with the definition ...")
    check(["decision_agree.py"], "the peers do not compute the same decision field; nothing was timed")
    notes.append("Before the timing the peers' decision fields agreed with the definition.")


def measure(asked: Options, binary: Path, notes: list[str]) -> list[Figures]:
    """Measures all fields in turns; then checks that ganglion's have the definition's activation."""
    ours, peers = GanglionDecision(binary), []
    try:
        for name in FIELDS:
            note(f"decision field, {name}: warming up ...")
            peers.append(Peer("NumPy/SciPy", "decision", name, 1))
            peers[-1].start()
        for number in range(asked.rounds):
            for one in (ours, *peers):
                size = one.figures.facts.get("name", "all")
                note(f"decision field: turn {number + 1} of {asked.rounds}: {one.figures.name}, {size} ...")
                one.turn(asked.seconds)
    finally:
        for one in (ours, *peers):
            one.stop()
    found = ours.results()
    compared = [r.facts for r in found if r.facts["name"] in FIELDS]
    states = [str(facts[key]) for facts in compared for key in ("name", "all_steps", "highest")]
    check(["decision_agree.py", *states], "ganglion does not compute the same decision field as the peers")
    notes.append("The highest activation of ganglion's decision fields agreed with the definition too.")
    for one in [peer.result() for peer in peers]:
        tried = ", ".join(f"{way} {us:.1f} us" for way, us in one.facts["ways_us"].items())
        notes.append(f"{one.facts['name']}: {one.facts['way']} was kept (tried before: {tried}).")
        found.append(one)
    order = [r.facts["name"] for r in found]
    return sorted(found, key=lambda one: order.index(one.facts["name"]))
