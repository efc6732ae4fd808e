"""How a model's passes run: on arrays that are written before each, with draws that follow from its logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import Any, Generic, TypeVar

import numpy as np
from mulo_engines.errors import NonFiniteError
from numpy.typing import NDArray

from mulo_runtime.sampler import Draws
from mulo_runtime.settings import Sampling

__all__ = ["HIDDEN", "Ids", "PassInputs", "Passes", "check_finite"]

Ids = NDArray[np.int64]

HIDDEN = frozenset({"hidden", "previous_hidden"})
"""Inputs and outputs that a head, and a target that has one, have beside those of every model."""


@dataclass(frozen=True, slots=True)
class PassInputs:
    """The arrays that a pass of one size reads; the caller writes all of them before each run.

    Attributes:
        token_ids: [halves, N, Q]; the null half reads what the conditional half reads.
        position_ids: [halves, N, T].
        write_index: [halves, N].
        attn_mask: [halves, N, T, S]; of one half for a single image, where the mask is broadcast.
        cond_embeds: [B, C, D].
    """

    token_ids: Ids
    position_ids: Ids
    write_index: Ids
    attn_mask: NDArray[np.bool_]
    cond_embeds: NDArray[Any]

    def blank(self) -> None:
        """Write what any pass may read: its queries are token 0 at position 0, and see every slot."""
        for array in (self.token_ids, self.position_ids, self.write_index, self.cond_embeds):
            array.fill(0)
        self.attn_mask.fill(True)


_Inputs = TypeVar("_Inputs", bound=PassInputs)


class Passes(ABC, Generic[_Inputs]):
    """Runs the passes of one model of a lane and draws from their logits.

    Attributes:
        capacity: slots of the cache.
    """

    capacity: int

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the buffers that serve this model alone."""

    @abstractmethod
    def configure(self, sampling: Sampling, pool_k: int) -> None:
        """Set how tokens are drawn from now on, and over how many codebook entries masses are pooled."""

    @abstractmethod
    def tell_distributions(self, told: bool) -> None:
        """Have draws come with distributions from now on, or without.

        Raises:
            RequestError: they cannot.
        """

    @abstractmethod
    def hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """What a pass of T queries, padding included, says of hidden states, if the graph does; [halves, N, T, D]."""

    @abstractmethod
    def previous_hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """Where a pass of T queries of a head reads the hidden state before each of them; [halves, N, T, D]."""

    @abstractmethod
    def restart(self, halves: int) -> None:
        """Begin new images, whose passes have `halves` halves; whatever the cache holds was not written."""

    @abstractmethod
    def zero(self) -> None:
        """Overwrite the cache: a NaN in a slot that is masked would still poison what attends past it."""

    @abstractmethod
    def inputs(self, prefix: int, queries: int, rows: int, filled: int, first: int) -> _Inputs:
        """The inputs of the next pass.

        Args:
            prefix: C.
            queries: Q, a bucket.
            rows: R, a bucket: logits are asked for of queries first, first+1, ...
            filled: slots that are filled after the pass, at most the capacity.
            first: index of the first query that gets logits.
        """

    @abstractmethod
    def run(self, inputs: _Inputs, queries: int, candidates: Ids | None, uniforms: NDArray[np.float32]) -> Draws:
        """Run a pass and draw.

        Args:
            inputs: what `inputs` gave last, written.
            queries: how many queries are booked.
            candidates: [N, R]; None where there are none.
            uniforms: [N, R].

        Raises:
            NonFiniteError: the logits are not finite.
        """

    @abstractmethod
    def run_one(self, inputs: _Inputs, uniform: float) -> int:
        """Run a pass of a lone query of a lone image and draw: `run` without arrays of one element."""

    @abstractmethod
    def extend(self, inputs: _Inputs, queries: int) -> None:
        """Run a pass for the keys that it leaves alone."""

    @abstractmethod
    def warm(self) -> None:
        """Run, on blank inputs, a pass of every size that there may be; what the cache holds is lost.

        Raises:
            EngineError: the engine fails, or its logits are not finite.
        """


def check_finite(model: str, probability: float) -> None:
    """Check a probability, or a sum of some, that `model`'s logits led to.

    Raises:
        NonFiniteError: it is not finite.
    """
    if not isfinite(probability):
        raise NonFiniteError(
            f"{model}: the logits are not finite",
            expected="finite logits",
            fix="export with a wider precision (fp32 or bf16), or check the checkpoint",
        )
