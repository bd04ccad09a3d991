"""A run's model as ONNX: records in, probabilities out; class words stand in the file's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.datasets.schema.prepare import Preparation
from fedballot.learners.registry import get_learner
from fedballot.model.loaded import learners_of


def onnx_of(run: Path, description: Mapping[str, Any]) -> bytes:
    """The ONNX file of a run's model.

    A network takes raw records, as the run has them: float32 (n, d), or uint8 images. A scikit-learn model takes
    float32 (n, d): of images the pixels in rows, divided by 255; of a table its cells as the schema numbers them. The
    output ``probabilities`` is (n, C), its columns the classes of the metadata's key ``classes``.

    Raises
    ------
    SettingsError
        If the model averages several learners, has several labels, or holds what ONNX cannot say.
    """
    if len(description["files"]) > 1 or description["multi_label"]:
        raise SettingsError("--format onnx: only models of one learner and one label per record; use skops or torch")
    (learner,) = learners_of(run, description, "cpu")
    try:
        if get_learner(description["learner"]).needs_torch:
            _unprepared(description)
            model, classes = _network(learner, description), description["classes"]
        else:
            model, classes = _estimator(run, description)
    except SettingsError:
        raise
    except Exception as error:  # converters raise whatever they meet
        raise SettingsError(
            f"--format onnx: the model {description['learner']} cannot be converted ({type(error).__name__}: {error})"
        ) from error
    for key, value in (("classes", classes), ("fedballot", dict(description))):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value, ensure_ascii=False)
    return bytes(model.SerializeToString())


def _unprepared(description: Mapping[str, Any]) -> None:
    if description["preparation"]:
        raise SettingsError(
            "--format onnx: networks of tables, whose cells are prepared first, stay with --format torch"
        )


def _estimator(run: Path, description: Mapping[str, Any]) -> tuple[Any, list[str]]:
    from skl2onnx import to_onnx
    from sklearn.pipeline import Pipeline

    from fedballot.core import skops_io

    content = (run / description["files"][0]).read_bytes()  # its learner has just loaded it, so its types are trusted
    estimator = skops_io.loads(content, trusted=skops_io.get_untrusted_types(data=content))["estimator"]
    classes = estimator.classes_
    if description["preparation"]:
        preparation = Preparation.load(run / description["preparation"]).transformer
        estimator = Pipeline([("preparation", preparation), ("model", estimator)])
    example = np.zeros((1, int(np.prod(description["shape"]))), dtype=np.float32)
    model = to_onnx(estimator, example, options={id(estimator): {"zipmap": False}})
    return model, [description["classes"][int(index)] for index in classes]


def _network(learner: Any, description: Mapping[str, Any]) -> Any:
    import torch

    from fedballot.learners.tensors import floats

    net, shape = learner._trained(), tuple(description["shape"])  # the network itself, which nothing else asks for

    class Whole(torch.nn.Module):
        """Raw records to probabilities."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, records: torch.Tensor) -> torch.Tensor:
            x = records
            if len(shape) > 1:
                x = x.unsqueeze(1) if len(shape) == 2 else x.permute(0, 3, 1, 2)
            logits: torch.Tensor = self.net(floats(x))[:, : len(description["classes"])]
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
