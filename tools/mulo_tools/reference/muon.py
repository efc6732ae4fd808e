"""Muon: momentum whose matrix updates are orthogonalised (Jordan et al. 2024), in float32.

CPUs without bfloat16 units run the usual bfloat16 iteration several times slower than this one.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton-Schulz polynomial: singular values in (0, 1] move to about 0.7 .. 1.2 in five rounds."""
ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """Muon for matrices. A parameter with k times as many rows as columns counts as k stacked matrices (q, k and v).

    The update's root mean square is matched to AdamW's by the factor 0.2 * sqrt(larger side) (Moonshot 2025), so both
    optimizers can share a learning rate.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all parameters from their gradients."""
        for group in self.param_groups:
            parts: defaultdict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                update = self._momentum(parameter, group["momentum"])
                count = stacked_matrices(parameter.shape)
                for weight, part in zip(parameter.chunk(count), update.chunk(count), strict=True):
                    parts[part.shape].append((weight, part))
            for shape, pairs in parts.items():
                rate = group["lr"] * 0.2 * max(shape) ** 0.5
                updates = orthogonalise(torch.stack([part for _, part in pairs]))
                for (weight, _), update in zip(pairs, updates, strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-rate)

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """Nesterov momentum of the gradient."""
        assert parameter.grad is not None, "every parameter takes part in the loss"
        state = self.state[parameter]
        buffer: Tensor = state.setdefault("momentum", torch.zeros_like(parameter))
        buffer.mul_(momentum).add_(parameter.grad)
        return parameter.grad + momentum * buffer


def stacked_matrices(shape: torch.Size) -> int:
    """How many matrices a parameter [rows, columns] holds one above the other: 3 for merged q, k, v, else 1."""
    rows, columns = shape
    return 3 if rows == 3 * columns else 1


def orthogonalise(matrices: Tensor) -> Tensor:
    """Move all singular values of matrices [n, rows, columns] near 1 by Newton-Schulz iteration."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalise(matrices.mT).mT
    linear, cubic, quintic = QUINTIC
    x: Tensor = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = linear * x + (cubic * square + quintic * square @ square) @ x
    return x
