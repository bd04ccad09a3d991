"""What a server makes of a tally. Pure."""
