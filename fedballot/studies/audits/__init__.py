"""What an audit of a mechanism does: by itself, and through real clients. One module for each family."""
