"""Reads figures from a part's output. A reader takes the text of each step and raises Unread if it is not
what was expected."""

import csv
import json
import math
import os
import re
import statistics

# What a profile measures of each kernel: how long it runs, and the share of a multiprocessor's warps that it
# keeps active.
DURATION, WARPS = "gpu__time_duration.sum", "sm__warps_active.avg.pct_of_peak_sustained_active"
# The program's objects are nested four deep. JSON parsers fail at a depth of a hundred or so.
MOST_NESTED = 32


class Unread(Exception):
    """The output is not as expected; `figures` holds the figures that it contains nevertheless."""

    def __init__(self, why, figures=None):
        super().__init__(why)
        self.figures = figures


def finite(word):
    """The number that `word` stands for. JSON has neither NaN nor infinity, and the report is JSON."""
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word} is not a finite number")
    return number


def last_object(texts):
    """The JSON object on the last line."""
    lines = texts[-1].strip().splitlines()
    try:
        found = json.loads(lines[-1], parse_constant=finite, parse_float=finite)
    except (IndexError, ValueError, RecursionError) as why:
        raise Unread(f"no JSON on the last line: {why}") from None
    if not isinstance(found, dict):
        raise Unread(f"the last line is not a JSON object: {lines[-1][:80]}")
    if not shallow(found, MOST_NESTED):
        raise Unread(f"the object on the last line is nested more than {MOST_NESTED} deep")
    return found


def shallow(value, left):
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return left > 0 and all(shallow(each, left - 1) for each in below)


def rows(texts):
    """The CSV of nvidia-smi, one row per device."""
    found = [[cell.strip() for cell in line.split(",")] for line in texts[-1].splitlines() if line.strip()]
    if not found:
        raise Unread("no device is listed")
    return found


def profile(texts):
    """From Nsight Compute's CSV: how long each kernel runs, and how many warps it keeps active on a multiprocessor."""
    text = [line for line in texts[-1].splitlines() if line.startswith('"')]
    found = {}
    for row in csv.DictReader(text):
        kernel = found.setdefault(row["Kernel Name"].partition("(")[0], {})
        kernel.setdefault(row["Metric Name"], []).append(finite(row["Metric Value"].replace(",", "")))
    if not found:
        raise Unread("no kernel was profiled")
    median = lambda values: round(statistics.median(values), 3) if values else None
    kernels = []
    for name, metrics in found.items():
        times, warps = metrics.get(DURATION, []), metrics.get(WARPS, [])
        kernels.append({"kernel": name, "count": len(times), "p50_ns": median(times), "warps_percent": median(warps)})
    return sorted(kernels, key=lambda kernel: -(kernel["p50_ns"] or 0))


def lines(texts):
    return texts[-1].splitlines()


def tests(texts):
    """The counts of a test program. A test that skipped itself is counted there as passed, so it is refused here."""
    text = texts[-1]
    found = re.search(r"test result: \w+\. (\d+) passed; (\d+) failed", text)
    if not found:
        begun = re.findall(r"^test (\S+) \.\.\. ", text, re.MULTILINE)
        if not begun:
            raise Unread("no test has run")
        counted = {"begun": len(begun), "last": begun[-1]}
        raise Unread(f"the tests did not end; the last one begun is {begun[-1]}", counted)
    failures = text.rpartition("\nfailures:\n")
    names = re.findall(r"^    (\S+)$", failures[2], re.MULTILINE) if failures[1] else []
    counted = {"passed": int(found[1]), "failed": int(found[2]), "failed_tests": names}
    skipped = re.findall(r"skipped: .*", text)
    if counted["passed"] + counted["failed"] == 0:
        raise Unread("no test has run", counted)
    if skipped:
        raise Unread(skipped[0], counted)
    return counted


def sanitizer(texts):
    """What compute-sanitizer counted, and the test that ran under it."""
    found = re.search(r"ERROR SUMMARY: (\d+) error", texts[-1])
    hazards = re.search(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warn", texts[-1])
    if not (found or hazards):
        raise Unread("compute-sanitizer printed no summary")
    counted = {"errors": int(found[1] if found else hazards[2])}
    if hazards:
        counted.update(hazards=int(hazards[1]), warnings=int(hazards[3]))
    try:
        return {**counted, "tests": tests(texts)}
    except Unread as why:
        raise Unread(str(why), {**counted, "tests": why.figures}) from None


def bench(engine, emulated):
    """Reads the object of `bench field`; the engine must be this one, and the driver real or emulated as asked."""

    def read(texts):
        figures = last_object(texts)
        if figures.get("engine") != engine:
            raise Unread(f"the engine was {figures.get('engine')}, not {engine}")
        if engine == "cuda" and bool(figures.get("emulated")) != emulated:
            raise Unread("on the stand-in driver" if not emulated else "not on the stand-in driver")
        return figures

    return read


def hrr(emulated):
    """The object of `bench hrr`, if a GPU took part."""

    def read(texts):
        figures = last_object(texts)
        if not figures.get("gpu"):
            raise Unread(f"no GPU took part: {figures.get('gpu_absence')}", figures)
        if bool(figures.get("emulated")) != emulated:
            raise Unread("on the stand-in driver" if not emulated else "not on the stand-in driver")
        return figures

    return read


def kernels_from(emulated, *sources):
    """For several starts of `bench field`: where the kernels came from, how long loading them took, and the
    median cycle. The stand-in executes no machine code, so there the source is not compared."""

    def read(texts):
        starts = []
        for text, source in zip(texts, sources):
            figures = bench("cuda", emulated)([text])
            if figures.get("image") != source and not emulated:
                raise Unread(f"the kernels came from {figures.get('image')}, not from {source}")
            cycle = figures.get("cycle")
            p50 = cycle.get("p50_us") if isinstance(cycle, dict) else None
            starts.append({"image": figures.get("image"), "image_ms": figures.get("image_ms"), "p50_us": p50})
        if not all(isinstance(start["image_ms"], (int, float)) for start in starts):
            raise Unread("the object does not say how long loading the kernels took")
        return starts

    return read


def with_and_without_image(emulated):
    read = kernels_from(emulated, "fatbin", "ptx")
    return lambda texts: dict(zip(("with_image", "through_the_jit"), read(texts)))


def cached(emulated, folder):
    """Whether the second start with the same cache loads faster, and how much the driver wrote to the cache."""
    read = kernels_from(emulated, "ptx", "ptx")

    def compare(texts):
        first, second = read(texts)
        sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names]
        faster = second["image_ms"] < first["image_ms"]
        kept = {"files": len(sizes), "bytes": sum(sizes)}
        return {"first": first, "second": second, "second_is_faster": faster, "cache": kept}

    return compare
