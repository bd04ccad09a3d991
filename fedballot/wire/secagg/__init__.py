"""Secure aggregation: the server sees a sum and no summand."""
