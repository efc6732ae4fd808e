"""Make a bundle: weights first, then the graphs that refer to them, then the parity gate, then the manifest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mulo_engines.bundle import describe_file
from mulo_engines.errors import CheckpointError
from mulo_engines.manifest import FileRecord, Manifest, ProvenanceRecord, write_manifest

from mulo_export.calibration import read_calibration
from mulo_export.check import check_graphs
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.codes import Amax
from mulo_export.describe import PROMPT_FILE, describe_bundle, weights_file
from mulo_export.fold_ta_tok import fold_ta_tok
from mulo_export.graph_writer import write_graphs
from mulo_export.hashing import WrittenFile, hash_file, hashing_aside
from mulo_export.options import ExportOptions
from mulo_export.parity.gate import check_parity
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.publish import publication
from mulo_export.quantize import quantize_weights
from mulo_export.quantize_for_tensorrt import quantized_inputs
from mulo_export.sources import Sources
from mulo_export.weights import Progress, convert_weights, copy_weights

__all__ = ["write_bundle"]

Hashed = Callable[[Path], WrittenFile]
"""Gives size and digest of a checkpoint that is rewritten."""


def write_bundle(sources: Sources, options: ExportOptions, destination: Path, progress: Progress) -> Manifest:
    """Export `sources` as the bundle `destination`, which appears complete or not at all.

    Raises:
        BundleError: the destination may not be written.
        CheckpointError: a weight or a head does not fit the precision, or the calibration is of other checkpoints.
        EngineMismatch: a graph is not what the contract declares.
        ParityError: a graph differs from its reference, or its check died.
    """
    if sources.eagle is not None and PRECISIONS[options.precision].codes is not None:
        raise CheckpointError(
            f"{sources.eagle.file.path}: a head reads the target's output projection, which quantizing does not leave",
            found=f"precision {options.precision}",
            expected="fp32, fp16 or bf16",
            fix="export without --eagle, or in another precision",
        )
    with publication(destination, force=options.force) as folder, hashing_aside(_rewritten(sources, options)) as hashed:
        calibration, precision = options.calibration, options.precision
        amax = {} if calibration is None else _calibrated(sources, precision, calibration, hashed)
        written = _write_weights(folder, sources, precision, amax, progress)
        weights = {role: read_tensor_file(folder / weights_file(role)) for role in written}
        write_graphs(folder, sources, weights, options)
        if sources.prompt is not None:
            shutil.copyfile(sources.prompt.path, folder / PROMPT_FILE)
        files = _files(folder, written)
        provenance = list(_provenance(sources, options, written, hashed))
        check_graphs(folder, describe_bundle(sources, options, files, provenance))
        parity = None if options.skip_parity else check_parity(folder, sources, options)
        manifest = describe_bundle(sources, options, files, provenance, parity)
        write_manifest(manifest, folder)
    return manifest


def _calibrated(sources: Sources, precision: Precision, path: Path, hashed: Hashed) -> dict[str, Amax]:
    """The inputs of linear layers of both models that become codes, according to the calibration at `path`."""
    calibration, codes = read_calibration(path), PRECISIONS[precision].codes
    assert codes is not None
    for role in ("drafter", "target"):
        found, expected = calibration.role(role).checkpoint, hashed(sources.checkpoints[role].path).sha256
        if found != expected:
            raise CheckpointError(
                f"{path}: the calibration is of another {role}",
                found=f"SHA-256 {found}",
                expected=f"SHA-256 {expected}, that of {sources.checkpoints[role].path}",
                fix="calibrate again with `mulo calibrate` on a bundle of these checkpoints",
            )
    return {role: quantized_inputs(calibration.role(role).inputs, codes.dtype) for role in ("drafter", "target")}


def _write_weights(
    folder: Path, sources: Sources, precision: Precision, amax: Mapping[str, Amax], progress: Progress
) -> dict[str, WrittenFile]:
    """Write every role's weights; those of tokenizer and upsampler in float32, the others as the precision has them."""
    (folder / "weights").mkdir()
    codes, written = PRECISIONS[precision].codes, {}
    for role, source in sources.checkpoints.items():
        destination, dtype = folder / weights_file(role), _weight_type(role, precision)
        if role == "ta_tok" and sources.ta_tok is not None:
            prefix = sources.target.config.prefix
            written[role] = fold_ta_tok(sources.ta_tok.config, source, prefix, destination, dtype, progress)
        elif codes is not None and role in ("drafter", "target"):
            written[role] = quantize_weights(source, destination, codes, amax.get(role, {}), progress)
        elif _is_copied(role, source, precision):
            written[role] = copy_weights(source.path, destination, progress)
        else:
            written[role] = convert_weights(source, destination, dtype, progress)
    return written


def _weight_type(role: str, precision: Precision) -> str:
    return "F32" if role in ("vq", "upsampler") else PRECISIONS[precision].weight_type


def _files(folder: Path, written: Mapping[str, WrittenFile]) -> list[FileRecord]:
    """A record of every file; weights were hashed when they were written."""
    weights = {weights_file(role): file for role, file in written.items()}
    others = [path.name for path in sorted(folder.iterdir()) if path.is_file()]
    return [
        *(FileRecord(path=path, size=file.size, sha256=file.sha256) for path, file in weights.items()),
        *(describe_file(folder, name) for name in others),
    ]


def _provenance(
    sources: Sources, options: ExportOptions, written: Mapping[str, WrittenFile], hashed: Hashed
) -> Iterator[ProvenanceRecord]:
    """A record of every checkpoint and of the calibration; a checkpoint copied as it is has its copy's digest."""
    for role, source in sources.checkpoints.items():
        copied = _is_copied(role, source, options.precision)
        digest = written[role].sha256 if copied else hashed(source.path).sha256
        yield ProvenanceRecord(role=role, file_name=source.path.name, sha256=digest)
    if (path := options.calibration) is not None:
        yield ProvenanceRecord(role="calibration", file_name=path.name, sha256=hash_file(path).sha256)


def _rewritten(sources: Sources, options: ExportOptions) -> Iterator[Path]:
    """The checkpoints whose digests no copy has."""
    for role, source in sources.checkpoints.items():
        if not _is_copied(role, source, options.precision):
            yield source.path


def _is_copied(role: str, source: TensorFile, precision: Precision) -> bool:
    """Whether a checkpoint enters the bundle byte for byte: one that may, and whose type is right or a tokenizer's."""
    if role == "vq" or not source.verbatim:
        return source.verbatim
    traits, types = PRECISIONS[precision], {record.dtype for record in source.tensors.values()}
    return role != "ta_tok" and traits.codes is None and types == {traits.weight_type}
