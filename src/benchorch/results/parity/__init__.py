"""Parity: whether a conversion's outputs are still those of the same model."""
