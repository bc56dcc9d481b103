"""The problem that every peer solves: sizes, constants and one artificial state of a full system.

Sizes and constants are those of docs/field.md. The random numbers differ from ganglion's, but there are
as many, of the same kinds (the cost of a cycle does not depend on which channels a sensor drives).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

CHANNELS, CONTENT, PATTERN, SLOW = 64, 32, 16, 16
FAST = CONTENT + PATTERN
GROUP = 8
BLOCKS = 4
BLOCK_COUNT = BLOCKS**3
DESCRIPTOR = CHANNELS // GROUP * BLOCK_COUNT
FEATURES = 2112
SENSORS, MOTORS, PATTERNS, BANK = 16, 5, 100, 10_000
FAN_OUT = 8
REGRESSORS = CHANNELS + 2 * SENSORS + 1

DT = 0.05
LAMBDA, GAMMA, BETA = 0.1, 0.9, 0.05
GAIN, ETA = 4.0, 0.5
PATTERN_SHARE = 0.1
SLOW_STEP = DT / 1.0  # k of the slow channels; the other channels have T = dt, so their k is 1
TEMPERATURE = 0.1
BLEND_TOP, BANK_TOP = 3, 5
NORM_FLOOR = 1e-3
CONTEXT_SCALE, CHANGE_SCALE = 16.0, 8.0
FORGET = 0.99**DT
RIDGE_STEP = 1.0 * REGRESSORS * (1.0 - FORGET)  # rho^2
TRUST_FLOOR = 1e-9
TRUST_WEIGHT = DT / 10.0

STIMULI = 1000


@dataclass(frozen=True)
class Problem:
    """A field of 64 x grid^3 with a full library and a full bank."""

    grid: int
    bumps: F32  # [17, grid^3]: the sensors' bumps, and a row of ones for the bias
    weight: F32  # [64, 16]: B
    bias: F32  # [64]: h
    rest: F32  # [64]: value of each channel at rest
    contexts: F32  # [100, 64]: relative to rest, unit length
    volumes: NDArray[np.float16]  # [100, 16, grid, grid, grid]
    bank: F32  # [10000, 512]: unit length
    readout: F32  # [5, 2113]
    stimuli: F32  # [STIMULI, 16]: sensors, cycle by cycle

    @property
    def rest_groups(self) -> F32:
        """Descriptor of the field at rest."""
        return np.repeat(self.rest.reshape(-1, GROUP).mean(1), BLOCK_COUNT).astype(np.float32)


def problem(grid: int, seed: int = 1) -> Problem:
    """The same problem for the same grid, in every process."""
    random = np.random.default_rng(seed)
    bias = random.standard_normal(CHANNELS)
    cells = grid**3
    return Problem(
        grid=grid,
        bumps=np.vstack([_bumps(grid), np.ones((1, cells))]).astype(np.float32),
        weight=_weights(random),
        bias=bias.astype(np.float32),
        rest=_rest(bias),
        contexts=_unit(random.standard_normal((PATTERNS, CHANNELS))),
        volumes=_volumes(random, grid),
        bank=_unit(random.standard_normal((BANK, DESCRIPTOR), dtype=np.float32)),
        readout=(random.standard_normal((MOTORS, FEATURES + 1)) * 0.02).astype(np.float32),
        stimuli=_stimuli(random),
    )


def _bumps(grid: int) -> F64:
    """Products of three Gaussians of width grid / 8, [16, grid^3], x fastest."""
    root = 1.2207440846057596  # the positive root of x^4 = x + 1
    centres = grid * ((0.5 + np.outer(np.arange(1, SENSORS + 1), root ** -np.arange(1.0, 4.0))) % 1.0)
    cells = np.arange(grid) + 0.5
    x, y, z = np.exp(-0.5 * ((cells - centres.T[:, :, None]) / (grid / 8)) ** 2)
    return np.einsum("iz,iy,ix->izyx", z, y, x).reshape(SENSORS, -1)


def _weights(random: np.random.Generator) -> F32:
    """Per sensor, eight content channels with Gaussian weights, and one slow channel with weight 1."""
    weight = np.zeros((CHANNELS, SENSORS), np.float32)
    for sensor in range(SENSORS):
        weight[random.permutation(CONTENT)[:FAN_OUT], sensor] = random.standard_normal(FAN_OUT)
        weight[FAST + sensor % SLOW, sensor] = 1.0
    return weight


def _rest(bias: F64) -> F32:
    share = np.full(CHANNELS, 1.0 - BETA)
    share[CONTENT:FAST] *= 1.0 - PATTERN_SHARE
    rest = np.zeros(CHANNELS)
    for _ in range(500):
        rest = share * np.tanh(GAMMA * rest + GAIN * bias)
    return rest.astype(np.float32)


def _volumes(random: np.random.Generator, grid: int) -> NDArray[np.float16]:
    volumes = np.empty((PATTERNS, PATTERN, grid, grid, grid), np.float16)
    for volume in volumes:
        volume[:] = random.uniform(-0.95, 0.95, volume.shape)
    return volumes


def _unit(rows: NDArray) -> F32:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _stimuli(random: np.random.Generator) -> F32:
    """Sines of 0.1 to 1 Hz."""
    hertz, phase = random.uniform(0.1, 1.0, SENSORS), random.uniform(0.0, 6.28, SENSORS)
    seconds = np.arange(STIMULI)[:, None] * DT
    return (0.8 * np.sin(2 * np.pi * hertz * seconds + phase)).astype(np.float32)
