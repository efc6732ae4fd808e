"""`mulo triton-repository`: a model repository from which NVIDIA's Triton Inference Server serves a bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from mulo_engines.bundle import Bundle
from mulo_engines.manifest import Manifest

from mulo_tools.backend_options import backend_options, chosen_backend
from mulo_tools.output import write_bytes

__all__ = ["triton_command"]

_MODEL = """\
from mulo_runtime.scale_out.triton_model import TritonPythonModel

__all__ = ["TritonPythonModel"]
"""
_OUTPUTS = """\
output [
  { name: "image" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] },
  { name: "stage" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "seed" data_type: TYPE_UINT64 dims: [ 1 ] }
]
"""


@click.command("triton-repository")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the repository."
)
@click.option("--name", default="mulo", show_default=True, help="The model's name; a folder in the repository.")
@click.option("--lanes", type=click.IntRange(1), default=1, show_default=True, help="Images made at once.")
@click.option("--queue", type=click.IntRange(0), default=16, show_default=True, help="Requests that may wait.")
@backend_options
def triton_command(bundle: Path, out: Path, name: str, lanes: int, queue: int, **flags: Any) -> None:
    """Write a model repository for Triton that serves the bundle in the folder BUNDLE, where it lies.

    The Python of Triton's python_backend needs mulo installed. Inputs are what the bundle is conditioned on, and
    optionally "seed" and "previews"; outputs are "image", "stage" (draft, verified, rows, done) and "seed". There is
    one instance, with all the lanes; on a GPU it is on the one that --device names.
    """
    if Path(name).name != name:
        raise click.BadParameter(f"{name!r} is no name of a folder", param_hint="--name")
    manifest = Bundle.open(bundle, verify="size").manifest
    options = chosen_backend(flags)
    parameters = {"bundle": bundle.absolute(), "lanes": lanes, "queue": queue}
    parameters |= {"backend": options["backend"], "threads": options["threads"]}
    if options["compiled"] is not None:
        parameters["engines"] = options["compiled"]
    config = _config(name, manifest, parameters, options["device"])
    write_bytes(out / name / "1" / "model.py", _MODEL.encode())
    write_bytes(out / name / "config.pbtxt", config.encode())
    click.echo(f"{out / name}: serve it with tritonserver --model-repository {out}", err=True)


def _config(name: str, manifest: Manifest, parameters: Mapping[str, object], device: int) -> str:
    """The text of config.pbtxt."""
    inputs = [_input(*one) for one in _conditions(manifest)]
    inputs += [_input("seed", "UINT64", "1", "optional: true "), _input("previews", "BOOL", "1", "optional: true ")]
    kind = "kind: KIND_CPU" if parameters["backend"] == "onnxruntime" else f"kind: KIND_GPU gpus: [ {device} ]"
    lines = [
        f"name: {json.dumps(name)}",
        'backend: "python"',
        "max_batch_size: 0",
        "model_transaction_policy { decoupled: true }",
        f"instance_group [ {{ count: 1 {kind} }} ]",
        "input [",
        ",\n".join(inputs),
        "]",
        _OUTPUTS.rstrip(),
        *(
            f'parameters {{ key: "{key}" value {{ string_value: {json.dumps(str(value))} }} }}'
            for key, value in parameters.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _conditions(manifest: Manifest) -> list[tuple[str, str, str]]:
    """Name, type and dimensions of the inputs that say what an image shows."""
    record = manifest.condition
    if record.kind == "class":
        return [("class_id", "INT64", "1")]
    if record.kind == "ta_tok":
        return [("codes", "INT64", f"{record.length}")]
    if manifest.prompt is not None:
        return [("prompt", "STRING", "1")]
    return [("features", "FP32", f"{record.length}, {record.feature_size}"), ("mask", "BOOL", f"{record.length}")]


def _input(name: str, kind: str, dims: str, optional: str = "") -> str:
    return f'  {{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] {optional}}}'
