"""What released data alone say about epsilon."""
