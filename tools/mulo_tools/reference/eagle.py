"""The EAGLE-1 head of a target: one layer that foretells the target's next hidden state (arXiv 2401.15077).

For the token at position t it reads the token's embedding and the target's hidden state at t - 1, and foretells the
hidden state at t; the target's own output projection turns that into logits. As published, the layer has no norm before
its attention and the head none behind the layer, because a hidden state is normalised already.
"""

import torch
from torch import Tensor, nn

from mulo_tools.reference.gpt import GPT, GPTConfig, Layer, Sequence


class EagleHead(nn.Module):
    """Hidden states and embeddings of a target to its next hidden states.

    Args:
        config: sizes of the target; the head has one layer of the same.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.width, config.width)
        self.layers = nn.ModuleList([Layer(config, normed=False)])
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5 if "fc" in name else 0.02)

    def forward(self, sequence: Sequence, hidden: Tensor) -> Tensor:
        """Foretold hidden states at positions 1 .. T-1 of a `sequence` without padding; [N, T - 1, width].

        Args:
            sequence: what the target read.
            hidden: the target's hidden states, or what stands in for them; [N, T, width].
        """
        x: Tensor = self.fc(torch.cat([sequence.embedded[:, 1:], hidden[:, :-1]], -1))
        foretold: Tensor = self.layers[0](x, sequence.rotation[1:], None)
        return foretold


def target_states(model: GPT, features: Tensor, text_mask: Tensor, tokens: Tensor) -> tuple[Sequence, Tensor]:
    """What the target reads for text and tokens [N, n], and its hidden states there, without gradients."""
    with torch.no_grad():
        sequence = model.sequence(features, text_mask, tokens)
        return sequence, model.hidden(sequence)
