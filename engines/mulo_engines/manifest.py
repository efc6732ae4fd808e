"""`bundle.json`: what a bundle holds, how its graphs fit together, and where it came from."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mulo_engines.errors import BundleError

__all__ = [
    "MANIFEST_NAME",
    "SCHEMA_VERSION",
    "CanaryRecord",
    "ConditionRecord",
    "FileRecord",
    "GraphRecord",
    "Manifest",
    "ModelRecord",
    "ParityRecord",
    "PromptRecord",
    "ProvenanceRecord",
    "read_manifest",
    "write_manifest",
]

MANIFEST_NAME = "bundle.json"
SCHEMA_VERSION = 3
_OLDER_VERSIONS = (1, 2)
"""Versions that read as they are: every field that was added since has a default."""
_SIZE_LIMIT = 4 * 2**20
_DIGEST_KEY = "manifest_sha256"
_EXPORT_AGAIN = "export the bundle again with `mulo-export`, or copy it again from where it came from"


def _inside(path: str) -> str:
    """Accept only a path that names a file below the folder it is relative to, on every operating system."""
    parts = path.split("/")
    if not all(parts) or {".", ".."} & set(parts) or re.search(r'[\x00-\x1f\\:*?"<>|]', path):
        raise ValueError("a relative path with '/' between its parts, that stays inside the bundle")
    return path


Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
InnerPath = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_inside)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class FileRecord(_Record):
    """One file of the bundle: its path inside the bundle, its size in bytes and its SHA-256."""

    path: InnerPath
    size: Annotated[int, Field(ge=0, le=2**63 - 1)]
    sha256: Sha256


class GraphRecord(_Record):
    """One graph: the name it is asked for by, its ONNX file, and the files that hold its weights."""

    name: Name
    file: InnerPath
    weights: tuple[InnerPath, ...] = ()


class ConditionRecord(_Record):
    """What an image is conditioned on.

    Attributes:
        kind: a class id, text features or TA-Tok codes.
        length: positions of the prefix.
        feature_size: size of one text feature; for text only.
        classes: how many classes there are, without the null class; for classes only.
        codes: how many different TA-Tok codes there are; for these only.
    """

    kind: Literal["class", "text", "ta_tok"]
    length: Count
    feature_size: Count | None = None
    classes: Count | None = None
    codes: Count | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if (self.feature_size is not None) != (self.kind == "text"):
            raise ValueError("feature_size for kind 'text' and for no other")
        if (self.classes is not None) != (self.kind == "class"):
            raise ValueError("classes for kind 'class' and for no other")
        if (self.codes is not None) != (self.kind == "ta_tok"):
            raise ValueError("codes for kind 'ta_tok' and for no other")
        return self


class ModelRecord(_Record):
    """The size of a drafter or target: its grid, its transformer and the type of its KV cache."""

    rows: Count
    cols: Count
    layers: Count
    heads: Count
    head_dim: Count
    dim: Count
    cache_dtype: Literal["float32", "float16", "bfloat16"]


class PromptRecord(_Record):
    """How prompts become text features: the kind of encoder, the file of its tables, and prompts to begin with."""

    kind: Literal["words"]
    file: InnerPath
    examples: tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...] = ()


class ProvenanceRecord(_Record):
    """The checkpoint that a role was exported from."""

    role: Name
    file_name: Name
    sha256: Sha256


class ParityRecord(_Record):
    """How far a graph lay from its reference when it was exported."""

    graph: Name
    metric: Name
    value: float
    tolerance: float


class CanaryRecord(_Record):
    """How the images of seeds 0 .. images-1 are accepted: the mean accepted share, and the mean pooled mass."""

    images: Count
    accepted_share: Annotated[float, Field(ge=0, le=1)]
    pooled_mass: Annotated[float, Field(ge=0, le=1.001)]


class Manifest(_Record):
    """Everything that `bundle.json` says.

    Attributes:
        schema_version: version of this format.
        family: architecture of the drafter and target, such as "llamagen-t2i".
        precision: type of the weights.
        ratio: rows (and columns) of the target's grid for one of the drafter's.
        vocabulary: entries of the codebook that both share.
        condition: what images are conditioned on.
        drafter: size of the drafter.
        target: size of the target.
        eagle: size of the target's EAGLE head; the target's graph then tells its hidden states.
        pool_k_max: codebook neighbours that the sampler can pool over.
        pixels_per_token: height (and width) in pixels of the part of an image that one target token stands for.
        rounding: how the decoder turns floats into bytes.
        decoder_witness: whether the decoder's graph has an output "witness", a number for every image that is finite if
            and only if its pixels were before they became bytes; images of older exports, without it, go unchecked.
        steepness: how much steeper the upsampler by pixels makes edges than its bicubic filter leaves them.
        sampling: default sampling parameters.
        mulo: default switches of MuLo-SD, which the runtime checks.
        prompt: the prompt encoder, where the family brings one.
        files: every file of the bundle but the manifest.
        graphs: every graph.
        provenance: the checkpoints.
        parity: results of the export's comparison with the reference.
        parity_skipped: whether that comparison was skipped.
        canary: how a few images of fixed seeds were accepted, where that was recorded.
    """

    schema_version: Literal[3] = 3
    family: Name
    precision: Name
    ratio: Count
    vocabulary: Count
    condition: ConditionRecord
    drafter: ModelRecord
    target: ModelRecord
    pool_k_max: Count
    pixels_per_token: Count
    rounding: Name
    decoder_witness: bool = False
    steepness: Annotated[float, Field(ge=1)] = 1.0
    sampling: dict[str, float | int]
    mulo: dict[str, float | int | str | bool | None]
    prompt: PromptRecord | None = None
    eagle: ModelRecord | None = None
    files: tuple[FileRecord, ...]
    graphs: tuple[GraphRecord, ...]
    provenance: tuple[ProvenanceRecord, ...]
    parity: tuple[ParityRecord, ...] = ()
    parity_skipped: bool = False
    canary: CanaryRecord | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        grids = (self.target.rows, self.target.cols), (self.drafter.rows * self.ratio, self.drafter.cols * self.ratio)
        if grids[0] != grids[1]:
            raise ValueError(f"target.rows and target.cols that are ratio times the drafter's, {grids[1]}")
        if self.pool_k_max > self.vocabulary:
            raise ValueError("pool_k_max of at most the vocabulary")
        if self.parity_skipped == bool(self.parity):
            raise ValueError("parity, or parity_skipped where there is none")
        if (self.eagle is not None) != any(graph.name == "eagle" for graph in self.graphs):
            raise ValueError("eagle where there is a graph 'eagle', and nowhere else")
        if self.prompt is not None and self.condition.kind != "text":
            raise ValueError("prompt only with condition.kind 'text'")
        self._check_files()
        return self

    def _check_files(self) -> None:
        listed = [file.path for file in self.files]
        names = [graph.name for graph in self.graphs]
        for kind, values in (("files", [*listed, MANIFEST_NAME]), ("graphs", names)):
            twice = {value for value in values if values.count(value) > 1}
            if twice:
                raise ValueError(f"{kind} that are listed once and are not the manifest, unlike {min(twice)!r}")
        used = [path for graph in self.graphs for path in (graph.file, *graph.weights)]
        unlisted = {*used, *([self.prompt.file] if self.prompt else [])} - set(listed)
        if unlisted:
            raise ValueError(f"files that list {min(unlisted)!r}, which a graph or the prompt encoder uses")


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write `bundle.json` into `folder`, sealed with its own SHA-256."""
    content = json.loads(manifest.model_dump_json())
    sealed = {**content, _DIGEST_KEY: _digest(content)}
    (folder / MANIFEST_NAME).write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(path: Path) -> Manifest:
    """Read and check the manifest at `path`.

    Raises:
        BundleError: it is missing, no JSON, of a newer schema, altered, or a field is not as it should be.
    """
    content = _read_json(path)
    _check_version(path, content.get("schema_version"))
    digest = content.pop(_DIGEST_KEY, None)
    try:
        manifest = Manifest.model_validate_json(json.dumps({**content, "schema_version": SCHEMA_VERSION}))
    except ValidationError as error:
        raise _refused(path, error) from error
    if digest != _digest(content):
        raise BundleError(
            f"{path}: field {_DIGEST_KEY!r} does not match, so the manifest was altered after the export",
            found=_short(digest),
            expected=_digest(content),
            fix=_EXPORT_AGAIN,
        )
    return manifest


def _check_version(path: Path, version: object) -> None:
    if version in (*_OLDER_VERSIONS, SCHEMA_VERSION) and not isinstance(version, bool):
        return
    newer = isinstance(version, int) and version > SCHEMA_VERSION
    raise BundleError(
        f"{path}: field 'schema_version' is {'newer than this mulo' if newer else 'not one that mulo ever wrote'}",
        found=_short(version),
        expected=SCHEMA_VERSION,
        fix="pip install --upgrade mulo" if newer else _EXPORT_AGAIN,
    )


def _read_json(path: Path) -> dict[str, Any]:
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{path}: no such file", expected="the manifest of a bundle", fix="give a bundle's folder")
    if path.stat().st_size > _SIZE_LIMIT:
        raise BundleError(f"{path}: too large", found=path.stat().st_size, expected=f"at most {_SIZE_LIMIT} bytes")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not a JSON file", found=error, fix=_EXPORT_AGAIN) from error
    if not isinstance(content, dict):
        raise BundleError(f"{path}: not a manifest", found=_short(content), expected="an object", fix=_EXPORT_AGAIN)
    return content


def _digest(content: dict[str, Any]) -> str:
    """SHA-256 of the fields, whatever their order and spacing in the file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _refused(path: Path, error: ValidationError) -> BundleError:
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    whole = not field or first["type"] == "missing"
    return BundleError(
        f"{path}: field {field!r} is refused" if field else f"{path}: its fields do not fit together",
        found=None if whole else _short(first["input"]),
        expected=first["msg"].removeprefix("Value error, "),
        fix=_EXPORT_AGAIN,
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
