"""One command that tells whether a machine runs mulo, and how fast: `mulo gpu-check`."""
