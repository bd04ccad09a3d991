"""The data contract: what it holds, its file, how it is inferred, read through and prepared for models."""
