"""Noise: where randomness comes from, and exact samplers."""
