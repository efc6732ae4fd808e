"""What a bundle will take on disk and a run of it in memory, known from the headers of its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mulo_engines.manifest import FileRecord
from mulo_engines.memory import MemoryPlan, ModelBuffers, plan_memory

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.codes import quantized_entries
from mulo_export.describe import PROMPT_FILE, bundle_graphs, describe_bundle, graph_file, weights_file
from mulo_export.fold_ta_tok import folded_entries
from mulo_export.options import ExportOptions
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.sources import Sources
from mulo_export.weights import TYPE_BYTES

__all__ = ["plan_bundle", "transformer_bytes", "weight_bytes", "written_bytes"]

_LINEAR_STEMS = ("layers.", "output.")
_UNKNOWN_DIGEST = "0" * 64


def plan_bundle(sources: Sources, options: ExportOptions) -> MemoryPlan:
    """Bytes that one lane needs to decode one image in rounds of one drafter row.

    The cache of a model holds the prefix, the image and, as scratch for resampled tokens, once more a round.
    """
    sizes = {weights_file(role): size for role, size in weight_bytes(sources, options.precision).items()}
    others = [*map(graph_file, bundle_graphs(sources)), PROMPT_FILE]
    files = [
        FileRecord(path=path, size=size, sha256=_UNKNOWN_DIGEST)
        for path, size in (sizes | dict.fromkeys(others, 0)).items()
    ]
    low, high = sources.drafter.config, sources.target.config
    round_tokens = sources.ratio * high.grid
    return plan_memory(
        describe_bundle(sources, options, files),
        lanes=1,
        images=1,
        drafter=ModelBuffers(slots=low.positions + low.grid, queries=low.grid),
        target=ModelBuffers(slots=high.positions + round_tokens, queries=round_tokens),
    )


def weight_bytes(sources: Sources, precision: Precision) -> Mapping[str, int]:
    """Bytes of each role's weights at `precision`, but for the file's header."""
    sizes = {
        "drafter": transformer_bytes(sources.drafter.file, precision),
        "target": transformer_bytes(sources.target.file, precision),
        "vq": sum(record.size for record in sources.vq.file.tensors.values()),
    }
    if sources.upsampler is not None:
        sizes["upsampler"] = sum(record.size for record in sources.upsampler.file.tensors.values())
    if sources.eagle is not None:
        sizes["eagle"] = transformer_bytes(sources.eagle.file, precision)
    if sources.ta_tok is not None:
        dtype = PRECISIONS[precision].weight_type
        entries = folded_entries(sources.ta_tok.config, sources.target.config.prefix, dtype)
        sizes["ta_tok"] = sum(entry.size for entry in entries.values())
    return sizes


def written_bytes(sources: Sources, precision: Precision) -> int:
    """Bytes that an export writes; what is quantized was written in float32 before."""
    sizes = weight_bytes(sources, precision)
    if not PRECISIONS[precision].quantized:
        return sum(sizes.values())
    return sum(weight_bytes(sources, Precision.FP32).values()) + sizes["drafter"] + sizes["target"]


def transformer_bytes(file: TensorFile, precision: Precision) -> int:
    """Bytes of a transformer's weights at `precision`."""
    traits = PRECISIONS[precision]
    if traits.codes is not None:
        return sum(entry.size for entry in quantized_entries(file, traits.codes, traits.weight_type, {}).values())
    return round(sum(_tensor_bytes(record, precision) for record in file.tensors.values()))


def _tensor_bytes(record: TensorRecord, precision: Precision) -> float:
    linear = len(record.shape) == 2 and record.name.startswith(_LINEAR_STEMS)
    traits = PRECISIONS[precision]
    return math.prod(record.shape) * (traits.linear_bytes if linear else TYPE_BYTES[traits.weight_type])
