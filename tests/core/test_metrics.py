import json

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics
from sklearn.calibration import calibration_curve

from fedballot.core.metrics import (
    BINS,
    calibration,
    confusion_matrix,
    of_confusion,
    of_labels,
    of_scores,
    probabilities_of,
    spread_of,
)


def some(n=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=n)
    return truth, np.eye(classes)[truth] * 1.5 + rng.normal(size=(n, classes))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_measures_are_scikit_learns(classes):
    truth, logits = some(classes=classes)
    said = logits.argmax(axis=1)
    found = of_scores(truth, logits)
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, said))
    precision, recall, f1, support = metrics.precision_recall_fscore_support(truth, said)
    np.testing.assert_allclose(found["precision_per_class"], precision)
    np.testing.assert_allclose(found["recall_per_class"], recall)
    np.testing.assert_allclose(found["f1_per_class"], f1)
    assert found["macro_f1"] == pytest.approx(f1.mean())
    np.testing.assert_array_equal(found["support"], support)
    np.testing.assert_array_equal(found["confusion"], metrics.confusion_matrix(truth, said))
    p = softmax(logits, axis=1)
    wanted = metrics.roc_auc_score(truth, p[:, 1] if classes == 2 else p, multi_class="ovr")
    assert found["auc"] == pytest.approx(wanted)


def test_the_calibration_curve_is_scikit_learns_and_its_error_the_weighted_gap():
    truth, logits = some(1000)
    p = softmax(logits, axis=1)
    right, confidence = p.argmax(axis=1) == truth, p.max(axis=1)
    found = of_scores(truth, logits)
    curve = found["calibration"]
    hits, mean = calibration_curve(right, confidence, n_bins=BINS)
    known = [index for index, value in enumerate(curve["right"]) if value is not None]
    np.testing.assert_allclose([curve["right"][index] for index in known], hits)
    np.testing.assert_allclose([curve["confidence"][index] for index in known], mean)
    shares = np.array(curve["records"])[known] / 1000
    assert found["calibration_error"] == pytest.approx(float((shares * np.abs(hits - mean)).sum()))
    assert calibration(np.array([True, False]), np.array([1.0, 1.0]))["calibration_error"] == 0.5


def test_what_is_not_defined_is_null_and_never_nan():
    truth = np.array([0, 0, 1, 1])
    logits = np.array([[9.0, 1, 0, 0], [9, 0, 0, 0], [8, 1, 0, 0], [0, 0, 9, 0]])  # none is 1; one is 2 that is none
    found = of_scores(truth, logits)
    assert found["recall_per_class"] == [1.0, 0.0, None, None]
    assert found["precision_per_class"] == [2 / 3, None, None, None]
    assert found["f1_per_class"] == [0.8, 0.0, None, None]
    assert found["auc_per_class"][2:] == [None, None] and found["auc_per_class"][0] is not None
    assert found["balanced_accuracy"] == 0.5
    json.dumps(found, allow_nan=False)
    one = of_scores(np.zeros(3, int), np.array([[1.0, 0]] * 3))
    assert one["auc"] is None and one["balanced_accuracy"] == 1
    assert calibration(np.zeros(0, bool), np.zeros(0)) == {"calibration_error": None, "calibration": None}


def test_several_labels_are_measured_each_by_itself_where_they_are_known():
    rng = np.random.default_rng(1)
    truth = rng.integers(-1, 2, size=(200, 3)).astype(np.int8)
    truth[:, 2] = 0
    logits = truth + rng.normal(size=(200, 3))
    found = of_labels(truth, logits)
    known = truth[:, 0] >= 0
    y, said = truth[known, 0], logits[known, 0] > 0
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(y, said, average="binary")
    assert found["precision_per_class"][0] == pytest.approx(precision)
    assert found["recall_per_class"][0] == pytest.approx(recall)
    assert found["f1_per_class"][0] == pytest.approx(f1)
    assert found["auc_per_class"][0] == pytest.approx(metrics.roc_auc_score(y, logits[known, 0]))
    assert found["recall_per_class"][2] is None and found["auc_per_class"][2] is None and found["support"][2] == 0
    assert found["calibration_error"] == pytest.approx(
        calibration(
            (logits[truth >= 0] > 0) == (truth[truth >= 0] == 1),
            np.maximum(expit(logits[truth >= 0]), 1 - expit(logits[truth >= 0])),
        )["calibration_error"]
    )
    json.dumps(found, allow_nan=False)


def test_scores_become_probabilities_whatever_they_are():
    p = np.array([[0.2, 0.8], [0.5, 0.5]])
    np.testing.assert_allclose(probabilities_of(p * 2), p)  # added up over two models
    np.testing.assert_allclose(probabilities_of(np.log(p)), p)
    np.testing.assert_allclose(probabilities_of(np.array([[1.0, 2], [0, 5]])), softmax([[1.0, 2], [0, 5]], axis=1))
    assert probabilities_of(np.zeros((0, 3))).shape == (0, 3)


def test_spread_over_clients():
    matrices = [confusion_matrix(np.array([0, 1]), np.array(said), 2) for said in ([0, 1], [0, 0])]
    found = spread_of([of_confusion(matrix) for matrix in matrices])
    assert found["balanced_accuracy"] == {"mean": 0.75, "std": 0.25}
