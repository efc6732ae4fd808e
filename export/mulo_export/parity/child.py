"""What the parity gate measures, in the process that it starts for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mulo_engines.manifest import ParityRecord

from mulo_export.options import ExportOptions
from mulo_export.parity.eagle import measure_eagle
from mulo_export.parity.feed import measure_feed
from mulo_export.parity.sampler import measure_sampler
from mulo_export.parity.tokenizer import measure_tokenizer
from mulo_export.parity.transformer import measure_transformer
from mulo_export.sources import Sources

__all__ = ["measure"]

_SEED = 20260


def measure(folder: Path, sources: Sources, options: ExportOptions) -> list[ParityRecord]:
    """Run every graph of the bundle in `folder`, and its reference, on a few random inputs."""
    rng = np.random.default_rng(_SEED)
    return [
        *measure_transformer(folder, "drafter", sources, options.precision, rng),
        *measure_transformer(folder, "target", sources, options.precision, rng),
        *measure_eagle(folder, sources, options.precision, rng),
        *measure_tokenizer(folder, sources, options.steepness, rng),
        *measure_sampler(folder, sources, options.pool_k_max, rng),
        *measure_feed(folder, rng),
    ]
