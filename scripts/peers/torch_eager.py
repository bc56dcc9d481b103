"""The cycle in eager PyTorch. The field, which is most of the work, is evolved from one of two
buffers into the other by in-place operations; tanh z is computed as 2 sigmoid(2 z) - 1, which is
faster here and as accurate.
"""

import torch
from torch import Tensor

import problem as p
import torch_cycle as t
from problem import Problem


class Eager:
    """One field with everything that it has learned. `step` is one cycle."""

    def __init__(self, given: Problem) -> None:
        n = given.grid
        self.known = t.Known.of(given)
        self.state = t.Learned.nothing()
        self.field = self.known.rest[:, None, None, None].expand(-1, n, n, n).contiguous()
        self.next = torch.empty_like(self.field)
        self.matches = torch.zeros(p.BLEND_TOP, dtype=torch.int64)
        self.shares = torch.zeros(p.BLEND_TOP)
        self.features = torch.zeros(p.FEATURES)
        self.best = torch.zeros(p.BANK_TOP)
        self.double_bias = 2.0 * self.known.bias[p.CONTENT : p.FAST, :, None, None]
        self.constants = [torch.tensor(-share) for share in (_CONTENT, _PATTERN, _SLOW)]

    @torch.inference_mode()
    def step(self, sensors: Tensor) -> Tensor:
        """Sensors [16] to motors [5]."""
        known, learned = self.known, t.learn(self.state, sensors)
        self._evolve(t.felt(known, learned, sensors))
        found = self.features = t.features([self.field])
        self.matches, self.shares = t.match_library(known, found[: p.CHANNELS])
        self.best = t.match_bank(known, found[p.CHANNELS : p.CHANNELS + p.DESCRIPTOR])
        self.state = t.predict(known, learned, found, sensors)
        return t.motors(known, found)

    def _evolve(self, weights: Tensor) -> None:
        u, v, n = self.field, self.next, self.field.shape[1]
        spread = 2.0 * p.GAMMA * p.LAMBDA
        torch.mul(u, 2.0 * p.GAMMA * (1.0 - 6.0 * p.LAMBDA), out=v)
        for axis in (1, 2, 3):
            v.narrow(axis, 1, n - 1).add_(u.narrow(axis, 0, n - 1), alpha=spread)
            v.narrow(axis, 0, n - 1).add_(u.narrow(axis, 1, n - 1), alpha=spread)
            for edge in (0, n - 1):
                v.select(axis, edge).add_(u.select(axis, edge), alpha=spread)
        content, pattern, slow = v[: p.CONTENT], v[p.CONTENT : p.FAST], v[p.FAST :]
        content.view(p.CONTENT, -1).addmm_(weights[: p.CONTENT], self.known.bumps, alpha=2.0)
        slow.view(p.SLOW, -1).addmm_(weights[p.FAST :], self.known.bumps, alpha=2.0)
        pattern.add_(self.double_bias)  # no sensor drives the pattern channels
        v.sigmoid_()
        for part, share, less in zip((content, pattern, slow), (_CONTENT, _PATTERN, _SLOW), self.constants):
            torch.add(less, part, alpha=2.0 * share, out=part)
        for match, share in zip(self.matches.tolist(), self.shares.tolist()):
            pattern.add_(self.known.volumes[match], alpha=p.PATTERN_SHARE * share)
        slow.add_(u[p.FAST :], alpha=1.0 - p.SLOW_STEP)
        self.field, self.next = v, u


# Factor of the tanh in a cell's new value, per group of channels.
_CONTENT = 1.0 - p.BETA
_PATTERN = (1.0 - p.BETA) * (1.0 - p.PATTERN_SHARE)
_SLOW = (1.0 - p.BETA) * p.SLOW_STEP
