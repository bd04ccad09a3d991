"""Questions about runs: budget, audit, sweep, frontier."""
