"""The methods, by name."""
