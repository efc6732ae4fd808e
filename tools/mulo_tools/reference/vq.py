"""The VQ tokenizer of the reference family: LlamaGen's module names and arithmetic, no attention, downsampling by 4.

Pictures are float tensors [N, 3, H, W] in -1..1; codes are int64 [N, H / 4, W / 4]. The codebook is compared and
looked up on the unit sphere.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class VQConfig:
    """Sizes of the tokenizer; the downsampling factor is 2 ** (len(multipliers) - 1)."""

    channels: int = 16
    multipliers: tuple[int, ...] = (1, 2, 2)
    latent_channels: int = 32
    codebook_size: int = 512
    code_width: int = 8
    groups: int = 8


class ResidualBlock(nn.Module):
    """Two normalised 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inputs, eps=NORM_EPS)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2 = nn.GroupNorm(groups, outputs, eps=NORM_EPS)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.nin_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] -> [N, outputs, H, W]."""
        hidden = self.conv1(functional.silu(self.norm1(x)))
        hidden = self.conv2(functional.silu(self.norm2(hidden)))
        outputs: Tensor = self.nin_shortcut(x) + hidden
        return outputs


class Downsample(nn.Module):
    """Halve the sides; padding is on the right and the bottom only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C, H / 2, W / 2]."""
        smaller: Tensor = self.conv(functional.pad(x, (0, 1, 0, 1)))
        return smaller


class Upsample(nn.Module):
    """Double the sides by repetition and smooth."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C, 2 H, 2 W]."""
        larger: Tensor = self.conv(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return larger


class ConvBlock(nn.Module):
    """One resolution level: a residual block, then a change of resolution except at the last level."""

    def __init__(self, inputs: int, outputs: int, groups: int, resample: tuple[str, nn.Module] | None) -> None:
        super().__init__()
        self.res = nn.ModuleList([ResidualBlock(inputs, outputs, groups)])
        self.resample = resample[0] if resample else ""
        if resample:
            self.add_module(*resample)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] -> [N, outputs, H', W']."""
        x = self.res[0](x)
        return self.get_submodule(self.resample)(x) if self.resample else x


class Trunk(nn.Module):
    """What encoder and decoder share: convolution in, levels and a middle block, normalised convolution out."""

    def __init__(self, inputs: int, widths: list[int], outputs: int, middle: int, groups: int) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(inputs, widths[0], 3, padding=1)
        self.mid = nn.ModuleList([ResidualBlock(middle, middle, groups)])
        self.conv_blocks = nn.ModuleList()
        self.norm_out = nn.GroupNorm(groups, widths[-1], eps=NORM_EPS)
        self.conv_out = nn.Conv2d(widths[-1], outputs, 3, padding=1)

    def finish(self, x: Tensor) -> Tensor:
        """Normalise and project to the outputs."""
        outputs: Tensor = self.conv_out(functional.silu(self.norm_out(x)))
        return outputs


class Encoder(Trunk):
    """Picture [N, 3, H, W] -> latent [N, latent_channels, H / f, W / f]."""

    def __init__(self, config: VQConfig) -> None:
        levels = [config.channels * multiplier for multiplier in config.multipliers]
        widths = [config.channels, *levels]
        super().__init__(3, widths, config.latent_channels, widths[-1], config.groups)
        for level, (inputs, outputs) in enumerate(zip(widths, levels, strict=False)):
            last = level == len(levels) - 1
            resample = None if last else ("downsample", Downsample(outputs))
            self.conv_blocks.append(ConvBlock(inputs, outputs, config.groups, resample))

    def forward(self, x: Tensor) -> Tensor:
        """Levels first, then the middle block at the lowest resolution."""
        x = self.conv_in(x)
        for block in (*self.conv_blocks, *self.mid):
            x = block(x)
        return self.finish(x)


class Decoder(Trunk):
    """Latent [N, latent_channels, h, w] -> picture [N, 3, f h, f w]; level 0 is the lowest resolution."""

    def __init__(self, config: VQConfig) -> None:
        levels = [config.channels * multiplier for multiplier in reversed(config.multipliers)]
        widths = [levels[0], *levels]
        super().__init__(config.latent_channels, widths, 3, widths[0], config.groups)
        for level, (inputs, outputs) in enumerate(zip(widths, levels, strict=False)):
            last = level == len(levels) - 1
            resample = None if last else ("upsample", Upsample(outputs))
            self.conv_blocks.append(ConvBlock(inputs, outputs, config.groups, resample))

    def forward(self, x: Tensor) -> Tensor:
        """The middle block at the lowest resolution first, then the levels."""
        x = self.conv_in(x)
        for block in (*self.mid, *self.conv_blocks):
            x = block(x)
        return self.finish(x)


class Codebook(nn.Module):
    """The code vectors, [codebook_size, code_width]."""

    def __init__(self, config: VQConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.codebook_size, config.code_width)

    def directions(self) -> Tensor:
        """The normalised codebook [codebook_size, code_width]."""
        return functional.normalize(self.embedding.weight, dim=-1)


class VQTokenizer(nn.Module):
    """Encoder, codebook and decoder."""

    def __init__(self, config: VQConfig | None = None) -> None:
        super().__init__()
        config = config or VQConfig()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.quantize = Codebook(config)
        self.quant_conv = nn.Conv2d(config.latent_channels, config.code_width, 1)
        self.post_quant_conv = nn.Conv2d(config.code_width, config.latent_channels, 1)

    def directions(self, images: Tensor) -> Tensor:
        """Unit code vectors [N, h, w, code_width] of pictures, before quantisation."""
        latent = self.quant_conv(self.encoder(images))
        return functional.normalize(latent.permute(0, 2, 3, 1), dim=-1)

    def nearest(self, directions: Tensor) -> Tensor:
        """The codes [N, h, w] of largest cosine."""
        return (directions @ self.quantize.directions().T).argmax(-1)

    def paint(self, directions: Tensor) -> Tensor:
        """Pictures [N, 3, H, W] of unit code vectors [N, h, w, code_width]."""
        images: Tensor = self.decoder(self.post_quant_conv(directions.permute(0, 3, 1, 2)))
        return images

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """Codes [N, h, w] of pictures."""
        return self.nearest(self.directions(images))

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """Pictures of codes [N, h, w], not clamped."""
        return self.paint(self.quantize.directions()[codes])


def encode_pictures(tokenizer: VQTokenizer, images: NDArray[np.uint8], batch: int = 25) -> NDArray[np.uint16]:
    """Token grids [N, h * w], in raster order, of pictures [N, H, W, 3]."""
    codes = [tokenizer.encode(to_tensor(images[row : row + batch])) for row in range(0, len(images), batch)]
    return torch.cat(codes).flatten(1).numpy().astype(np.uint16)


def to_tensor(images: NDArray[np.uint8]) -> Tensor:
    """uint8 [N, H, W, 3] -> float [N, 3, H, W] in -1..1."""
    scaled = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1
    return scaled.contiguous(memory_format=torch.channels_last)


def to_pixels(images: Tensor) -> NDArray[np.uint8]:
    """Float [N, 3, H, W], nominally -1..1 -> uint8 [N, H, W, 3], rounded to nearest."""
    scaled = ((images.clamp(-1, 1) + 1) * 127.5).round().byte()
    return scaled.permute(0, 2, 3, 1).contiguous().numpy()
