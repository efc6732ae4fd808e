"""`python -m mulo_tools` is `mulo`."""

from mulo_tools.cli import main

if __name__ == "__main__":
    main(prog_name="mulo")
