"""Runs one command in its own process group, for a limited time, and leaves none of its processes alive."""

import os
import signal
import subprocess
import time

# After SIGTERM a process has this long to clean up; then it is killed.
TERM_PATIENCE_S = 2
# A process inside a driver call that hangs may survive even SIGKILL.
KILL_PATIENCE_S = 5
# Seconds between two polls of the child; the first polls come faster, for short commands.
LOOK_S = 0.05


class Stop:
    """Records the signal that asked the script to end. Its handler does nothing else, so that no step is cut short."""

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self):
        self.signal = None

    def watch(self):
        for number in self.SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP stays ignored
                signal.signal(number, self.note)

    def note(self, number, _frame):
        if self.signal is None:
            self.signal = signal.Signals(number)


class Ended:
    """How a command ended: its exit code, or why it was ended."""

    def __init__(self, code, wall_s, why=None):
        self.code, self.wall_s, self.why = code, wall_s, why


def run(command, cwd, env, out, err, limit_s, stop):
    """Runs `command` with its output in the open files `out` and `err`, not in pipes: a process that cannot be
    killed would hold a pipe open. Raises OSError if it cannot be started."""
    began = time.monotonic()
    child = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
    why = None
    if not _ends(child, limit_s, stop):
        why = f"ended by {stop.signal.name}" if stop.signal else f"not done after {limit_s:.0f} s"
        # A command that exceeded its limit gets no time to clean up.
        if not (stop.signal and _signal(child, signal.SIGTERM) and _ends(child, TERM_PATIENCE_S)):
            _signal(child, signal.SIGKILL)
            why += ": killed" if _ends(child, KILL_PATIENCE_S) else ": it cannot be killed"
    # Ends processes that the command left behind, before the child is reaped and the group's number may be reused.
    _signal(child, signal.SIGKILL)
    return Ended(child.poll(), round(time.monotonic() - began, 3), why)


def _signal(child, number):
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):  # no process is left, or one now belongs to another user
        pass
    return True


def _ends(child, seconds, stop=None):
    """Whether the child ends in this time and before a signal. It is not reaped, so that its process id is not reused."""
    until, look = time.monotonic() + seconds, 0.001
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() >= until or (stop and stop.signal):
            return False
        time.sleep(look)
        look = min(2 * look, LOOK_S)
    return True
