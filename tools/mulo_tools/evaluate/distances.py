"""Distances of sets of pictures from each other by their features: the maths of FID and KID are torchmetrics'."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance
from torchmetrics.image.kid import KernelInceptionDistance

__all__ = ["frechet_inception_distance", "kernel_inception_distance"]

_SUBSETS = 100
_SUBSET_SIZE = 1000
"""Of KID, as its authors have it (arXiv 1801.01401); of smaller sets one subset is taken, as large as they allow."""

Features = NDArray[np.float32]


def frechet_inception_distance(images: Features, reference: Features) -> float:
    """FID (arXiv 1706.08500) of features [n, F] and [m, F], two or more each."""
    metric = FrechetInceptionDistance(feature=_Given(reference.shape[1]))
    metric.set_dtype(torch.float64)
    metric.update(torch.from_numpy(reference), real=True)
    metric.update(torch.from_numpy(images), real=False)
    return float(metric.compute())


def kernel_inception_distance(images: Features, reference: Features, seed: int = 0) -> tuple[float, float]:
    """KID (arXiv 1801.01401) of features [n, F] and [m, F]: mean and standard deviation over random subsets."""
    smaller = min(len(images), len(reference))
    size, subsets = (_SUBSET_SIZE, _SUBSETS) if smaller > _SUBSET_SIZE else (smaller, 1)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.filterwarnings("ignore", "Metric `Kernel Inception Distance` will save all")
        torch.manual_seed(seed)
        metric = KernelInceptionDistance(_Given(reference.shape[1]), subsets=subsets, subset_size=size)
        metric.update(torch.from_numpy(reference), real=True)
        metric.update(torch.from_numpy(images), real=False)
        mean, deviation = metric.compute()
    return float(mean), float(deviation)


class _Given(nn.Module):
    """Features that are there already, where the metrics expect a network that makes them of pictures."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.num_features = features

    def forward(self, features: Tensor) -> Tensor:
        """Give them back."""
        return features
