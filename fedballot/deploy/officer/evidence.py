"""Which tests and documents back which statement: paths in fedballot's repository, at this version."""

from __future__ import annotations

from collections.abc import Mapping

MECHANISMS = "tests/privacy/mechanisms"
MUTANTS = "tests/privacy/mutants/test_mutants.py"

METHOD_TESTS: Mapping[str, tuple[str, ...]] = {
    "pate-fl": (f"{MECHANISMS}/test_votes.py", f"{MECHANISMS}/test_weighted.py", "tests/clients/test_pate.py"),
    "private-knn-fl": (f"{MECHANISMS}/test_votes.py", "tests/clients/test_private_knn.py"),
    "fedkt": (f"{MECHANISMS}/test_votes.py", "tests/clients/test_fedkt.py"),
    "fedmd-nfdp": (f"{MECHANISMS}/test_mechanisms.py", "tests/clients/test_fedmd.py"),
    "fedmd-ldp": (f"{MECHANISMS}/test_mechanisms.py", "tests/clients/test_fedmd.py"),
    "fedkd-dp": (f"{MECHANISMS}/test_mechanisms.py", "tests/clients/test_fedkd.py"),
    "fedauxfdp": (f"{MECHANISMS}/test_class_sums.py", f"{MECHANISMS}/test_heads.py"),
    "fedauxfdp-sum": (f"{MECHANISMS}/test_class_sums.py", "tests/strategies/test_fedaux_sum.py"),
    "fedd-p": (f"{MECHANISMS}/test_heads.py",),
    "fedavg-p": (f"{MECHANISMS}/test_heads.py",),
    "dp-fedavg": (f"{MECHANISMS}/test_mechanisms.py", "tests/strategies/test_weights_private.py"),
    "dp-fedsgd": (f"{MECHANISMS}/test_mechanisms.py", "tests/strategies/test_weights_private.py"),
    "poll": (f"{MECHANISMS}/test_histogram.py", "tests/clients/test_poll.py"),
}
"""Of each method with a guarantee: what holds its mechanism, and what leaves its clients, to the words."""

WORDS = ("tests/privacy/test_guarantee.py", "docs/privacy.md#an-ε-alone-means-nothing")
PERSONS = (f"{MECHANISMS}/test_persons.py", "docs/privacy.md#versions-of-the-data-and-persons")
LEAVES = ("tests/clients/test_noise_that_leaves.py", "tests/clients/test_charging.py", MUTANTS)
ACCOUNTING = (
    "tests/privacy/accounting/test_accounting.py",
    "tests/privacy/accounting/test_gaussian.py",
    "tests/privacy/accounting/test_discrete.py",
    "tests/privacy/test_golden.py",
)
RECONCILED = ("tests/privacy/ledger/test_reconcile.py",)
FILTERS = ("tests/privacy/accounting/test_filter.py", "docs/privacy.md#adding-up")
LEDGER = ("tests/privacy/ledger/test_ledger.py", "docs/privacy.md#the-ledger")
LOST = ("tests/privacy/ledger/test_restore.py", "docs/privacy.md#older-ledgers-and-copies")
AUDITS = ("tests/studies/test_audit.py", "docs/audit.md#the-audit")
MEASURES = ("tests/core/test_metrics.py", "docs/result.md#metrics")
SECURE_SUM = (
    "tests/wire/secagg/test_server.py",
    "tests/wire/secagg/test_hostile.py",
    "tests/deploy/test_hostile_masks.py",
    "docs/secure-aggregation.md#who-is-trusted-with-what",
)
TRUST = ("SECURITY.md#who-is-trusted-method-by-method",)
NOISE = ("tests/privacy/noise/test_noise.py", "tests/privacy/test_purity.py", "docs/privacy.md#noise")
NOT_COVERED = ("SECURITY.md#not-covered",)
REFUSALS = ("tests/deploy/test_hostile_server.py", "tests/clients/test_order.py", "SECURITY.md#how-a-site-answers")
MODES = ("tests/deploy/test_modes.py", "tests/deploy/test_pki.py")
STAYS = ("tests/deploy/test_hostile_server.py", "tests/deploy/test_site_side.py")


def all_evidence() -> set[str]:
    """Every path, with its heading behind ``#``, that a sheet can name."""
    found = {path for paths in METHOD_TESTS.values() for path in paths}
    for value in (
        *(WORDS, PERSONS, LEAVES, ACCOUNTING, RECONCILED, FILTERS, LEDGER, LOST, AUDITS, MEASURES),
        *(SECURE_SUM, TRUST, NOISE, NOT_COVERED, REFUSALS, MODES, STAYS),
    ):
        found.update(value)
    return found
