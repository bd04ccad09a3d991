"""Releases: what is clipped, what noise is added, and what that costs."""
