"""The whole check, one part after another; no part can lose the results of the others."""

import json
import os
import shutil
import subprocess
import sys

import child
import parts as listed
from places import PROGRAM, ROOT, STAND_IN, TESTS
from reading import Unread
from report import INTERRUPTED, NOT_BEGUN, RUNNING, Report

# Characters at the end of a failed part's output that the report file keeps; the rest is in the logs.
WORDS = 2000
# Bytes at the end of a step's output that are searched for figures.
READ_BYTES = 4 << 20
# The longest time that a tool may take to print its version.
PROBE_S = 10
# The longest time that compiling the stand-in may take; a slow core needs half a minute.
COMPILE_S = 240


def check(parts, emulated, out, minutes):
    """Runs `parts` and returns the exit code."""
    for needed in (PROGRAM, TESTS):
        if not needed.exists():
            name = needed.relative_to(ROOT)
            print(f"gpu-check: no {name}: run scripts/gpu-check --build where Rust is installed", file=sys.stderr)
            return 69
    stop = child.Stop()
    stop.watch()
    if emulated:
        make = ["sh", "scripts/stand-in-driver", STAND_IN]
        made = child.run(make, ROOT, None, subprocess.DEVNULL, None, COMPILE_S, stop)
        if made.code != 0:
            print(f"gpu-check: no stand-in driver: {made.why or 'see above'}", file=sys.stderr)
            return 69
    try:
        report = Report(out, parts, emulated, minutes)
        report.write()
    except OSError as why:
        print(f"gpu-check: cannot write {out} and its logs: {why.strerror}", file=sys.stderr)
        return 73
    env = listed.environment(emulated, STAND_IN)
    for number, part in enumerate(parts):
        left_s = 60 * minutes - report.passed_s()
        if stop.signal or left_s < 1:
            break
        say(f"start    {part.name:32} {number + 1} of {len(parts)}, at most {min(part.limit_s, left_s):.0f} s")
        report.set(number, result=RUNNING)
        keep(report)
        done = run(part, number, report, env, left_s, stop)
        report.set(number, **done)
        keep(report)
        say(f"{done['result']:8} {part.name:32} {done.get('wall_s', 0):7.1f} s  {done.get('why', '')}")
    return conclude(report, stop)


def conclude(report, stop):
    """Writes the final state of the file, prints the verdicts and the totals, and returns the exit code."""
    why = f"ended by {stop.signal.name}" if stop.signal else "the time limit was reached"
    for entry in report.entries:
        if entry["result"] == NOT_BEGUN:
            entry["why"] = f"not begun: {why}"
    counts = report.counts()
    cut = counts[NOT_BEGUN] + counts[INTERRUPTED]
    report.end(why if cut or stop.signal else "complete")
    keep(report)
    targets = report.as_object()["targets"]
    for target in targets:
        aim = "" if target["aim"] is None else f", aim {target['aim']}"
        said = target.get("why") or f"{target['value']}, needed {target['least']}{aim}"
        say(f"{target['verdict']:12} {target['name']}: {said}")
    say(", ".join(f"{count} {word}" for word, count in counts.items()) + f", {report.passed_s():.0f} s; {report.path}")
    if stop.signal:
        return 128 + stop.signal
    missed = any(target["verdict"] == "fail" for target in targets)
    return 1 if counts["failed"] or cut else 75 if missed else 0


def run(part, number, report, env, left_s, stop):
    """Runs a part; returns its entry in the file, which also records whatever goes wrong here."""
    try:
        why = absent(part, env, stop)
        if why:
            return {"result": "skipped", "why": why}
        return run_steps(part, number, report, env, min(part.limit_s, left_s), stop)
    except Exception as why:  # a bug in this script must not lose the other parts either
        return {"result": "failed", "why": f"gpu-check itself failed: {type(why).__name__}: {why}"}


def absent(part, env, stop):
    """Why the part is skipped on this machine; None if it is not skipped."""
    if part.needs and not part.needs.exists():
        return part.lacking
    if not part.tool:
        return None
    program = listed.tool(part.tool)
    if not program:
        return f"absent: no {part.tool} on this machine"
    if part.probe:
        null = subprocess.DEVNULL
        ended = child.run([program, "--version"], ROOT, env, null, null, PROBE_S, stop)
        if ended.code != 0 and not stop.signal:
            return f"absent: {part.tool} is installed but does not run ({ended.why or f'exit code {ended.code}'})"
    return None


def run_steps(part, number, report, env, limit_s, stop):
    """Runs the commands of a part, which write to its logs, and reads the figures from the logs."""
    if part.fresh:
        shutil.rmtree(part.fresh, ignore_errors=True)
        part.fresh.mkdir(parents=True)
    logs = [report.log(number, ending) for ending in ("out", "err")]
    done, texts, why, words = {"exit_code": None, "wall_s": 0.0}, [], None, ""
    with open(logs[0], "wb") as out, open(logs[1], "wb") as err:
        for step in part.steps:
            began = [file.tell() for file in (out, err)]
            try:
                ended = child.run(step, ROOT, env, out, err, limit_s - done["wall_s"], stop)
            except OSError as problem:
                why = f"cannot be started: {problem.strerror}"
                break
            done.update(exit_code=ended.code, wall_s=round(done["wall_s"] + ended.wall_s, 3))
            for file in (out, err):
                file.seek(0, 2)  # past what the child has written
            text, words = (text_of(log, start) for log, start in zip(logs, began))
            texts.append(text)
            why = ended.why or exit_reason(ended.code, text, words)
            if why:
                break
    output, unread = read(part, texts)
    if part.fresh:
        shutil.rmtree(part.fresh, ignore_errors=True)
    done["output"] = output
    done["logs"] = [log.name for log in logs]
    if not (why or unread):
        return {"result": "passed", **done}
    last = texts[-1] if texts else ""
    result = INTERRUPTED if stop.signal and why else "failed"
    return {"result": result, "why": why or unread, **done, "stdout": last[-WORDS:], "stderr": words[-WORDS:]}


def text_of(log, start):
    """The output of a step, from `start` on; bytes that are not UTF-8 are replaced."""
    with open(log, "rb") as file:
        end = file.seek(0, 2)
        file.seek(max(start, end - READ_BYTES))
        return file.read().decode("utf-8", "replace")


def exit_reason(code, text, words):
    """Why a command failed: the first line of standard error, or else the last line of standard output."""
    if code == 0:
        return None
    said = words.strip().splitlines()[:1] + text.strip().splitlines()[-1:]
    how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return f"{how}: {said[0][:300] if said else 'no output'}"


def read(part, texts):
    """The figures, and why they are not as expected, or None. A failed part may have figures too, namely its counts."""
    if len(texts) < len(part.steps):
        return None, "not every command of the part has run"
    try:
        found = part.read(texts)
        json.dumps(found, ensure_ascii=False).encode()  # text that is not Unicode would make the whole file unreadable
        return found, None
    except Unread as why:
        return why.figures, str(why)
    except Exception as why:
        return None, f"the output cannot be read: {type(why).__name__}: {why}"


def say(line):
    """Prints a line as ASCII, because the terminal may lack other characters; standard output may be closed."""
    try:
        print(line.encode("ascii", "backslashreplace").decode("ascii"), flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def keep(report):
    """Writes the file; a full disk does not end the check, since it may not stay full."""
    try:
        report.write()
    except OSError as why:
        say(f"cannot write {report.path}: {why.strerror}; the file is as it was before")
