"""Attacks on whole methods: what an adversary of a view learns from what it sees, measured on the real clients."""
