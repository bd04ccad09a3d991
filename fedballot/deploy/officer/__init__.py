"""A privacy officer's pack: what a run or a site promises, what backs it, what it was made with, signed."""
