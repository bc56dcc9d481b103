"""One step of a decision field (docs/goals.md, "Decision fields") in NumPy and SciPy, with the sizes, the
preset and the input of `ganglion bench field`. Arrays have the first axis last, which varies fastest.

    u += (-u + h + s + w * f(u) + g sum f(u)) / tau,   f(u) = 1 / (1 + exp(-beta u))
"""

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
C64 = NDArray[np.complex64]

# Of all presets.
RESTING, TIME_CONSTANT, STEEPNESS = -5.0, 20.0, 4.0
# A Gaussian is truncated at this many standard deviations.
CUTOFF = 5.0
# Places of the two inputs as a share of each axis, and their heights.
INPUTS = ((0.25, 6.0), (0.75, 6.2))


@dataclass(frozen=True)
class Shape:
    """A field with the preset `selection`: a circular or bounded axis of `sites`, `axes` times."""

    sites: int
    axes: int
    circular: bool
    excitation: float
    width: float
    everywhere: float  # g

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.sites,) * self.axes

    def weights(self) -> F64:
        """One half of the Gaussian along an axis, its middle first; the whole has the sum 1."""
        farthest = (self.sites - 1) // 2 if self.circular else self.sites - 1
        distance = np.arange(min(int(np.ceil(CUTOFF * self.width)), farthest) + 1)
        half = np.exp(-0.5 * (distance / self.width) ** 2)
        return half / (half[0] + 2.0 * half[1:].sum())

    def input(self) -> F32:
        """The sum of the two inputs."""
        total = np.zeros(self.shape)
        for share, height in INPUTS:
            away = np.abs(np.arange(self.sites) - share * self.sites)
            away = np.minimum(away, self.sites - away) if self.circular else away
            total += height * _product(np.exp(-0.5 * (away / self.width) ** 2), self.axes)
        return total.astype(np.float32)


# By the names that `ganglion bench field` gives them.
SHAPES = {
    "100 sites": Shape(100, 1, True, 17.5, 5.0, -0.9),
    "64^2 sites": Shape(64, 2, True, 24.0, 2.5, -0.2),
    "32^3 sites": Shape(32, 3, False, 30.0, 2.5, -0.05),
}


class Direct:
    """The definition in f64: along each axis, a sum over distances. Slow; the others are compared with it."""

    def __init__(self, shape: Shape, strength: float = 1.0) -> None:
        self.shape, self.strength = shape, strength
        self.weights = shape.weights()
        self.u = np.full(shape.shape, RESTING)

    def step(self, given: F32) -> None:
        output = 1.0 / (1.0 + np.exp(-STEEPNESS * self.u))
        lateral = output
        for axis in range(self.shape.axes):
            lateral = self._along(lateral, axis)
        lateral = self.strength * self.shape.excitation * lateral + self.shape.everywhere * output.sum()
        self.u += (-self.u + RESTING + given + lateral) / TIME_CONSTANT

    def _along(self, output: F64, axis: int) -> F64:
        total = self.weights[0] * output
        for distance, weight in enumerate(self.weights[1:], 1):
            for shift in (distance, -distance):
                moved = np.roll(output, shift, axis)
                if not self.shape.circular:
                    beyond = slice(None, shift) if shift > 0 else slice(shift, None)
                    moved[(slice(None),) * axis + (beyond,)] = 0.0
                total = total + weight * moved
        return total


class Peer:
    """The step in f32, in place, with as few passes over the field as possible. What is kept is v = tau u, so
    that the input needs no factor; f(u) = (1 + tanh(beta u / 2)) / 2, and what does not change from step to
    step is computed once. Subclasses compute what the sites do to each other, and add `constant`."""

    def __init__(self, shape: Shape, strength: float = 1.0) -> None:
        self.shape = shape
        self.excitation = strength * shape.excitation / 2.0
        self.everywhere = shape.everywhere / 2.0
        self.v = np.full(shape.shape, RESTING * TIME_CONSTANT, np.float32)
        self.output, self.other, self.third = (np.empty(shape.shape, np.float32) for _ in range(3))
        self.slope = np.float32(STEEPNESS / 2.0 / TIME_CONSTANT)
        self.kept = np.float32(1.0 - 1.0 / TIME_CONSTANT)
        # The part of the 1 in f. Near the ends of a bounded axis the kernel's sum is smaller.
        self.constant = RESTING + self.everywhere * self.v.size
        self.uneven: F32 | None = None
        if shape.circular:
            self.constant += self.excitation
        else:
            one = np.convolve(np.ones(shape.sites), self._line(), "same")
            self.uneven = (self.excitation * _product(one, shape.axes)).astype(np.float32)

    @property
    def u(self) -> F32:
        return self.v / np.float32(TIME_CONSTANT)

    def step(self, given: F32) -> None:
        v, output = self.v, self.output
        np.multiply(v, self.slope, output)
        np.tanh(output, output)
        lateral = self._lateral(output)
        np.multiply(v, self.kept, v)
        np.add(v, given, v)
        np.add(v, lateral, v)
        if self.uneven is not None:
            np.add(v, self.uneven, v)

    def _lateral(self, output: F32) -> F32:
        raise NotImplementedError

    def _line(self) -> F64:
        """The whole Gaussian along an axis."""
        half = self.shape.weights()
        return np.concatenate([half[:0:-1], half])


class SciPyFft(Peer):
    """By scipy.fft. A bounded axis is padded with zeros, as many as the kernel reaches to one side or a few
    more, so that the length is a fast one."""

    def __init__(self, shape: Shape, strength: float = 1.0) -> None:
        super().__init__(shape, strength)
        half, length = shape.weights(), shape.sites
        if not shape.circular:
            length = fft.next_fast_len(shape.sites + len(half) - 1, real=True)
        self.padded = (length,) * shape.axes
        line = np.zeros(length)
        line[: len(half)] = half
        line[: -len(half) : -1] = half[1:]
        kernel = self.excitation * fft.rfftn(_product(line, shape.axes)).real  # of an even kernel
        self.first = (0,) * shape.axes
        kernel[self.first] += self.everywhere * length**shape.axes
        self.kernel = kernel.astype(np.float32)
        self.added = np.complex64(self.constant * length**shape.axes)
        self.inside = (slice(shape.sites),) * shape.axes

    def _lateral(self, output: F32) -> F32:
        spectrum = self._forward(output)
        np.multiply(spectrum, self.kernel, spectrum)
        spectrum[self.first] += self.added
        return self._back(spectrum)[self.inside]

    def _forward(self, output: F32) -> C64:
        if self.shape.axes == 1:
            return fft.rfft(output, self.padded[0], workers=1)
        return fft.rfftn(output, self.padded, workers=1)

    def _back(self, spectrum: C64) -> F32:
        if self.shape.axes == 1:
            return fft.irfft(spectrum, self.padded[0], overwrite_x=True, workers=1)
        return fft.irfftn(spectrum, self.padded, overwrite_x=True, workers=1)


class NumPyFft(SciPyFft):
    """By numpy.fft, whose functions are called faster."""

    def _forward(self, output: F32) -> C64:
        if self.shape.axes == 1:
            return np.fft.rfft(output, self.padded[0])
        return np.fft.rfftn(output, self.padded, tuple(range(self.shape.axes)))

    def _back(self, spectrum: C64) -> F32:
        if self.shape.axes == 1:
            return np.fft.irfft(spectrum, self.padded[0])
        return np.fft.irfftn(spectrum, self.padded, tuple(range(self.shape.axes)))


class Matrices(Peer):
    """By a matrix product along each axis, with BLAS. On a single axis the one product is everything: the
    matrix has the global part too, and a last column for the constant."""

    def __init__(self, shape: Shape, strength: float = 1.0) -> None:
        super().__init__(shape, strength)
        half, n = shape.weights(), shape.sites
        distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        distance = np.minimum(distance, n - distance) if shape.circular else distance
        near = distance < len(half)
        matrix = np.where(near, half[np.where(near, distance, 0)], 0.0)
        self.matrix, self.first = matrix.astype(np.float32), (self.excitation * matrix).astype(np.float32)
        if shape.axes == 1:
            whole = np.column_stack([self.excitation * matrix + self.everywhere, np.full(n, self.constant)])
            self.whole, self.extended = whole.astype(np.float32), np.ones(n + 1, np.float32)
            self.output = self.extended[:n]

    def _lateral(self, output: F32) -> F32:
        n = self.shape.sites
        if self.shape.axes == 1:
            return np.dot(self.whole, self.extended, self.other)
        total = np.float32(self.everywhere * np.add.reduce(output, None) + self.constant)
        np.dot(output.reshape(-1, n), self.first, self.other.reshape(-1, n))
        if self.shape.axes == 2:
            lateral = np.dot(self.matrix, self.other, self.third)
        else:
            np.matmul(self.matrix, self.other, self.third)
            lateral = np.dot(self.matrix, self.third.reshape(n, -1), self.other.reshape(n, -1))
        np.add(lateral, total, lateral)
        return lateral.reshape(self.shape.shape)


class Correlated(Peer):
    """By scipy.ndimage, axis by axis."""

    def __init__(self, shape: Shape, strength: float = 1.0) -> None:
        super().__init__(shape, strength)
        self.lines = [self.excitation * self._line(), *[self._line()] * (shape.axes - 1)]
        self.mode = "wrap" if shape.circular else "constant"

    def _lateral(self, output: F32) -> F32:
        total = np.float32(self.everywhere * np.add.reduce(output, None) + self.constant)
        source, target, spare = output, self.other, self.third
        for axis, line in enumerate(self.lines):
            ndimage.correlate1d(source, line, axis, target, self.mode)
            source, target, spare = target, spare, target
        np.add(source, total, source)
        return source


def _product(line: F64, axes: int) -> F64:
    """The outer product of `axes` times the same line."""
    whole = line
    for _ in range(axes - 1):
        whole = np.multiply.outer(whole, line)
    return whole


WAYS: dict[str, Callable[..., Peer]] = {
    "scipy.fft": SciPyFft,
    "numpy.fft": NumPyFft,
    "matrix products": Matrices,
    "scipy.ndimage": Correlated,
}


def activation(field: Any, given: F32, steps: int) -> NDArray:
    """u after that many steps."""
    for _ in range(steps):
        field.step(given)
    return field.u
