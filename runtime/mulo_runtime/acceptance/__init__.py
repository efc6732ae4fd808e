"""Rules by which the target accepts candidates: one small file for each."""

from mulo_runtime.acceptance.pooled_mass import AcceptanceRule, PooledMass

__all__ = ["AcceptanceRule", "PooledMass"]
