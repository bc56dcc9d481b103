"""The parts of the cycle that eager and compiled PyTorch share: everything except evolving the
field. Functions of tensors without side effects, so that torch.compile can trace them whole.
"""

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

import problem as p
from problem import Problem


@dataclass
class Known:
    """Everything that does not change while the field runs."""

    bumps: Tensor  # [17, cells]
    weight: Tensor  # [64, 16], times the gain
    bias: Tensor  # [64, 1], times the gain
    rest: Tensor  # [64]
    rest_groups: Tensor  # [512]
    contexts: Tensor  # [100, 64]
    volumes: Tensor  # [100, 16, n, n, n], f16
    bank: Tensor  # [10000, 512]
    bank_half: Tensor  # the same in f16, for the scan
    readout: Tensor  # [5, 2112]
    offset: Tensor  # [5]

    @staticmethod
    def of(given: Problem) -> "Known":
        bank = torch.from_numpy(given.bank)
        return Known(
            bumps=torch.from_numpy(given.bumps),
            weight=p.GAIN * torch.from_numpy(given.weight),
            bias=p.GAIN * torch.from_numpy(given.bias)[:, None],
            rest=torch.from_numpy(given.rest),
            rest_groups=torch.from_numpy(given.rest_groups),
            contexts=torch.from_numpy(given.contexts),
            volumes=torch.from_numpy(given.volumes),
            bank=bank,
            bank_half=bank.half(),
            readout=torch.from_numpy(given.readout[:, :-1]).contiguous(),
            offset=torch.from_numpy(given.readout[:, -1]).contiguous(),
        )


@dataclass
class Learned:
    """The prediction's state between cycles; all in f64 except `last`, `predicted` and the count `cycle`."""

    predicted: Tensor  # [16]
    last: Tensor  # [16]: sensors of the last cycle
    regressors: Tensor  # [97]: x of the last cycle
    covariance: Tensor  # [97, 97]
    learned: Tensor  # [16, 97]: W
    change: Tensor  # [16]: l of the last cycle
    trust: Tensor  # [2, 16]
    cycle: Tensor  # []

    @staticmethod
    def nothing() -> "Learned":
        double = torch.float64
        return Learned(
            predicted=torch.zeros(p.SENSORS),
            last=torch.zeros(p.SENSORS),
            regressors=torch.zeros(p.REGRESSORS, dtype=double),
            covariance=torch.eye(p.REGRESSORS, dtype=double),
            learned=torch.zeros(p.SENSORS, p.REGRESSORS, dtype=double),
            change=torch.zeros(p.SENSORS, dtype=double),
            trust=torch.zeros(2, p.SENSORS, dtype=double),
            cycle=torch.zeros((), dtype=torch.int64),
        )

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


def felt(known: Known, learned: Learned, sensors: Tensor) -> Tensor:
    """Weights of the bumps in this cycle, the bias last: [64, 17]."""
    return torch.cat([known.weight * (sensors + p.ETA * (sensors - learned.predicted)), known.bias], 1)


def learn(learned: Learned, sensors: Tensor) -> Learned:
    """Compares the last cycle's forecast with the sensors, and takes one step of recursive least squares."""
    change = (sensors - learned.last).double()
    share = (1.0 / learned.cycle.clamp(min=1)).double().clamp(min=p.TRUST_WEIGHT)
    seen = torch.stack([change * learned.change, learned.change.square()])
    trust = learned.trust + share * (seen - learned.trust)
    x, covariance, weights = learned.regressors, learned.covariance, learned.learned
    covariance = covariance * (1.0 / p.FORGET)
    reach = covariance.mv(x)
    gain = reach / (1.0 + x.dot(reach))
    weights = weights + torch.outer(change - weights.mv(x), gain)
    covariance = covariance - torch.outer(gain, reach)
    j = (learned.cycle % p.REGRESSORS).reshape(1)
    reach = covariance.index_select(1, j)[:, 0]
    gain = reach / (1.0 / p.RIDGE_STEP + reach.index_select(0, j))
    weights = weights - torch.outer(weights.index_select(1, j)[:, 0], gain)
    covariance = covariance - torch.outer(gain, reach)
    return Learned(
        learned.predicted, learned.last, x, covariance, weights, learned.change, trust, learned.cycle + 1
    )


def predict(known: Known, learned: Learned, features: Tensor, sensors: Tensor) -> Learned:
    """Regressors of this cycle, and the forecast for the next."""
    context = features[: p.CHANNELS] - known.rest
    moved = p.CHANGE_SCALE * (sensors - learned.last)
    x = torch.cat([p.CONTEXT_SCALE * context, sensors, moved, sensors.new_ones(1)]).double()
    change = learned.learned.mv(x)
    trust = (learned.trust[0] / (learned.trust[1] + p.TRUST_FLOOR)).clamp(0.0, 1.0)
    predicted = (sensors + trust * change).clamp(-1.0, 1.0).float()
    return Learned(
        predicted, sensors, x, learned.covariance, learned.learned, change, learned.trust, learned.cycle
    )


def block_sums(volumes: Tensor) -> Tensor:
    """[k, n, n, n] to [k, 64]; sums planes first, so that the longest sums read contiguous memory."""
    count, n = volumes.shape[:2]
    side = n // p.BLOCKS
    planes = volumes.reshape(count, p.BLOCKS, side, n * n).sum(2)
    rows = planes.reshape(count, p.BLOCKS, p.BLOCKS, side, n).sum(3)
    return rows.reshape(count, p.BLOCK_COUNT, side).sum(2)


def features(channels: list[Tensor]) -> Tensor:
    """Context, descriptor, gradients of a field that comes in parts, content first: [2112]."""
    n = channels[0].shape[1]
    pool = 1.0 / (n // p.BLOCKS) ** 3
    blocks = torch.cat([block_sums(part) for part in channels]) * pool
    descriptor = blocks.view(-1, p.GROUP, p.BLOCK_COUNT).mean(1)
    groups = channels[0][: p.CONTENT].reshape(-1, p.GROUP, n**3).mean(1).view(1, -1, n, n, n)
    slopes = sobel(groups)
    gradients = block_sums(torch.stack([slopes, slopes.abs()], 2).view(-1, n, n, n)) * (pool / 32.0)
    return torch.cat([blocks.mean(1), descriptor.reshape(-1), gradients.reshape(-1)])


def sobel(groups: Tensor) -> Tensor:
    """[1, k, n, n, n] to [k, 3, n, n, n], 32 times the derivatives along x, y, z."""
    wide = F.pad(groups, (1, 1, 1, 1, 1, 1), mode="replicate")[0]
    smooth_z, slope_z = _smooth(wide, 1), _slope(wide, 1)
    smooth_zy = _smooth(smooth_z, 2)
    x = _slope(smooth_zy, 3)
    y = _smooth(_slope(smooth_z, 2), 3)
    z = _smooth(_smooth(slope_z, 2), 3)
    return torch.stack([x, y, z], 1)


def _smooth(wide: Tensor, axis: int) -> Tensor:
    inner = wide.shape[axis] - 2
    outside = wide.narrow(axis, 0, inner) + wide.narrow(axis, 2, inner)
    return outside + 2.0 * wide.narrow(axis, 1, inner)


def _slope(wide: Tensor, axis: int) -> Tensor:
    inner = wide.shape[axis] - 2
    return wide.narrow(axis, 2, inner) - wide.narrow(axis, 0, inner)


def match_library(known: Known, context: Tensor) -> tuple[Tensor, Tensor]:
    """The three patterns to blend, and their shares."""
    about = context - known.rest
    cosines = known.contexts.mv(about / about.norm().clamp(min=p.NORM_FLOOR))
    top = cosines.topk(p.BLEND_TOP)
    return top.indices, (top.values / p.TEMPERATURE).softmax(0)


def match_bank(known: Known, descriptor: Tensor) -> Tensor:
    """The five best cosines: a scan in f16 for 32 candidates, compared again in f32."""
    about = descriptor - known.rest_groups
    about = about / about.norm().clamp(min=p.NORM_FLOOR)
    rows = known.bank_half.mv(about.half()).topk(32).indices
    return known.bank.index_select(0, rows).mv(about).topk(p.BANK_TOP).values


def motors(known: Known, found: Tensor) -> Tensor:
    return torch.addmv(known.offset, known.readout, found).tanh()
