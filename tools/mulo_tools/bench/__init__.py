"""Measures how fast and how good the methods of a bundle are: `mulo bench`."""
