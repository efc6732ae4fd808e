"""The GPTs of the reference family: LlamaGen's text-to-image layout, names and arithmetic.

Image tokens carry a two-dimensional rotary position (row angles in the first half of a head, column angles in the
second, adjacent pairs, integer positions). The rotary table is zero at prefix positions, so a prefix key adds the
logit 0 to every query and a prefix query attends uniformly. Hidden prefix positions are left padding.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

NORM_EPS = 1e-5
ROPE_BASE = 10000


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """Sizes of a GPT; `grid` is the side of the square of image tokens, `prefix` the number of text positions."""

    grid: int
    layers: int
    text_width: int
    prefix: int = 12
    width: int = 128
    heads: int = 4
    hidden: int = 336
    vocabulary: int = 512


class RMSNorm(nn.Module):
    """Division by the root mean square, then a learned scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        return functional.rms_norm(x, (x.shape[-1],), self.weight, NORM_EPS)


class Attention(nn.Module):
    """Multi-head attention with a merged, bias-free projection of queries, keys and values."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.wqkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.wo = nn.Linear(config.width, config.width, bias=False)

    def project(self, x: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries, rotated keys and values, each [N, heads, T, head width], of x [N, T, width]."""
        count, length, width = x.shape
        merged = self.wqkv(x).view(count, length, 3, self.heads, width // self.heads)
        queries, keys = rotate(merged[:, :, :2], rotation).permute(2, 0, 3, 1, 4)
        return queries, keys, merged[:, :, 2].transpose(1, 2)

    def merge(self, attended: Tensor) -> Tensor:
        """[N, heads, T, head width] -> [N, T, width]."""
        merged: Tensor = self.wo(attended.transpose(1, 2).flatten(2))
        return merged


class FeedForward(nn.Module):
    """SwiGLU: the gate w1 scales w3, w2 projects back."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.w1 = nn.Linear(config.width, config.hidden, bias=False)
        self.w3 = nn.Linear(config.width, config.hidden, bias=False)
        self.w2 = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, width] -> [N, T, width]."""
        outputs: Tensor = self.w2(functional.silu(self.w1(x)) * self.w3(x))
        return outputs


class Layer(nn.Module):
    """One pre-normalised transformer layer; without its first norm where the input needs none."""

    def __init__(self, config: GPTConfig, *, normed: bool = True) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_norm = RMSNorm(config.width) if normed else nn.Identity()
        self.ffn_norm = RMSNorm(config.width)

    def forward(self, x: Tensor, rotation: Tensor, mask: Tensor | None) -> Tensor:
        """Next stream of x [N, T, width] under the mask [N, 1, T, T], or causally without one."""
        queries, keys, values = self.attention.project(self.attention_norm(x), rotation)
        attended = functional.scaled_dot_product_attention(queries, keys, values, mask, is_causal=mask is None)
        return self.finish(x, attended)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attended values and the feed-forward network to the stream."""
        x = x + self.attention.merge(attended)
        stream: Tensor = x + self.feed_forward(self.ffn_norm(x))
        return stream


class TextProjection(nn.Module):
    """Text features to prefix embeddings; the unconditional features go the same way."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.cap_proj = nn.ModuleDict(
            {
                "fc1": nn.Linear(config.text_width, config.width, bias=False),
                "fc2": nn.Linear(config.width, config.width, bias=False),
            }
        )
        self.uncond_embedding = nn.Parameter(torch.randn(config.prefix, config.text_width) / config.text_width**0.5)

    def forward(self, features: Tensor) -> Tensor:
        """[N, P, text_width] -> [N, P, width]."""
        hidden = functional.gelu(self.cap_proj["fc1"](features), approximate="tanh")
        embeddings: Tensor = self.cap_proj["fc2"](hidden)
        return embeddings


class Sequence(NamedTuple):
    """A sequence as the layers read it.

    Attributes:
        embedded: text and image tokens, embedded; [N, T, width].
        rotation: how queries and keys turn; [T, head width / 2].
        mask: who sees whom; [N, 1, T, T]; None for everyone up to themselves.
        prefix: how many of the T positions are text.
    """

    embedded: Tensor
    rotation: Tensor
    mask: Tensor | None
    prefix: int


class GPT(nn.Module):
    """Text features and image tokens to logits of the next image token."""

    rotation: Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.tok_embeddings = nn.Embedding(config.vocabulary, config.width)
        self.cls_embedding = TextProjection(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width)
        self.output = nn.Linear(config.width, config.vocabulary, bias=False)
        self.register_buffer("rotation", rotation_table(config), persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith(("wo.weight", "w2.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * len(self.layers)))
            elif "fc" in name:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            elif parameter.dim() == 2 and "uncond" not in name:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, features: Tensor, text_mask: Tensor, tokens: Tensor, side: int | None = None) -> Tensor:
        """Logits [N, n + 1, V] of image tokens 0..n, given text features [N, P, E], its mask and tokens [N, n].

        The tokens are those of a grid of `side` x `side`; a grid smaller than the model's is spread over it.
        """
        sequence = self.sequence(features, text_mask, tokens, side)
        logits: Tensor = self.output(self.hidden(sequence)[:, sequence.prefix - 1 :])
        return logits

    def sequence(self, features: Tensor, text_mask: Tensor, tokens: Tensor, side: int | None = None) -> Sequence:
        """What the layers read, for the arguments of `forward`.

        Positions that are padding in every row are dropped, and a mask without padding is the causal one: both give
        the same logits sooner.
        """
        padding = int((~text_mask).all(0).sum())
        text_mask = text_mask[:, padding:]
        prefix = self.cls_embedding(features[:, padding:])
        x = torch.cat([prefix, self.tok_embeddings(tokens)], 1)
        rotation = self.spread_rotation(side or self.config.grid)[padding : padding + x.shape[1]]
        mask = None if bool(text_mask.all()) else attention_mask(text_mask, x.shape[1])
        return Sequence(x, rotation, mask, text_mask.shape[1])

    def hidden(self, sequence: Sequence) -> Tensor:
        """What the output projection reads, at every position; [N, T, width]."""
        x = sequence.embedded
        for layer in self.layers:
            x = layer(x, sequence.rotation, sequence.mask)
        normed: Tensor = self.norm(x)
        return normed

    def spread_rotation(self, side: int) -> Tensor:
        """The rotation [prefix + side * side, head width / 2] of every grid // side-th row and column."""
        grid, prefix, stride = self.config.grid, self.config.prefix, self.config.grid // side
        if stride == 1:
            return self.rotation
        cells = torch.arange(grid * grid).view(grid, grid)[::stride, ::stride].flatten()
        return torch.cat([self.rotation[:prefix], self.rotation[prefix + cells]])


def rotation_table(config: GPTConfig) -> Tensor:
    """Complex rotation [prefix + grid * grid, head width / 2] of every position; zero at prefix positions."""
    pairs = config.width // config.heads // 2
    frequencies = ROPE_BASE ** (-torch.arange(0, pairs, 2, dtype=torch.float32) / pairs)
    angles = torch.outer(torch.arange(config.grid, dtype=torch.float32), frequencies)
    rows = angles[:, None].expand(-1, config.grid, -1)
    columns = angles[None].expand(config.grid, -1, -1)
    grid = torch.cat([rows, columns], -1).flatten(0, 1)
    image = torch.polar(torch.ones_like(grid), grid)
    return torch.cat([torch.zeros(config.prefix, pairs, dtype=image.dtype), image])


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the adjacent pairs of x [N, T, 2, heads, head width] by the rotation [T, head width / 2]."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation[:, None, None]).flatten(-2)


def attention_mask(text_mask: Tensor, length: int) -> Tensor:
    """Who sees whom [N, 1, T, T]: causal, hidden prefix columns removed, everyone sees itself."""
    visible = functional.pad(text_mask, (0, length - text_mask.shape[1]), value=True)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    itself = torch.eye(length, dtype=torch.bool)
    return ((causal & visible[:, None]) | itself)[:, None]
