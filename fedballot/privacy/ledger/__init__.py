"""What a client has spent, on disk."""
