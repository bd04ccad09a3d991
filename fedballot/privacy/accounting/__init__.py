"""Costs as data, and the accountants that add them up."""
