"""What clients do whose ballots are integers that the server only needs the sum of: in the clear, or under masks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, BallotClient, Release, refusals, request_name
from fedballot.clients.workspace import Refusal
from fedballot.settings.summed import SummedSettings
from fedballot.wire import secagg
from fedballot.wire.codec import Integers
from fedballot.wire.messages import Config
from fedballot.wire.secagg import Form

S = TypeVar("S", bound=SummedSettings)


class SummedClient(BallotClient[S], Generic[S]):
    """A client whose ballot is an array of integers: the one part of its release, at a cost that no question changes.

    Under masks a request has five exchanges. In the first it is bound to its digest, and refused if rules or budget do
    not allow it; keys and shares are made from no data. The third charges it, and only then looks at records.
    """

    @abstractmethod
    def form(self) -> Form:
        """Shape and largest magnitude of the ballot."""

    def ballot(self, release: Release) -> npt.NDArray[np.integer]:
        """The integers in a release."""
        (integers,) = release.values()
        return integers

    def pack(self, question: Any, release: Release) -> Arrays:
        """The ballot as it is sent in the clear."""
        return Integers(self.form().shape).pack(self.ballot(release))

    def tells_of_data(self, config: Config) -> bool:
        """Keys, and shares of masks, are made from none."""
        return not self.workspace.settings.secure_aggregation or config.get("stage") == secagg.MASKED

    def answer(self, arrays: Arrays, config: Config) -> Arrays:
        """The ballot, or this client's part in one exchange of secure aggregation."""
        settings, stage = self.workspace.settings, config.get("stage")
        if not settings.secure_aggregation:
            if stage is not None:
                raise Refusal("stage", "a message of secure aggregation, which the settings do not ask for")
            return super().answer(arrays, config)
        if stage not in secagg.STAGES:
            raise Refusal("stage", "the settings ask for secure aggregation: no ballot leaves without masks")
        request = request_name(config)
        if stage == secagg.KEYS:
            self._admit(arrays, config)
        ledger = self.workspace.open_ledger(self.composition(None))
        known = ledger.digest(request)
        if known is None or known.partition(".")[0] != self.settings_digest(config):
            raise Refusal("request", "an exchange about a request that this client was not asked in these words")

        def integers(kept: Arrays) -> npt.NDArray[np.integer]:
            question = self.question(kept, config)
            return self.ballot(self.release(question, self.asked(kept, config)))

        folder = self.workspace.folder.path / "secagg"
        holder = secagg.Holder(
            settings.plan, self.workspace.client_id, folder, request, str(config.get("session")), ledger
        )
        try:
            return holder.answer(str(stage), arrays, self.form(), integers)
        except secagg.SecaggError as error:
            raise Refusal(error.reason, str(error)) from error

    def _admit(self, arrays: Arrays, config: Config) -> None:
        """Refuse at the first exchange what the third would refuse, and bind the request to its digest."""
        question, asked = self.question(arrays, config), self.asked(arrays, config)
        composition = self.composition(question)
        ledger = self.workspace.open_ledger(composition)
        self.refuse_uncharged(composition.uncharged)
        unit = ledger.account.unit
        with refusals():
            ledger.check(asked.name, composition.costs(unit, self.workspace.counted(unit)), asked.digest)
            ledger.bind(asked.name, asked.digest)
