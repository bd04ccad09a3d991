"""What leaves a client, and what that costs: guarantees, mechanisms, exact noise, accounting, a ledger and audits.

Arrays in, arrays out; neither Flower nor torch is imported here. Where to look:

- `guarantee`: the statement, with unit, adjacency, view and trust; `costs` and `accounting`: what releases add up to
- `gaussian`, `discrete`: the exact accounting of continuous and of integer noise
- `randomness`, `noise`: bits from the operating system, exact discrete samplers
- `votes`, `vectors`, `laplace`, `heads`, `logits`, `nfdp`, `subsampled`, `quantise`: the mechanisms
- `papers`: formulas as printed, to reproduce tables
- `ledger`: spending on disk; `audit`, `audit_runs`: lower bounds from what is released
"""
