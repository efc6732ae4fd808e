"""The file of a calibration: how large what entered every linear layer was while real images were drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from mulo_engines.errors import CheckpointError
from mulo_engines.manifest import Count, Name, Sha256
from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["Calibration", "InputRange", "RoleCalibration", "read_calibration"]

_HOW = "make one with `mulo calibrate`"
Magnitude = Annotated[float, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class InputRange(_Record):
    """How large what entered one layer was: the largest magnitude, and the root of the mean square."""

    amax: Magnitude
    rms: Magnitude


class RoleCalibration(_Record):
    """What entered the linear layers of one model.

    Attributes:
        checkpoint: SHA-256 of the checkpoint whose layers these are.
        inputs: by the name of the layer's weight.
    """

    checkpoint: Sha256
    inputs: dict[Name, InputRange]


class Calibration(_Record):
    """Everything that the file says.

    Attributes:
        schema_version: version of this format.
        images: how many images were drawn.
        drafter: the drafter's layers.
        target: the target's layers.
    """

    schema_version: Literal[1] = 1
    images: Count
    drafter: RoleCalibration
    target: RoleCalibration

    def role(self, role: str) -> RoleCalibration:
        """The layers of "drafter" or "target"."""
        return self.drafter if role == "drafter" else self.target


def read_calibration(path: Path) -> Calibration:
    """Read and check the file at `path`.

    Raises:
        CheckpointError: it is missing, no JSON, or a field is not as it should be.
    """
    try:
        return Calibration.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: the calibration cannot be read", found=error, fix=_HOW) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise CheckpointError(
            f"{path}: not a calibration",
            found=repr(first["input"])[:80],
            expected=f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}",
            fix=_HOW,
        ) from error
