"""Compares two ways to run a bundle, graph by graph and token by token: `mulo verify`."""
