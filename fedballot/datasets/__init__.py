"""Data sources, partitions over clients, and the split into private, public and test records.

Pure NumPy. The partitions are our own because flwr-datasets' partitioners need Hugging Face dataset objects and draw
a Dirichlet partition again until it happens to fit.
"""
