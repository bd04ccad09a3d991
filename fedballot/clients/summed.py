"""What parties do whose ballots are integers that the server only needs the sum of: in the clear, or under masks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from flwr.common import Scalar

from fedballot import secagg
from fedballot.clients.base import Arrays, PartyClient, Refusal
from fedballot.errors import SettingsError
from fedballot.files import read_json, write_json
from fedballot.secagg import Form, Plan
from fedballot.settings import CommonSettings, setting
from fedballot.wire import pack_integers


@dataclass(frozen=True)
class SummedSettings(CommonSettings):
    """Settings of every method whose ballots are added up; ``min_agents`` is the fewest whose sum may be opened."""

    secure_aggregation: bool = setting(
        False, "add ballots up under masks, so that the server sees the sum only; `fedballot submit` sets it"
    )
    colluders: int = setting(0, "agents that may pool what they know with the server: noise, shares of keys", low=0)
    mask_neighbours: int = setting(
        0, "agents with which each one shares masks, an even number; 0: as few as are safe", low=0
    )
    share_threshold: int = setting(0, "shares that open an agent's mask; 0: as few as are safe", low=0)

    def check(self) -> None:
        super().check()
        if self.colluders >= self.required_agents:
            raise SettingsError(
                f"colluders={self.colluders} leaves no honest agent among the {self.required_agents} that must answer"
            )
        if self.secure_aggregation:
            _ = self.plan

    @property
    def plan(self) -> Plan:
        """Who must be there and who holds shares."""
        return secagg.plan(
            self.agents, self.required_agents, self.colluders, self.mask_neighbours, self.share_threshold
        )


@dataclass(frozen=True)
class FileMark:
    """Which requests' sums this party has helped to open, and in which session: a JSON file."""

    path: Path

    def _known(self) -> dict[str, str]:
        return dict(read_json(self.path)) if self.path.exists() else {}

    def opened(self, request: str) -> str | None:
        return self._known().get(request)

    def open(self, request: str, session: str) -> None:
        write_json(self.path, {**self._known(), request: session})


S = TypeVar("S", bound=SummedSettings)


class SummedClient(PartyClient[S], Generic[S]):
    """A party whose ballot is an array of integers.

    A method says what form it has (:meth:`form`) and what it is (:meth:`integers`); what can be done before anything
    is charged, such as training, goes into :meth:`prepare`, so that a party that fails does so at the first exchange.
    """

    @abstractmethod
    def form(self) -> Form:
        """Shape and largest magnitude of the ballot."""

    @abstractmethod
    def integers(self, arrays: Arrays, config: dict[str, Scalar]) -> npt.NDArray[np.integer]:
        """The ballot: charged before it is made, and the same for the same request."""

    def prepare(self, arrays: Arrays, config: dict[str, Scalar]) -> None:
        """Check the request and do the work that may fail."""

    def plain(self, ballot: npt.NDArray[np.integer]) -> Arrays:
        """The ballot as arrays, where it is sent in the clear."""
        return [pack_integers(ballot)]

    def tells_of_data(self, config: dict[str, Scalar]) -> bool:
        """Keys, and shares of masks, are made from none."""
        return not self.party.settings.secure_aggregation or config.get("stage") == secagg.MASKED

    def answer(self, arrays: Arrays, config: dict[str, Scalar]) -> Arrays:
        """The ballot, or this party's part in one exchange of secure aggregation."""
        settings, stage = self.party.settings, config.get("stage")
        if not settings.secure_aggregation:
            if stage is not None:
                raise Refusal("stage", "a message of secure aggregation, which the settings do not ask for")
            return self.plain(self.integers(arrays, config))
        if stage not in secagg.STAGES:
            raise Refusal("stage", "the settings ask for secure aggregation: no ballot leaves without masks")
        if stage == secagg.KEYS:
            self.prepare(arrays, config)
        folder = self.party.folder.path / "secagg"
        mark = FileMark(folder / "opened.json")
        holder = secagg.Holder(
            settings.plan, self.party.agent, folder, str(config["request"]), str(config.get("session")), mark
        )
        try:
            return holder.answer(str(stage), arrays, self.form(), lambda kept: self.integers(kept, config))
        except secagg.SecaggError as error:
            raise Refusal(error.reason, str(error)) from error
