"""Predicts seconds per image from launches, bytes and FLOP: `mulo predict`."""
