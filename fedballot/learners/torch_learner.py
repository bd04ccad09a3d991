"""Torch learners: networks that live on one device with their data, without a DataLoader."""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedballot.core import meeting
from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.learners import checks, cohort, latent, nets, plans, shared_weights, storage, torch_files, training
from fedballot.learners.base import Combine, Loss, Progress
from fedballot.learners.checks import FloatArray, Inputs, IntArray
from fedballot.learners.objectives import Objective, Records, name_of
from fedballot.learners.options import LearnerOptions
from fedballot.learners.tensors import Tensors, floats, take
from fedballot.learners.terms import Model

_PREDICT_BATCH = {"cpu": 256, "cuda": 4096}  # on CPU twice as fast as 1024: activations stay in the cache
_LABEL_SHARE = 0.3


class TorchLearner:
    """A torch network behind the Learner protocol. Build it with ``registry.make_learner``.

    ``factory`` makes the network of another package, see ``nets.foreign``; without one, ``name`` is one of ours. One
    with an attribute ``mixup_alpha`` learns classes from records that are mixed in pairs, see ``training.mixed``; one
    with ``predict_batch`` is asked about so many records at once.
    """

    warm_start = True

    def __init__(self, name: str, options: LearnerOptions, factory: Callable[..., object] | None = None) -> None:
        self.name, self.options = name, options
        self.n_classes, self.input_shape = n_classes, input_shape = options.n_classes, options.input_shape
        self._student = options.role == "student"
        self._tensors = Tensors(input_shape, options.device, elastic=self._student, augment=options.augment)
        self.device = self._tensors.device
        self._build = nets.foreign(name, factory, input_shape) if factory else nets.builder(name, input_shape)
        self._mixup_alpha, self._predict_batch = 0.0, _PREDICT_BATCH[self.device.type]
        if factory:
            with training.seeded(options.seed, self.device):  # foreign code: fail before the run, not in it
                tried = nets.check_answers(name, self._build(n_classes), input_shape, n_classes)
            self._mixup_alpha = float(getattr(tried, "mixup_alpha", 0.0))
            self._predict_batch = int(getattr(tried, "predict_batch", self._predict_batch))
        self._net: nn.Module | None = None
        self._outputs = n_classes
        self._fits = 0

    def fit(
        self,
        x: Inputs,
        y: IntArray,
        *,
        objective: Objective | None = None,
        epochs: int | None = None,
    ) -> Self:
        """See ``Learner.fit``."""
        checks.check_inputs(x, self.input_shape)
        if y.ndim == 2:
            checks.check_multi_labels(y, len(x), self.n_classes)
            if objective is not None:
                raise SettingsError(f"a learner of several labels takes no objective, so not {name_of(objective)}")
            every = plans.always(self._tensors.tensor(y.astype(np.float32)))
            return self._train(self._tensors.data(x), every, self.n_classes, epochs=epochs, loss="binary")
        checks.check_labels(y, len(x), self.n_classes)
        parts = [Records(x, y), *(objective.records(self.n_classes) if objective else ())]
        for part in parts[1:]:
            checks.check_inputs(part.x, self.input_shape, what="an objective's x")
            checks.check_labels(part.y, len(part.x), self.n_classes + 1, what="an objective's y")
        outputs = max(self.n_classes, *(int(part.y.max()) + 1 for part in parts))
        targets = torch.cat(
            [F.one_hot(self._tensors.tensor(part.y.astype(np.int64)), outputs).float() * part.weight for part in parts]
        )
        sizes = [len(part.x) for part in parts]
        pools = tuple((sum(sizes[:place]), sizes[place]) for place in range(1, len(parts)))
        data = torch.cat([self._tensors.data(part.x) for part in parts])
        mixture = plans.Mixture(targets, len(x), pools)
        return self._train(data, mixture, outputs, epochs=epochs, objective=objective)

    def distill(
        self,
        x: Inputs,
        targets: FloatArray,
        *,
        weights: FloatArray | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        loss: Loss = "cross-entropy",
        temperature: float = 1.0,
        progress: Progress | None = None,
    ) -> Self:
        """See ``Learner.distill``."""
        checks.check_inputs(x, self.input_shape)
        if loss == "cross-entropy":
            weighted = checks.check_targets(targets, len(x), self.n_classes, weights)
            soft = (weighted if weights is None else weighted / weights.mean()).astype(np.float32)
        elif weights is not None:
            raise SettingsError(f"weights go with the loss cross-entropy only, not with {loss}")
        else:
            check = checks.check_probabilities if loss == "binary" else checks.check_logits
            check(targets, len(x), self.n_classes)
            soft = targets.astype(np.float32)
        return self._train(
            self._tensors.data(x),
            plans.always(self._tensors.tensor(soft)),
            self.n_classes,
            epochs=epochs,
            batch_size=batch_size,
            loss=loss,
            temperature=temperature,
            progress=progress,
        )

    def semi_supervise(
        self,
        x: Inputs,
        labels: IntArray,
        confidence: FloatArray | None,
        *,
        self_train: bool,
        prior: FloatArray | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """See ``Learner.semi_supervise``.

        The pseudo-labels are those of the averaged network, once an epoch over the whole pool, aligned to the
        prior or to even classes (Berthelot et al. 2020, "ReMixMatch") and kept where they reach .8
        (Sohn et al. 2020, "FixMatch"). The given labels stay in with weight .3.
        """
        checks.check_inputs(x, self.input_shape)
        checks.check_labels(labels, len(x), self.n_classes, what="labels")
        confident = self._tensors.tensor(checks.most_confident(confidence, len(x)))
        data = self._tensors.data(x)
        one_hot = F.one_hot(self._tensors.tensor(labels.astype(np.int64)), self.n_classes).float() * confident[:, None]
        shares = None if prior is None else self._tensors.tensor(prior)
        warm_up = self.options.epochs // 3 if self_train else self.options.epochs

        def plan(epoch: int, best: nn.Module) -> plans.Epoch:
            targets = one_hot
            if epoch >= warm_up:
                targets = _LABEL_SHARE * one_hot + training.pseudo_labels(self._logits(best, data), shares)
            rows = torch.nonzero(targets.sum(1)).squeeze(1)
            return plans.Epoch(rows, targets[rows])

        return self._train(data, plan, self.n_classes, progress=progress)

    def predict_logits(self, x: Inputs) -> FloatArray:
        """See ``Learner.predict_logits``."""
        checks.check_inputs(x, self.input_shape)
        logits = self._logits(self._trained(), self._tensors.data(x))
        return logits.cpu().numpy()

    def features(self, x: Inputs) -> FloatArray:
        """Inputs of the last linear layer (n, d), scaled to L2 norm 1; the logits if there is none."""
        checks.check_inputs(x, self.input_shape)
        net = self._trained()
        return F.normalize(latent.seen_by_head(net, lambda: self._logits(net, self._tensors.data(x)))).cpu().numpy()

    def sgd_steps(self, x: Inputs, y: IntArray, batches: Iterable[IntArray], combine: Combine) -> Self:
        """See ``Learner.sgd_steps``."""
        checks.check_inputs(x, self.input_shape)
        checks.check_labels(y, len(x), self.n_classes)
        net, data, labels = self._shareable(), self._tensors.data(x), self._tensors.tensor(y.astype(np.int64))
        shared_weights.check_each_alone(self.name, net, tuple(data.shape[1:]), self.device)
        training.sgd_steps(net, floats, data, labels, map(self._tensors.tensor, batches), combine, lr=self.options.lr)
        self._fits += 1
        return self

    def get_weights(self) -> list[FloatArray]:
        """See ``Learner.get_weights``."""
        return shared_weights.weights_of(self._shareable())

    def set_weights(self, weights: list[FloatArray]) -> Self:
        """See ``Learner.set_weights``."""
        shared_weights.put_weights(self.name, self._shareable(), weights)
        return self

    def head(self) -> tuple[FloatArray, FloatArray]:
        """See ``Learner.head``."""
        layer = self._last_linear(self._shareable())
        bias = layer.bias if layer.bias is not None else torch.zeros(layer.out_features)
        return layer.weight.detach().cpu().numpy().copy(), bias.detach().cpu().numpy().copy()

    def save(self, path: Path) -> None:
        """Write safetensors. See ``Learner.save``."""
        metadata = self._identity() | {"outputs": str(self._outputs), "fits": str(self._fits)}
        torch_files.write(path, self._trained(), metadata)

    def load(self, path: Path) -> Self:
        """Read safetensors. See ``Learner.load``."""
        state, metadata = torch_files.read(path)
        storage.check_owner(path, metadata, self._identity())
        try:
            self._outputs, self._fits = int(metadata["outputs"]), int(metadata["fits"])
            with training.seeded(0, self.device):
                net = self._build(self._outputs)
            net.load_state_dict(state)
        except (KeyError, ValueError, RuntimeError) as error:
            raise DataError(f"{path}: does not fit the network {self.name!r}: {error}") from error
        self._net = net.to(self.device).eval()
        return self

    def _identity(self) -> dict[str, str]:
        shape = "x".join(str(size) for size in self.input_shape)
        return {"format": "fedballot-torch-1", "learner": self.name, "classes": str(self.n_classes), "inputs": shape}

    def _shareable(self) -> nn.Module:
        """The network, built if there is none yet; refused where its parameters are not all of its state."""
        if self._net is None:
            with training.seeded(self._stream(), self.device):
                self._net = self._build(self._outputs).to(self.device).eval()
        shared_weights.check_shareable(self.name, self._net)
        return self._net

    def _last_linear(self, net: nn.Module) -> nn.Linear:
        try:
            return latent.last_linear(net, self._tensors.blank())
        except SettingsError as error:
            raise SettingsError(f"learner {self.name!r} has no last layer to generate for: {error}") from error

    def _stream(self) -> int:
        """Seed of the next fit: each has a stream of its own, also after a save and a load."""
        digest = hashlib.sha256(f"{self.options.seed}/{self._fits}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def _untrained(self, outputs: int) -> nn.Module:
        """What training starts from."""
        return self._build(outputs).to(self.device) if self._net is None or outputs != self._outputs else self._net

    def _train(
        self,
        data: Tensor,
        plan: plans.Mixture | plans.Plan,
        outputs: int,
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        loss: Loss = "cross-entropy",
        temperature: float = 1.0,
        objective: Objective | None = None,
        progress: Progress | None = None,
    ) -> Self:
        schedule = plans.Schedule(
            self.options.epochs if epochs is None else epochs,
            self.options.batch_size if batch_size is None else batch_size,
            self.options.lr,
            temperature,
            0.0 if objective or loss != "cross-entropy" else self._mixup_alpha,
            self.options.optimizer,
        )
        together = None
        alone = self._student or self._mixup_alpha or (objective and objective.needs_gradients)
        alike = loss == "cross-entropy" and not alone
        if alike and isinstance(plan, plans.Mixture) and meeting.held():
            with training.seeded(self._stream(), self.device):
                start = self._untrained(outputs), cohort.random_state(self.device)
            together = cohort.Member(*start, data, plan, self._tensors.augmenter, schedule)
        if together and meeting.join(together, cohort.train) is not None:
            return self._done(together.net, outputs)
        with training.seeded(self._stream(), self.device):
            net = self._untrained(outputs)
            model = Model(net, self._tensors.sampler, partial(self._last_linear, net))
            terms = objective.terms(model) if objective else ()
            net = training.train(
                net,
                lambda rows: self._tensors.augmented(take(data, rows)),
                plan.epoch if isinstance(plan, plans.Mixture) else plan,
                schedule,
                average=self._student,
                loss=loss,
                terms=terms,
                progress=progress,
            )
            for term in terms:
                term.close()
        return self._done(net, outputs)

    def _done(self, net: nn.Module, outputs: int) -> Self:
        self._net, self._outputs = net.eval(), outputs
        if not all(bool(value.isfinite().all()) for value in net.state_dict().values()):
            raise RunError(f"training of {self.name!r} diverged with lr = {self.options.lr:g}; use a smaller one")
        self._fits += 1
        return self

    def _logits(self, net: nn.Module, data: Tensor) -> Tensor:
        net.eval()
        with torch.inference_mode():
            parts = [net(floats(part)) for part in torch.split(data, self._predict_batch)]
            return torch.cat(parts) if parts else torch.zeros(0, self._outputs, device=self.device)

    def _trained(self) -> nn.Module:
        if self._net is None:
            raise RunError(f"learner {self.name!r} has not been trained: call fit, distill, semi_supervise or load")
        return self._net
