"""Checkpoint files: what is in them and which model they hold, without loading a weight."""
