"""The cycle as one function for torch.compile, without a graph break.

The field is stored in three parts (content, pattern, slow), each a flat array with one padding value at
either end, so that all six neighbours of a row of cells are plain slices or whole rows: gathering them
cell by cell would keep the compiler from vectorising.
"""

from typing import Callable

import torch
from torch import Tensor

import problem as p
import torch_cycle as t
from problem import Problem


class Part:
    """A group of channels, double-buffered: the present values and the next ones."""

    def __init__(self, rest: Tensor, n: int) -> None:
        self.shape = (rest.shape[0], n, n, n)
        self.flats = [torch.zeros(rest.shape[0] * n**3 + 2) for _ in range(2)]
        self.inner(0).copy_(rest[:, None, None, None].expand(self.shape))

    def inner(self, which: int, shift: int = 0) -> Tensor:
        flat = self.flats[which]
        return flat[1 + shift : flat.numel() - 1 + shift].view(self.shape)


class Compiled:
    """One field with everything that it has learned. `step` is one cycle."""

    def __init__(self, given: Problem, mode: str = "default") -> None:
        n = given.grid
        self.known = t.Known.of(given)
        self.state = t.Learned.nothing()
        rest = self.known.rest
        self.parts = [Part(rest[a:b].clone(), n) for a, b in _RANGES]
        # For either buffer as the present one: its left, centre and right views, which are read, and the view
        # of the other buffer, which is written.
        self.views = [
            [
                (part.inner(now, -1), part.inner(now), part.inner(now, 1), part.inner(1 - now))
                for part in self.parts
            ]
            for now in (0, 1)
        ]
        self.now = 0
        self.matches = torch.zeros(p.BLEND_TOP, dtype=torch.int64)
        self.shares = torch.zeros(p.BLEND_TOP)
        self.features = torch.zeros(p.FEATURES)
        self.best = torch.zeros(p.BANK_TOP)
        self.edges = (torch.arange(n) == 0).float(), (torch.arange(n) == n - 1).float()
        self.neighbours = (torch.arange(n) - 1).clamp(min=0), (torch.arange(n) + 1).clamp(max=n - 1)
        self.cycle: Callable = torch.compile(cycle, fullgraph=True, dynamic=False, mode=mode)

    @torch.inference_mode()
    def step(self, sensors: Tensor) -> Tensor:
        """Sensors [16] to motors [5]."""
        result, self.features, self.best, self.matches, self.shares, state = self.cycle(
            self.known,
            self.state,
            self.views[self.now],
            self.edges,
            self.neighbours,
            self.matches,
            self.shares,
            sensors,
        )
        self.state = state
        self.now = 1 - self.now
        return result

    @property
    def field(self) -> Tensor:
        return torch.cat([part.inner(self.now) for part in self.parts])


_RANGES = ((0, p.CONTENT), (p.CONTENT, p.FAST), (p.FAST, p.CHANNELS))


def cycle(known, state, views, edges, neighbours, matches, shares, sensors):  # noqa: ANN001, ANN201
    """Runs a whole cycle; writes the new field into the last view of each part."""
    learned = t.learn(state, sensors)
    weights = t.felt(known, learned, sensors)
    content, pattern, slow = (spread(*view[:3], edges, neighbours) for view in views)
    content = (1.0 - p.BETA) * squash(content, drive(known, weights[: p.CONTENT], content))
    pattern = (1.0 - p.BETA) * squash(pattern, known.bias[p.CONTENT : p.FAST, :, None, None])
    slow = (1.0 - p.BETA) * squash(slow, drive(known, weights[p.FAST :], slow))
    blend = sum(known.volumes[matches[k : k + 1]][0].float() * shares[k] for k in range(p.BLEND_TOP))
    pattern = (1.0 - p.PATTERN_SHARE) * pattern + p.PATTERN_SHARE * blend
    slow = (1.0 - p.SLOW_STEP) * views[2][1] + p.SLOW_STEP * slow
    parts = [content, pattern, slow]
    for view, part in zip(views, parts):
        view[3].copy_(part)
    found = t.features(parts)
    matches, shares = t.match_library(known, found[: p.CHANNELS])
    best = t.match_bank(known, found[p.CHANNELS : p.CHANNELS + p.DESCRIPTOR])
    learned = t.predict(known, learned, found, sensors)
    return t.motors(known, found), found, best, matches, shares, learned


def spread(left: Tensor, here: Tensor, right: Tensor, edges, neighbours) -> Tensor:  # noqa: ANN001
    """The field after the lateral kernel."""
    low, high = neighbours
    left = left + edges[0] * (here - left)
    right = right + edges[1] * (here - right)
    others = here[:, low] + here[:, high] + here[:, :, low] + here[:, :, high] + left + right
    return (1.0 - 6.0 * p.LAMBDA) * here + p.LAMBDA * others


def drive(known: t.Known, weights: Tensor, like: Tensor) -> Tensor:
    return weights.mm(known.bumps).view(like.shape)


def squash(spread_field: Tensor, driven: Tensor) -> Tensor:
    """tanh(gamma v + a), computed from the sigmoid, which the compiler can vectorise."""
    return 2.0 * torch.sigmoid(2.0 * (p.GAMMA * spread_field + driven)) - 1.0
