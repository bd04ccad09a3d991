"""What `fedballot audit` looks at through real clients, by method."""

from __future__ import annotations

AUDITED = {
    "pate-fl": ["votes", "weighted votes"],
    "fedkt": ["votes"],
    "private-knn-fl": ["votes"],
    "fedkd-dp": ["logits"],
    "fedauxfdp": ["class sums", "class head", "score head"],
    "fedauxfdp-sum": ["class sums"],
    "fedd-p": ["class head"],
    "fedavg-p": ["class head"],
    "fedmd-nfdp": ["fixed sample"],
    "fedmd-ldp": ["predictions"],
    "dp-fedavg": ["the server's sum"],
    "poll": ["client shares", "record counts"],
    "dp-fedsgd": ["noisy steps", "Poisson batches", "images"],
}
