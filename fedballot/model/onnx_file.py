"""A run's model as ONNX: records in, probabilities out; class words stand in the file's metadata."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.schema.prepare import Preparation
from fedballot.learners.boosted import Staged, library_of
from fedballot.learners.registry import get_learner
from fedballot.model.loaded import learners_of

OPSETS = {"": 15, "ai.onnx.ml": 3}
CONVERTED = "scikit-learn's models with predict_proba, xgboost, lightgbm, catboost and torch networks can"
CLOSE = 1e-3  # of probabilities: a file computes in float32


def onnx_of(run: Path, description: Mapping[str, Any]) -> bytes:
    """The ONNX file of a run's model.

    It takes raw records, as the run has them: float32 (n, d), of a table its cells as the schema numbers them, or uint8
    images; of a model that is no network float32 (n, d), of images the pixels in rows, divided by 255. The output
    ``probabilities`` is (n, C), its columns the classes of the metadata's key ``classes``.

    Raises
    ------
    SettingsError
        If the model averages several learners, has several labels, or holds what ONNX cannot say.
    """
    if len(description["files"]) > 1 or description["multi_label"]:
        raise SettingsError("--format onnx: only models of one learner and one label per record; use skops or torch")
    prepare = Preparation.load(run / description["preparation"]) if description["preparation"] else None
    inside = tuple(description["features"])
    (learner,) = learners_of(run, description, "cpu")
    try:
        if get_learner(description["learner"]).needs_torch:
            model, classes = _network(learner, inside, len(description["classes"])), description["classes"]
        else:
            fitted = learner._fitted_model  # type: ignore[attr-defined]  # the estimator, which nothing else asks for
            model = _estimator(fitted.estimator, int(np.prod(inside)))
            classes = [description["classes"][int(label)] for label in fitted.classes]
        if prepare is not None:
            model = _joined(_prepared(prepare, description["shape"][0], _opsets(model)), model)
    except Exception as error:  # converters raise whatever they meet
        words = str(error).partition("\n")[0]
        raise SettingsError(
            f"--format onnx: the model {description['learner']} cannot be converted ({type(error).__name__}: {words}). "
            f"{CONVERTED}; --format skops or torch holds this one"
        ) from error
    entries = {"classes": classes, "fedballot": dict(description), "schema": description["schema"]}
    for key, value in entries.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return bytes(model.SerializeToString())


def _estimator(estimator: Any, width: int) -> Any:
    """What is no network, compared with what it was made of."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError("it has no predict_proba")
    if isinstance(estimator, Staged):
        model = _boosted(estimator.model, width if estimator.before is None else _width(estimator.before, width))
        if estimator.before is not None:
            model = _joined(_scikit(estimator.before, width), model)
    else:
        model = _scikit(estimator, width, {id(estimator): {"zipmap": False}})
        outputs = [output for output in model.graph.output if output.name == "probabilities"]
        del model.graph.output[:]
        model.graph.output.extend(outputs)
    _compare(model, np.random.default_rng(0).normal(size=(32, width)), estimator.predict_proba)
    return model


def _width(before: Any, width: int) -> int:
    return int(before.transform(np.zeros((1, width), np.float32)).shape[1])


def _scikit(estimator: Any, width: int, options: Mapping[Any, Any] | None = None, opsets: Any = None) -> Any:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    records = [("records", FloatTensorType([None, width]))]
    return convert_sklearn(estimator, initial_types=records, options=options, target_opset=dict(opsets or OPSETS))


def _boosted(model: Any, width: int) -> Any:
    """As each library's own converter, or onnxmltools', has it; probabilities alone come out."""
    import onnx
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    records = [("records", FloatTensorType([None, width]))]
    library = library_of(model)
    if library == "xgboost":
        out = convert_xgboost(model, initial_types=records, target_opset=OPSETS[""])
    elif library == "lightgbm":
        out = convert_lightgbm(
            _float32_splits(model.booster_), initial_types=records, zipmap=False, target_opset=OPSETS[""]
        )
    else:
        with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
            model.save_model(str(Path(scratch) / "model.onnx"), format="onnx")
            out = onnx.load(Path(scratch) / "model.onnx")
        trees = out.graph.node[0]  # the other makes a list of dictionaries of its probabilities
        del out.graph.node[1:]
        trees.input[0], trees.output[1] = "records", "probabilities"
        out.graph.input[0].name = "records"
    del out.graph.output[:]
    out.graph.output.append(onnx.helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, [None, None]))
    return out


def _float32_splits(booster: Any) -> Any:
    """The same LightGBM model for float32 records, with thresholds that float32 holds: the next ones below."""
    from lightgbm import Booster

    lines = []
    for line in booster.model_to_string().splitlines():
        if line.startswith("threshold="):
            exact = np.array(line.removeprefix("threshold=").split(), dtype=np.float64)
            near = exact.astype(np.float32)
            below = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
            line = "threshold=" + " ".join(repr(float(value)) for value in below)
        if not line.startswith("tree_sizes="):  # of the text in bytes, which are others now
            lines.append(line)
    return Booster(model_str="\n".join(lines))


def _prepared(prepare: Preparation, cells: int, opsets: Mapping[str, int]) -> Any:
    """What fills and scales a table's cells, compared with itself in scikit-learn."""
    from sklearn.preprocessing import StandardScaler

    transformer = copy.copy(prepare.transformer)
    transformer.transformers_ = [(name, _numbered(step), at) for name, step, at in transformer.transformers_]
    exact = {
        StandardScaler: {"div": "div"}
    }  # a product with 1 / deviation has other last bits, which trees may ask for
    model = _scikit(transformer, cells, exact, {**OPSETS, **opsets})
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, size=(32, cells)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    _compare(model, x, prepare)
    return model


def _numbered(step: Any) -> Any:
    """One-hot categories with -1 in place of NaN, which each machine makes another integer of."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    if not isinstance(step, OneHotEncoder):
        return step
    nothing = np.full((1, len(step.categories_)), -1, np.float32)
    return make_pipeline(SimpleImputer(strategy="constant", fill_value=-1.0).fit(nothing), step)


def _compare(model: Any, x: np.ndarray[Any, Any], says: Any) -> None:
    from onnx.reference import ReferenceEvaluator

    x = x.astype(np.float32)
    out, wanted = (
        np.asarray(p) for p in (*ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x}), says(x))
    )
    if out.shape != wanted.shape or not np.allclose(out, wanted, atol=CLOSE, rtol=CLOSE):
        raise ValueError("what came out of the conversion predicts otherwise")


def _opsets(model: Any) -> dict[str, int]:
    return {entry.domain: entry.version for entry in model.opset_import}


def _joined(first: Any, second: Any) -> Any:
    """One graph: what the first gives goes into the second."""
    from onnx import compose, helper

    first = compose.add_prefix(first, "prepare_", rename_inputs=False)
    second = compose.add_prefix(second, "model_", rename_outputs=False)
    ends = [(first.graph.output[0].name, second.graph.input[0].name)]
    versions = _opsets(first)
    for domain, version in _opsets(second).items():
        versions[domain] = max(version, versions.get(domain, 0))
    return helper.make_model(
        compose.merge_graphs(first.graph, second.graph, io_map=ends),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in versions.items()],
        ir_version=max(first.ir_version, second.ir_version),
    )


def _network(learner: Any, shape: tuple[int, ...], outputs: int) -> Any:
    import torch

    from fedballot.learners.tensors import floats

    net = learner._trained()  # the network itself, which nothing else asks for

    class Whole(torch.nn.Module):
        """Raw records to probabilities."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, records: torch.Tensor) -> torch.Tensor:
            x = records
            if len(shape) > 1:
                x = x.unsqueeze(1) if len(shape) == 2 else x.permute(0, 3, 1, 2)
            logits: torch.Tensor = self.net(floats(x))[:, :outputs]
            return logits.softmax(1)

    example = torch.zeros(2, *shape, dtype=torch.uint8 if len(shape) > 1 else torch.float32)
    program = torch.onnx.export(
        Whole().eval(),
        (example,),
        input_names=["records"],
        output_names=["probabilities"],
        dynamic_shapes=({0: torch.export.Dim("n")},),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    return program.model_proto
