"""Measures what the graphs of a bundle and its decoding loop take, beside what the machine could do: `mulo profile`."""
