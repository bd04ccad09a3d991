"""Readers of files and of data sets known by name."""
