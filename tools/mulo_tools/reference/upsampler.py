"""A learned upsampler: low-resolution codes to the codes of a larger grid, by row-causal convolutions.

It stays in the latent space of one tokenizer (MuLo-SD, arXiv 2601.05149, section 3): code vectors in, code vectors out,
a pixel shuffle in between. A row depends on no row below it, so that rows can be upsampled as they are drafted.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class TokenUpsampler(nn.Module):
    """Unit code vectors of a grid to those of one `ratio` times as fine.

    Args:
        ratio: rows that become of one.
        code_width: of the tokenizer's codebook.
        width: channels in between.
        depth: residual convolutions.
    """

    def __init__(self, ratio: int, code_width: int = 8, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.ratio = ratio
        self.conv_in = nn.Conv2d(code_width, width, 3)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3) for _ in range(depth))
        self.conv_out = nn.Conv2d(width, code_width * ratio**2, 3)
        nn.init.zeros_(self.conv_out.weight)

    def forward(self, directions: Tensor) -> Tensor:
        """[N, h, w, code_width] -> [N, ratio * h, ratio * w, code_width], unit vectors; at first each code repeated."""
        codes = directions.permute(0, 3, 1, 2)
        x = functional.silu(self.conv_in(above(codes)))
        for block in self.blocks:
            x = x + functional.silu(block(above(x)))
        repeated = codes.repeat_interleave(self.ratio**2, dim=1)
        finer = functional.pixel_shuffle(repeated + self.conv_out(above(x)), self.ratio)
        return functional.normalize(finer.permute(0, 2, 3, 1), dim=-1)


def above(x: Tensor) -> Tensor:
    """Zeros around [N, C, h, w] so that a 3 x 3 convolution sees two rows above its own and none below."""
    return functional.pad(x, (1, 1, 2, 0))


def straight_through(directions: Tensor, quantized: Tensor) -> Tensor:
    """`quantized`, with the gradients of `directions`."""
    return directions + (quantized - directions).detach()


def upsample(model: TokenUpsampler, codebook: Tensor, codes: Tensor) -> Tensor:
    """Codes [N, ratio * h, ratio * w] of codes [N, h, w], by the normalised codebook."""
    with torch.no_grad():
        finer: Tensor = (model(codebook[codes]) @ codebook.T).argmax(-1)
    return finer
