"""Plain autoregressive sampling in PyTorch: the yardstick for trained weights, batched and cached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from mulo_runtime.prompt import WordPromptEncoder
from torch import Tensor
from torch.nn import functional

from mulo_tools.reference.gpt import GPT, Layer


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: softmax temperature, classifier-free guidance scale and seed."""

    temperature: float = 1.0
    guidance: float = 3.0
    seed: int = 0


class CachedDecoder:
    """Keys and values of a batch, position by position."""

    def __init__(self, model: GPT, features: Tensor, text_mask: Tensor) -> None:
        config = model.config
        self.model = model
        shape = (len(features), config.heads, config.prefix + config.grid**2, config.width // config.heads)
        self.keys = [torch.zeros(shape) for _ in model.layers]
        self.values = [torch.zeros(shape) for _ in model.layers]
        image = torch.ones(len(features), config.grid**2, dtype=torch.bool)
        self.visible = torch.cat([text_mask, image], 1)
        self.length = 0
        self.features = features

    def prefill(self) -> Tensor:
        """Logits [N, V] of the first image token."""
        prefix = self.features.shape[1]
        causal = torch.ones(prefix, prefix, dtype=torch.bool).tril()
        mask = (causal & self.visible[:, None, :prefix]) | torch.eye(prefix, dtype=torch.bool)
        return self._advance(self.model.cls_embedding(self.features), mask[:, None])

    def feed(self, tokens: Tensor) -> Tensor:
        """Logits [N, V] after one more token [N]."""
        mask = self.visible[:, None, None, : self.length + 1]
        return self._advance(self.model.tok_embeddings(tokens)[:, None], mask)

    def _advance(self, x: Tensor, mask: Tensor) -> Tensor:
        start, stop = self.length, self.length + x.shape[1]
        rotation = self.model.rotation[start:stop]
        layers = cast(Iterable[Layer], self.model.layers)
        for layer, keys, values in zip(layers, self.keys, self.values, strict=True):
            projected = layer.attention.project(layer.attention_norm(x), rotation)
            query, keys[:, :, start:stop], values[:, :, start:stop] = projected
            attended = functional.scaled_dot_product_attention(query, keys[:, :, :stop], values[:, :, :stop], mask)
            x = layer.finish(x, attended)
        self.length = stop
        logits: Tensor = self.model.output(self.model.norm(x[:, -1]))
        return logits


@torch.no_grad()
def sample_tokens(model: GPT, encoder: WordPromptEncoder, prompts: Sequence[str], sampling: Sampling) -> Tensor:
    """Image tokens [N, grid * grid] drawn for the prompts."""
    features, mask = (torch.from_numpy(array) for array in encoder.encode(prompts))
    null = model.cls_embedding.uncond_embedding.expand_as(features)
    decoder = CachedDecoder(model, torch.cat([features, null]), torch.cat([mask, mask]))
    generator = torch.Generator().manual_seed(sampling.seed)
    logits = decoder.prefill()
    tokens: list[Tensor] = []
    for _ in range(model.config.grid**2):
        conditional, unconditional = logits.chunk(2)
        guided = unconditional + (conditional - unconditional) * sampling.guidance
        drawn = torch.multinomial((guided / sampling.temperature).softmax(-1), 1, generator=generator)[:, 0]
        tokens.append(drawn)
        if len(tokens) < model.config.grid**2:
            logits = decoder.feed(torch.cat([drawn, drawn]))
    return torch.stack(tokens, 1)
