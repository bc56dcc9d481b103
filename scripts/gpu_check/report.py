"""The report file: it lists every part from the start and is replaced as a whole whenever a part begins or ends; and the logs."""

import datetime
import json
import os
import platform
import re
import time

import targets
from places import BUILT, IMAGE, short

NOT_BEGUN, RUNNING, INTERRUPTED = "not begun", "running", "interrupted"
WORDS = (NOT_BEGUN, "passed", "failed", INTERRUPTED, "skipped")


class Report:
    """The state of every part, in memory and in the file."""

    def __init__(self, path, parts, emulated, minutes):
        self.path, self.emulated, self.began = path, emulated, time.monotonic()
        self.logs = path.with_name(path.stem + ".logs")
        self.entries = [
            {
                "name": part.name,
                "command": "; ".join(short(step) for step in part.steps),
                "limit_s": part.limit_s,
                "result": NOT_BEGUN,
            }
            for part in parts
        ]
        self.facts = {
            "schema": 2,
            "state": "running",
            "emulated": emulated,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": " ".join([platform.system(), platform.release(), platform.machine()]),
            "cores": os.cpu_count(),
            "built": built(),
            "release_image": IMAGE.exists(),
            "minutes": minutes,
        }
        self.logs.mkdir(parents=True, exist_ok=True)
        for old in (*self.logs.glob("*.out"), *self.logs.glob("*.err")):
            old.unlink()  # logs of an earlier run would look like this one's

    def log(self, number, ending):
        """The log file of part `number`."""
        name = re.sub(r"[^A-Za-z0-9.]+", "-", self.entries[number]["name"])
        return self.logs / f"{number + 1:02}-{name}.{ending}"

    def set(self, number, **facts):
        """Replaces the entry of a part."""
        kept = {key: self.entries[number][key] for key in ("name", "command", "limit_s")}
        self.entries[number] = {**kept, **facts}

    def end(self, state):
        self.facts["state"] = state

    def counts(self):
        return {word: sum(entry["result"] == word for entry in self.entries) for word in WORDS}

    def passed_s(self):
        return time.monotonic() - self.began

    def outputs(self):
        """Figures of the parts that passed. The figures of a failed part are in the file but are not judged."""
        return {entry["name"]: entry["output"] for entry in self.entries if entry["result"] == "passed"}

    def device(self):
        """Name and driver, from the figures or else from nvidia-smi."""
        outputs = self.outputs()
        for name, output in outputs.items():
            if name.startswith("bench/cuda/") and output.get("device"):
                return output["device"], output.get("driver")
        facts = outputs.get("facts")
        return (facts[0][0], facts[0][1]) if facts and len(facts[0]) > 1 else (None, None)

    def as_object(self):
        device, driver = self.device()
        return {
            **self.facts,
            "device": device,
            "driver": driver,
            "wall_s": round(self.passed_s(), 1),
            "counts": self.counts(),
            "logs": self.logs.name,
            "parts": self.entries,
            "targets": targets.judged(device, self.outputs(), self.emulated),
        }

    def write(self):
        """Writes the file completely or leaves it as it was. Only ASCII, because a part may have printed anything."""
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "w", encoding="ascii") as file:
            file.write(json.dumps(self.as_object(), indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)


def built():
    """The description that the build wrote, if it can be read."""
    try:
        return json.loads(BUILT.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
