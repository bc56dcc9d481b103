"""The cycle in NumPy: whole-array operations, those on the field into preallocated buffers. The two
stencils are implemented twice: with slices and a matrix product, and in `ScipyCycle` with scipy.ndimage.
"""

import numpy as np
from scipy import ndimage

import problem as p
from problem import F32, F64, Problem


class NumpyCycle:
    """One field with everything that it has learned. `step` is one cycle."""

    def __init__(self, given: Problem, diffusion: float = p.LAMBDA) -> None:
        n = given.grid
        self.given = given
        self.diffusion = diffusion
        self.along_x = self._kernel_along_x()
        self.field = np.broadcast_to(given.rest[:, None, None, None], (p.CHANNELS, n, n, n)).copy()
        self.next = np.empty_like(self.field)
        self.scratch = np.empty_like(self.field)
        self.pattern = np.empty_like(self.field[p.CONTENT : p.FAST])
        self.rest_groups = given.rest_groups
        self.predicted = np.zeros(p.SENSORS, np.float32)
        self.last = np.zeros(p.SENSORS, np.float32)
        self.regressors = np.zeros(p.REGRESSORS)
        self.covariance = np.eye(p.REGRESSORS)
        self.learned = np.zeros((p.SENSORS, p.REGRESSORS))
        self.change = np.zeros(p.SENSORS)
        self.trust = np.zeros((2, p.SENSORS))
        self.cycle = 0
        self.matches = np.zeros(p.BLEND_TOP, np.int64)
        self.shares = np.zeros(p.BLEND_TOP, np.float32)
        self.features = np.zeros(p.FEATURES, np.float32)
        self.best = np.zeros(p.BANK_TOP, np.float32)

    def step(self, sensors: F32) -> F32:
        """Sensors [16] to motors [5]."""
        self._learn(sensors)
        self._evolve(sensors)
        self._features()
        self._match()
        self._predict(sensors)
        given = self.given
        return np.tanh(given.readout[:, :-1] @ self.features + given.readout[:, -1])

    def _learn(self, sensors: F32) -> None:
        """One step of recursive least squares on the error of the last cycle's forecast, and of the trust in it."""
        change = (sensors - self.last).astype(np.float64)
        share = max(1.0 / max(self.cycle, 1), p.TRUST_WEIGHT)
        self.trust += share * (np.stack([change * self.change, self.change**2]) - self.trust)
        self._observe(change)
        self.cycle += 1

    def _observe(self, change: F64) -> None:
        x, covariance, learned = self.regressors, self.covariance, self.learned
        covariance /= p.FORGET
        reach = covariance @ x
        gain = reach / (1.0 + x @ reach)
        learned += np.outer(change - learned @ x, gain)
        covariance -= np.outer(gain, reach)
        j = self.cycle % p.REGRESSORS
        reach = covariance[:, j].copy()
        gain = reach / (1.0 / p.RIDGE_STEP + reach[j])
        learned -= np.outer(learned[:, j].copy(), gain)
        covariance -= np.outer(gain, reach)

    def _kernel_along_x(self) -> F32:
        """gamma times the kernel's part along x, including the share that a cell keeps, as an [n, n] matrix."""
        n = self.given.grid
        near = np.eye(n, k=1) + np.eye(n, k=-1)
        near[0, 0] = near[-1, -1] = 1.0  # zero flux
        kept = 1.0 - 6.0 * self.diffusion
        return (p.GAMMA * (kept * np.eye(n) + self.diffusion * near)).astype(np.float32)

    def _spread(self) -> None:
        """gamma times the field after the lateral kernel, into `next`."""
        u, v, part, n = self.field, self.next, self.scratch, self.given.grid
        np.matmul(u.reshape(-1, n), self.along_x, out=v.reshape(-1, n))
        np.multiply(u, np.float32(p.GAMMA * self.diffusion), out=part)
        for axis in (1, 2):
            low, high = _ends(axis)
            v[high] += part[low]
            v[low] += part[high]
            for edge in (_at(axis, 0), _at(axis, -1)):
                v[edge] += part[edge]

    def _evolve(self, sensors: F32) -> None:
        given, u, v, scratch = self.given, self.field, self.next, self.scratch
        self._spread()
        felt = sensors + np.float32(p.ETA) * (sensors - self.predicted)
        weight = np.float32(p.GAIN) * np.hstack([given.weight * felt, given.bias[:, None]])
        drive = scratch.reshape(p.CHANNELS, -1)
        np.matmul(weight, given.bumps, out=drive)
        v += scratch
        np.tanh(v, out=v)
        v[: p.CONTENT] *= np.float32(1 - p.BETA)
        pattern, slow = v[p.CONTENT : p.FAST], v[p.FAST :]
        pattern *= np.float32((1 - p.BETA) * (1 - p.PATTERN_SHARE))
        for match, share in zip(self.matches, self.shares):
            np.multiply(given.volumes[match], np.float32(p.PATTERN_SHARE * share), out=self.pattern)
            pattern += self.pattern
        slow *= np.float32(p.SLOW_STEP * (1 - p.BETA))
        np.multiply(u[p.FAST :], np.float32(1 - p.SLOW_STEP), out=scratch[p.FAST :])
        slow += scratch[p.FAST :]
        self.field, self.next = v, u

    def _features(self) -> None:
        n, u, features = self.given.grid, self.field, self.features
        blocks = _block_means(u)
        blocks.mean(1, out=features[: p.CHANNELS])
        descriptor = blocks.reshape(-1, p.GROUP, p.BLOCK_COUNT).mean(1)
        features[p.CHANNELS : p.CHANNELS + p.DESCRIPTOR] = descriptor.ravel()
        groups = u[: p.CONTENT].reshape(-1, p.GROUP, n, n, n).mean(1)
        slopes = self._slopes(groups) / np.float32(32)
        both = np.stack([slopes, np.abs(slopes)], 2)
        features[p.CHANNELS + p.DESCRIPTOR :] = _block_means(both.reshape(-1, n, n, n)).ravel()

    def _slopes(self, groups: F32) -> F32:
        """[k, n, n, n] to [k, 3, n, n, n]: 32 times the Sobel derivatives along x, y, z."""
        wide = np.pad(groups, ((0, 0), (1, 1), (1, 1), (1, 1)), mode="edge")
        smooth_z, slope_z = _smooth(wide, 1), _slope(wide, 1)
        x = _slope(_smooth(smooth_z, 2), 3)
        y = _smooth(_slope(smooth_z, 2), 3)
        z = _smooth(_smooth(slope_z, 2), 3)
        return np.stack([x, y, z], 1)

    def _match(self) -> None:
        given = self.given
        context = self.features[: p.CHANNELS] - given.rest
        cosines = given.contexts @ (context / max(np.linalg.norm(context), p.NORM_FLOOR))
        self.matches = np.argsort(-cosines, kind="stable")[: p.BLEND_TOP]
        weights = np.exp((cosines[self.matches] - cosines[self.matches[0]]) / p.TEMPERATURE)
        self.shares = weights / weights.sum()
        found = self.features[p.CHANNELS : p.CHANNELS + p.DESCRIPTOR] - self.rest_groups
        cosines = given.bank @ (found / max(np.linalg.norm(found), p.NORM_FLOOR))
        rows = np.argpartition(cosines, -p.BANK_TOP)[-p.BANK_TOP :]
        self.best = np.sort(cosines[rows])[::-1]

    def _predict(self, sensors: F32) -> None:
        context = self.features[: p.CHANNELS] - self.given.rest
        moved = p.CHANGE_SCALE * (sensors - self.last)
        parts = [p.CONTEXT_SCALE * context, sensors, moved, [1.0]]
        self.regressors = np.concatenate(parts).astype(np.float64)
        self.change = self.learned @ self.regressors
        trust = np.clip(self.trust[0] / (self.trust[1] + p.TRUST_FLOOR), 0.0, 1.0)
        self.predicted = np.clip(sensors + trust * self.change, -1.0, 1.0).astype(np.float32)
        self.last = sensors


class ScipyCycle(NumpyCycle):
    """The same with scipy.ndimage for both stencils."""

    def _spread(self) -> None:
        for channel, laplacian in zip(self.field, self.scratch):
            ndimage.laplace(channel, laplacian, mode="nearest")
        self.scratch *= np.float32(p.GAMMA * self.diffusion)
        np.multiply(self.field, np.float32(p.GAMMA), out=self.next)
        self.next += self.scratch

    def _slopes(self, groups: F32) -> F32:
        slopes = np.empty((len(groups), 3, *groups.shape[1:]), np.float32)
        for group, into in zip(groups, slopes):
            for axis in range(3):  # x is the last
                ndimage.sobel(group, 2 - axis, into[axis], mode="nearest")
        return slopes


def _ends(axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """All but the last cell of an axis, all but the first."""
    before = (slice(None),) * axis
    return (*before, slice(None, -1)), (*before, slice(1, None))


def _at(axis: int, cell: int) -> tuple[slice | int, ...]:
    return (*(slice(None),) * axis, cell)


def _smooth(wide: F32, axis: int) -> F32:
    before = (slice(None),) * axis
    outside = wide[(*before, slice(None, -2))] + wide[(*before, slice(2, None))]
    return outside + 2 * wide[(*before, slice(1, -1))]


def _slope(wide: F32, axis: int) -> F32:
    before = (slice(None),) * axis
    return wide[(*before, slice(2, None))] - wide[(*before, slice(None, -2))]


def _block_means(volumes: F32) -> F32:
    """[k, n, n, n] to [k, 64]. The rows of an axis are added before the next axis is begun."""
    count, n = volumes.shape[:2]
    side = n // p.BLOCKS
    planes = volumes.reshape(count, p.BLOCKS, side, n, n).sum(2)
    rows = planes.reshape(count, p.BLOCKS, p.BLOCKS, side, n).sum(3)
    sums = rows.reshape(count, p.BLOCK_COUNT, side).sum(2)
    return sums * np.float32(1.0 / side**3)
