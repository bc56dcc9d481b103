"""Fills the folder that the check runs from; needs a machine with Rust."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from places import BUILT, IMAGE, KIT, PROGRAM, ROOT, TESTS


def build():
    """Fills the folder that the check runs from."""
    say = lambda *words: subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    KIT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    order = ["cargo", "test", "--no-run", "--locked", "--test", "ganglion", "--message-format=json"]
    told = subprocess.run(order, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    tests = [m["executable"] for m in made if m.get("executable") and m["target"]["kind"] == ["test"]]
    if len(tests) != 1:
        sys.exit(f"cargo built {len(tests)} test binaries, not one")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for source, place in ((target / "release" / "ganglion", PROGRAM), (tests[0], TESTS)):
        shutil.copy2(source, place)
        if shutil.which("strip"):  # less to copy to the machine with the GPU
            subprocess.run(["strip", place], check=True)
    if subprocess.run([sys.executable, ROOT / "scripts" / "build-fatbin"], stdout=subprocess.DEVNULL).returncode == 0:
        shutil.copy2(ROOT / "target" / "image" / "ganglion.fatbin", IMAGE)
    else:
        IMAGE.unlink(missing_ok=True)
        print("without the release image: the driver compiles the kernels")
    changed = " and changes" if say("git", "status", "--porcelain", "--untracked-files=no") else ""
    facts = {"commit": say("git", "rev-parse", "HEAD") + changed, "rustc": say("rustc", "--version")}
    BUILT.write_text(json.dumps({**facts, "host": platform.machine()}) + "\n")
    print(*(f"{path.relative_to(ROOT)}, {path.stat().st_size} bytes" for path in sorted(KIT.iterdir())), sep="\n")
    return 0
