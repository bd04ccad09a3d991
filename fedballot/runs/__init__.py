"""One run, however it is run."""
