"""What leaves a client, and what that costs: guarantees, mechanisms, exact noise, accounting, a ledger and audits.

Arrays in, arrays out; neither Flower nor torch is imported here. Where to look:

- `guarantee`: the statement, with unit, adjacency, view and trust; `words`: what it says at a glance
- `mechanism`: what a method releases, as all see it who ask about privacy
- `mechanisms`: what is clipped, what noise is added, and what that costs
- `accounting`: what costs add up to, exactly for continuous and for integer noise; formulas as printed in papers;
  a registry of costs that packages add to
- `noise`: bits from the operating system, exact discrete samplers
- `ledger`: spending on disk
- `audit`: lower bounds from what is released
"""
