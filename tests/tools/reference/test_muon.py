"""Muon orthogonalises momentum."""

import pytest
import torch
from mulo_tools.reference.muon import Muon, orthogonalise, stacked_matrices
from torch import nn


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 16, 40), (2, 40, 16)])
def test_singular_values_move_near_one(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    singular = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
    assert singular.min() > 0.4
    assert singular.max() < 1.3


def test_singular_vectors_stay() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(1, 8, 12)
    u, _, v = torch.linalg.svd(matrix[0], full_matrices=False)
    core = u.T @ orthogonalise(matrix)[0] @ v.T
    assert torch.allclose(core, torch.diag(core.diag()), atol=1e-4)


def test_merged_projections_count_as_three_matrices() -> None:
    assert stacked_matrices(torch.Size((96, 32))) == 3
    assert stacked_matrices(torch.Size((48, 32))) == 1
    assert stacked_matrices(torch.Size((32, 96))) == 1


def test_a_step_has_the_same_size_whatever_the_gradient_scale() -> None:
    sizes = []
    for scale in (1e-3, 1e3):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.zeros(16, 16))
        weight.grad = torch.randn(16, 16) * scale
        Muon([weight], lr=0.01, weight_decay=0.0).step()
        sizes.append(float(weight.detach().norm()))
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-3)
    assert sizes[0] > 0
