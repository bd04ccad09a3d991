"""Pictures of data and runs: they hold what they are given, at any size, and leave matplotlib as it was."""

import io
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.report.plots import class_figure, partition_figure
from fedballot.report.run_plots import lead_figure, per_class_figure, per_client_figure
from fedballot.report.svg import inline_svg, standalone_svg

DIGITS = [str(digit) for digit in range(10)]


def test_bubbles_have_areas_in_proportion_to_counts() -> None:
    counts = np.array([[10, 0, 40], [0, 20, 0]])
    figure = partition_figure(counts, ["a", "b", "c"])
    bubbles = figure.axes[0].collections[0]
    shown = {(int(x), int(y)): size for (x, y), size in zip(bubbles.get_offsets(), bubbles.get_sizes(), strict=True)}
    assert set(shown) == {(0, 0), (0, 2), (1, 1)}
    assert shown[0, 2] == pytest.approx(4 * shown[0, 0]) and shown[1, 1] == pytest.approx(2 * shown[0, 0])
    assert [bar.get_height() for bar in figure.axes[1].patches] == [50, 20]


def test_heat_map_holds_the_matrix_of_a_thousand_clients() -> None:
    counts = np.random.default_rng(0).poisson(3, (1000, 100))
    start = time.perf_counter()
    figure = partition_figure(counts, [f"class {i}" for i in range(100)])
    figure.savefig(io.BytesIO(), format="png")
    assert time.perf_counter() - start < 20
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), counts.T)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 3))
def test_any_partition_can_be_drawn(clients: int, classes: int, most: int) -> None:
    counts = np.random.default_rng(clients).integers(0, most + 1, (clients, classes))
    buffer = io.BytesIO()
    partition_figure(counts, [f"c{i}" for i in range(classes)]).savefig(buffer, format="png", dpi=50)
    pixels = np.asarray(Image.open(buffer).convert("L"))
    assert pixels[0, 0] == 255 and pixels.min() < 200


def test_class_figure_has_a_bar_for_each_class() -> None:
    figure = class_figure(np.array([3, 0, 7]), ["a", "b", "c"])
    assert [bar.get_width() for bar in figure.axes[0].patches] == [3, 0, 7]


@pytest.mark.parametrize("counts", [np.zeros((0, 3)), np.zeros((2, 2)), np.zeros(3), np.full((1, 3), -1)])
def test_wrong_counts_are_refused(counts: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"counts has shape"):
        partition_figure(counts, ["a", "b", "c"])
    with pytest.raises(DataError, match=r"counts has shape"):
        class_figure(counts[None] if counts.ndim == 1 else counts, ["a", "b", "c"])


@pytest.mark.parametrize(
    "values", [[0.5], [1.0, 1.0], [0.0, 0.0, 0.0], [0.9, None, 0.8], [0.1 * (i % 10) for i in range(200)]]
)
def test_accuracies_lie_within_the_axes(values: list[float | None]) -> None:
    known = [value for value in values if value is not None]
    by_class = per_class_figure(values, [f"a rather long class name {i}" for i in range(len(values))], None).axes[0]
    low, high = by_class.get_xlim()
    assert low <= min(known) and max(known) <= high
    by_client = per_client_figure(values, 0.95).axes[0]
    low, high = by_client.get_ylim()
    assert low <= min(known) and max([*known, 0.95]) <= high
    assert by_client.lines[0].get_ydata().tolist() == sorted(known)
    below = per_client_figure(values, 0.01).axes[0]  # a server that is worse than each client alone
    assert below.get_ylim()[0] <= 0.01


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(-500, 500), min_size=1, max_size=60))
@example([5e-324])
@example([64.0, -5e-324])
def test_every_lead_is_counted_once(leads: list[float]) -> None:
    values = np.array(leads)
    correct = values > 0
    bars = list(lead_figure(values, correct, None).axes[0].patches)
    assert sum(bar.get_height() for bar in bars) == len(values)


def test_inline_svg_names_colours_and_refers_only_to_itself() -> None:
    svg = inline_svg(standalone_svg(per_class_figure([0.9, 0.8], ["a", "b"], 0.85)), "one", 'of "a" & <b>')
    assert svg.startswith("<svg viewBox=") and svg.endswith("</svg>")
    assert "http" not in svg and "<metadata" not in svg and "var(--blue)" in svg
    assert 'aria-label="of &quot;a&quot; &amp; &lt;b>"' in svg
    assert ' id="one-' in svg and "#0067a8" not in svg
    assert ">a</text>" in svg


def test_matplotlib_is_left_as_it_was() -> None:
    before = dict(matplotlib.rcParams)
    standalone_svg(per_client_figure([0.2, 0.4], 0.9))
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys, fedballot.report.build, fedballot.report.compare, fedballot.report.plots;"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
