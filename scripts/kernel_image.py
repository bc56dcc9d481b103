"""Shared by the build scripts of the kernels: the pinned compilers, the digest of the sources, PTX and machine code.

Runs nothing by itself: scripts/build-ptx and scripts/build-fatbin do. Needs Python 3 on x86-64 Linux and a
package index; no CUDA installation and no GPU. Register counts come from the assembler; speed is not measured.
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
PTX = KERNELS / "ganglion.ptx"
TOOLS = ROOT / "target" / "cuda-tools"
# NVRTC 12.6 writes PTX 8.5, although the kernels need nothing newer than 8.0 (see `OLDEST_PACKAGES`). The assembler of CUDA
# 12.9 is the oldest that supports all four chips. The library that makes the fatbin is also from CUDA 12.9, so that nothing in the
# fatbin is newer than CUDA 12. The disassembler may be newer, because it only reads; since CUDA 13 it is a package of its own.
# The hashes are of these versions' files: a changed file is refused.
PACKAGES = """\
nvidia-cuda-nvrtc-cu12==12.6.85 --hash=sha256:800927308ccc5dd6246d3f61f7fcef2ed7ec4e59e199090d360d3293f78bd5a2
nvidia-cuda-nvcc-cu12==12.9.86 --hash=sha256:5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0
nvidia-cuda-nvdisasm==13.5.37 --hash=sha256:d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca
nvidia-nvfatbin-cu12==12.9.82 --hash=sha256:16cbfbd12287508212f22f42dff6ff51cf9b528b906f57f615b080da16dea1ea
"""
# The version that NVRTC writes, and the one in the image: PTX 8.0 came with CUDA 12.0 (PTX ISA, "Release notes"), which
# driver 525 includes. Each build proves that the text needs nothing newer: see `prove_oldest`.
WRITTEN, OLDEST = b"\n.version 8.5\n", b"\n.version 8.0\n"
# CUDA 12.0 itself: its assembler, and the header of its driver API.
OLDEST_PACKAGES = """\
nvidia-cuda-nvcc-cu12==12.0.140 --hash=sha256:958d54df87d0c0b7207e7fed403d6eeda0890a01cc44cfeaccf87c7f90e9b165
nvidia-cuda-runtime-cu12==12.0.146 --hash=sha256:18c038592af387684812fa712642aa9a26c12da80acb488b6709f7cced147f71
"""
OLDEST_CHIPS = ["sm_87", "sm_89", "sm_90"]  # those of `CHIPS` that CUDA 12.0 supports
OPTIONS = [b"--gpu-architecture=compute_87", b"--std=c++17", b"-default-device"]
CHIPS = ["sm_87", "sm_89", "sm_90", "sm_120"]
# Kernels that must have no f64 instruction: the loops over cells and over the bank's rows, and holographic
# memory. The bank's query vector is computed by the kernel `features`, whose f64 instructions are limited in
# budget.txt.
WITHOUT_F64 = ("evolve_", "bank_scan", "convolve_", "superpose_", "nearest_", "enter_half", "leave_half")
# Machine instructions that use an f64 unit: arithmetic, comparisons, conversions, and the
# first step of a division or square root.
F64 = re.compile(r"(D(ADD|MUL|FMA|SETP|MNMX|MMA)\b|MUFU\.\w*64H|(F2F|F2I|I2F|FRND)\S*F64)")
# A line of a listing: the label of a section, or an address and an instruction, which may have a predicate.
LISTED = re.compile(r"^\.text\.(\w+):|^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.M)
BUDGET = KERNELS / "budget.txt"


def tools(packages=PACKAGES, folder=TOOLS):
    """Installs the packages if they are missing; returns their folder."""
    python = folder / "bin" / "python3"
    done = folder / "packages.txt"
    if not done.exists() or done.read_text() != packages:
        venv.create(folder, with_pip=True)
        wanted = folder / "wanted.txt"
        wanted.write_text(packages)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "--require-hashes", "-r", wanted], check=True)
        done.write_text(packages)
    return next((folder / "lib").glob("python3*/site-packages")) / "nvidia"


def sources():
    return sorted(path for path in KERNELS.iterdir() if path.suffix in (".cu", ".cuh"))


def blake3(data):
    """BLAKE3 of some bytes, implemented from its paper: the sources are short, and a package would be large."""
    words_of = lambda data: [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    start, parent, root = 1, 4, 8
    start_of = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
    order = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
    lines = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    lines += [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]

    def turn(word, bits):
        return (word >> bits | word << (32 - bits)) & 0xFFFFFFFF

    def compress(value, block, counter, length, flags):
        state = value + start_of[:4] + [counter & 0xFFFFFFFF, counter >> 32, length, flags]
        for _ in range(7):
            for at, (a, b, c, d) in enumerate(lines):
                for word, (first, second) in zip(block[2 * at : 2 * at + 2], ((16, 12), (8, 7))):
                    state[a] = (state[a] + state[b] + word) & 0xFFFFFFFF
                    state[d] = turn(state[d] ^ state[a], first)
                    state[c] = (state[c] + state[d]) & 0xFFFFFFFF
                    state[b] = turn(state[b] ^ state[c], second)
            block = [block[i] for i in order]
        return [state[i] ^ state[i + 8] for i in range(8)]

    def tree(data, counter, flags):
        if len(data) <= 1024:  # a chunk
            value, blocks = start_of, [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
            for i, block in enumerate(blocks):
                last = i + 1 == len(blocks)
                marks = (start if i == 0 else 0) | ((2 | flags) if last else 0)
                value = compress(value, words_of(block.ljust(64, b"\0")), counter, len(block), marks)
            return value
        left = 1024
        while 2 * left < len(data):
            left *= 2
        halves = tree(data[:left], counter, 0) + tree(data[left:], counter + left // 1024, 0)
        return compress(start_of, halves, 0, 64, parent | flags)

    return b"".join(word.to_bytes(4, "little") for word in tree(data, 0, root)).hex()


def digest():
    """The digest of all sources in the order of their names: name, zero byte, text, zero byte."""
    return blake3(b"".join(path.name.encode() + b"\0" + path.read_bytes() + b"\0" for path in sources()))


def compile_ptx(nvidia):
    """The PTX of ganglion.cu; ends the program with the compiler's messages if there are any, even warnings."""
    folder = nvidia / "cuda_nvrtc" / "lib"
    ctypes.CDLL(str(folder / "libnvrtc-builtins.so.12.6"), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(folder / "libnvrtc.so.12"))
    headers = [path for path in sources() if path.name != "ganglion.cu"]
    strings = lambda list: (ctypes.c_char_p * len(list))(*list)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program),
        (KERNELS / "ganglion.cu").read_bytes(),
        b"ganglion.cu",
        len(headers),
        strings([path.read_bytes() for path in headers]),
        strings([path.name.encode() for path in headers]),
    )
    if created != 0:
        sys.exit(f"nvrtcCreateProgram: {created}")
    refused = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), strings(OPTIONS))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if refused or log.value.strip():
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    # NVRTC counts the zero byte at the end; the file must not contain it.
    ptx = text.raw[: size.value].rstrip(b"\0")
    if ptx.count(WRITTEN) != 1:
        sys.exit(f"NVRTC no longer writes {WRITTEN.decode().strip()}")
    return f"// sources BLAKE3 {digest()}\n".encode() + ptx.replace(WRITTEN, OLDEST)


class Assembled:
    """Machine code for every chip, and the assembler's figures for each kernel."""

    def __init__(self):
        self.cubins = {}
        """Bytes, by chip."""
        self.kernels = {}
        """By name, then chip: registers per thread, bytes spilled, shared bytes per block."""
        self.f64 = {}
        """By name, then chip: f64 instructions."""

    def table(self):
        """As a Markdown table, and a line about spills."""
        lines = ["| kernel | " + " | ".join(CHIPS) + " | shared memory, bytes | f64 instructions |"]
        lines += ["|---" * (len(CHIPS) + 3) + "|"]
        for name, chips in sorted(self.kernels.items()):
            cells = [str(chips[chip][0]) for chip in CHIPS]
            f64 = "/".join(str(self.f64[name][chip]) for chip in CHIPS) if any(self.f64[name].values()) else "0"
            lines += [f"| {name} | " + " | ".join(cells) + f" | {max(shared for _, _, shared in chips.values())} | {f64} |"]
        wrong = {"spills or stack": self.spilled(), "forbidden f64 instructions": self.f64_where_none_may_be()}
        return "\n".join([*lines, *(f"{what}: {', '.join(where) or 'none'}" for what, where in wrong.items())])

    def f64_where_none_may_be(self):
        """Kernels with f64 instructions that would slow down chips with few f64 units."""
        every = ((name, chip, count) for name, chips in sorted(self.f64.items()) for chip, count in chips.items())
        return [f"{name} on {chip} ({count})" for name, chip, count in every if count and name.startswith(WITHOUT_F64)]

    def bad(self):
        """Whether a kernel spills, or has f64 instructions where none may be."""
        return bool(self.spilled() or self.f64_where_none_may_be())

    def spilled(self):
        """Kernels that do not fit into the registers of a chip."""
        every = ((name, chip, facts) for name, chips in sorted(self.kernels.items()) for chip, facts in chips.items())
        return [f"{name} on {chip} ({spill} bytes)" for name, chip, (_, spill, _) in every if spill]


def prove_oldest(nvidia):
    """Checks that a driver of CUDA 12.0 accepts the PTX, and that the lower version does not change the code; ends the
    program if not.

    The assembler of CUDA 12.0 must accept the PTX for every chip in `OLDEST_CHIPS`. The newer assembler must produce
    the same bytes from it as from the same text with the version that NVRTC wrote. The header of CUDA 12.0's driver
    must have every function that src/system/gpu/driver.rs calls, by its versioned name.
    """
    oldest = tools(OLDEST_PACKAGES, TOOLS / "oldest")
    newer = TOOLS / "newer.ptx"
    newer.write_bytes(PTX.read_bytes().replace(OLDEST, WRITTEN))

    def cubin(package, chip, ptx):
        ptxas, made = package / "cuda_nvcc" / "bin" / "ptxas", TOOLS / "proof.cubin"
        ptxas.chmod(0o755)
        subprocess.run([ptxas, f"-arch={chip}", ptx, "-o", made], check=True)
        return made.read_bytes()

    for chip in OLDEST_CHIPS:
        cubin(oldest, chip, PTX)
    for chip in CHIPS:
        if cubin(nvidia, chip, PTX) != cubin(nvidia, chip, newer):
            sys.exit(f"with the oldest PTX version, the kernels compile to different code for {chip}")
    header = (oldest / "cuda_runtime" / "include" / "cuda.h").read_text()
    called = re.findall(r'"(cu[A-Z]\w+)"', (ROOT / "src" / "system" / "gpu" / "driver.rs").read_text())
    known = set(re.findall(r"\b(cu[A-Z]\w+)\b", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
    absent = [name for name in called if name not in known]
    if absent or len(called) < 20:
        sys.exit(f"the driver of CUDA 12.0 lacks {', '.join(absent) or 'nothing, but driver.rs has too few'}")
    version = OLDEST.decode().strip().removeprefix(".version ")
    print(f"PTX {version}: assembled by CUDA 12.0 for {', '.join(OLDEST_CHIPS)}; the same bytes as PTX 8.5 on all chips")
    print(f"the driver of CUDA 12.0 has all {len(called)} functions that are called")


def f64_instructions(nvidia, cubin):
    """Number of f64 instructions in each kernel of a machine-code file, from its listing."""
    nvdisasm = nvidia / "cu13" / "bin" / "nvdisasm"
    nvdisasm.chmod(0o755)
    listing = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    found, every, kernel = {}, 0, None
    for section, instruction in LISTED.findall(listing):
        if section:
            kernel = section
            found[kernel] = 0
        else:
            every += 1
            found[kernel] += bool(F64.match(instruction))
    if every < 100 * len(found) or not any(found.values()):
        sys.exit(f"this script cannot read the listing of {cubin.name}: it found {every} instructions")
    return found


def counted(ptx):
    """For each kernel in a PTX text: all instructions, and those in f64; tests/cuda/budget.rs counts the same way."""
    found, kernel = {}, None
    for line in ptx.splitlines():
        words = line.split()
        if line.startswith(".visible .entry "):
            kernel = words[2].split("(")[0]
            found[kernel] = [0, 0]
        elif line == "}":
            kernel = None
        elif kernel and line.endswith(";"):
            word = words[1] if words[0].startswith("@") else words[0]
            if word[0].islower():
                moves = word.startswith(("ld.", "st.", "mov.", "selp."))  # these move 64 bits of any type
                found[kernel][0] += 1
                found[kernel][1] += ".f64" in word and not moves
    return found


def write_budget():
    """The table of the kernels' budgets, from the image."""
    lines = ["# Instructions of each kernel in ganglion.ptx, and those of them that compute in f64: scripts/build-ptx --budget"]
    lines += ["# wrote it. tests/cuda/budget.rs fails where a kernel has a twentieth more, or one f64 instruction more."]
    lines += [f"{name} {every} {f64}" for name, (every, f64) in sorted(counted(PTX.read_text()).items())]
    BUDGET.write_text("\n".join(lines) + "\n")


def assemble(nvidia, ptx):
    """Machine code for every chip, from a PTX file."""
    ptxas = nvidia / "cuda_nvcc" / "bin" / "ptxas"
    ptxas.chmod(0o755)
    made = Assembled()
    for chip in CHIPS:
        cubin = TOOLS / f"{chip}.cubin"
        order = [ptxas, "-v", f"-arch={chip}", ptx, "-o", cubin]
        said = subprocess.run(order, check=True, capture_output=True, text=True).stderr
        made.cubins[chip] = cubin.read_bytes()
        for name, count in f64_instructions(nvidia, cubin).items():
            made.f64.setdefault(name, {})[chip] = count
        for part in said.split("Compiling entry function '")[1:]:
            number = lambda pattern: int((re.search(pattern, part) or [0, "0"])[1])
            spill = max(number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes spill stores"))
            facts = (number(r"Used (\d+) registers"), spill, number(r"(\d+) bytes smem"))
            made.kernels.setdefault(part.split("'")[0], {})[chip] = facts
    return made
