"""Errors, files, folders, progress, metrics: imports nothing of fedballot but itself."""
