#!/usr/bin/env bash
# Checks a machine with an NVIDIA GPU, which needs no network: installs the wheels that lie in wheels/ beside this
# script into an environment of their own, then exports, compiles, verifies and times mulo's models on every backend
# that opens. Without wheels/, the Python in $PYTHON, or python3, must have mulo. Options are those of
# `mulo gpu-check --help`. The wheels are made where there is a network, for the same Python and system; the extra
# tensorrt or tensorrt-rtx adds a builder:
#
#     pip wheel --wheel-dir tools/wheels '.[export,gpu,profile]'
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
if [[ -d $here/wheels ]]; then
    environment=$here/../build/gpu-check/environment
    "$python" -m venv "$environment"
    python=$environment/bin/python
    "$python" -m pip install --quiet --no-index --find-links "$here/wheels" "$here"/wheels/*.whl
fi
exec "$python" -m mulo_tools gpu-check "$@"
