"""A ledger as it is on disk: its lines, verified whenever they have changed, and its releases."""

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import Cost
from fedballot.privacy.ledger.account import Account, Version
from fedballot.privacy.ledger.chain import Chain
from fedballot.privacy.ledger.lines import broken
from fedballot.privacy.ledger.releases import Arrays, Releases
from fedballot.privacy.ledger.spending import Spending

FILE, FOLDER = "ledger.jsonl", "releases"
NO_FILE: tuple[int, ...] = ()


def file_state(path: Path) -> tuple[int, ...]:
    """Return what differs after every line, which comes as a new file in the place of the old one, and every edit."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class LedgerReader:
    """What can be asked of a ledger without writing to it; see :class:`Ledger`.

    The file is read and verified when something is asked, and again only when it has changed.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.releases = Releases(self.folder / FOLDER)
        self._chain, self._state = Chain(self.path), NO_FILE

    def require(self, account: Account) -> None:
        """Refuse another account than this ledger's.

        Raises
        ------
        SettingsError
            Naming what differs.
        """
        own = asdict(self.account)
        for name, value in asdict(account).items():
            if own[name] != value:
                raise SettingsError(
                    f"{self.path}: {name} is {own[name]!r} in this ledger, not {value!r}. One ledger is "
                    "about one client's use of one population's data; change the budget with set_budget."
                )

    def read(self) -> Chain:
        """Return all lines as they are now, verified.

        Raises
        ------
        DataError
            If the file is torn or edited, or of another format, or a release is there that no line tells of.
        """
        state = file_state(self.path)  # before the lines: what is written in between is read next time
        if state == self._state:
            return self._chain
        names = self.releases.names()  # before the lines, too: another process may charge and release in between
        chain = Chain.verified(self.path, self.path.read_bytes())
        strangers = names - {self.releases.path(request).name for request in chain.requests}
        if strangers:
            missing = f"lines after it are missing, for there is a release {min(strangers)}"
            raise broken(self.path, len(chain.lines), missing)
        self._chain, self._state = chain, state
        return chain

    @property
    def account(self) -> Account:
        """What the ledger is about, with its present budget."""
        return self.read().account

    @property
    def head(self) -> str:
        """Hash of the last line: whoever knows it can tell whether the ledger was cut or rewritten."""
        return self.read().head

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines, verified."""
        return [dict(line) for line in self.read().lines]

    def verify(self) -> int:
        """Check the chain, every stored release and that all charges can be counted; return the number of lines.

        Raises
        ------
        DataError
            Naming the line, file or cost that is wrong.
        """
        chain = self.read()
        for line in chain.lines:
            if line["kind"] == "release":
                self.releases.load(line["request"], line["sha256"])
        _ = chain.costs
        return len(chain.lines)

    def costs(self) -> list[Cost]:
        """Return everything that was charged."""
        return self.read().costs

    def spent(self) -> float:
        """Return the least budget that takes all that was spent, at the delta of :meth:`spending`, or infinity."""
        return self.spending().epsilon()

    def spending(self) -> Spending:
        """Return all that was spent: charges, and what a ledger that is gone may have let out."""
        return self.read().spending

    def unknown(self, heads: Collection[str]) -> list[str]:
        """Return those heads, of all that this ledger has shown, that are neither in its chain nor given up as lost.

        One that is says that lines are missing: an older ledger was put back, or a copy of it was used elsewhere.
        """
        own = self.read().heads
        return [head for head in heads if head not in own]

    def version(self) -> Version | None:
        """Return which version of the data the charges from now on are about, or None: none was registered."""
        return self.read().version

    def digest(self, request: str) -> str | None:
        """Return what a request is bound to, or None: it was never asked."""
        return self.read().digest(request)

    def opened(self, request: str) -> str | None:
        """Return the session in which this client helped to open the sum of a request, or None."""
        return self.read().session(request)

    def stored(self, request: str) -> Arrays | None:
        """Return the release that answers this request already, or None; charges nothing."""
        return self._stored(self.read(), request)

    def _stored(self, chain: Chain, request: str) -> Arrays | None:
        sha256 = chain.sha256(request)
        return None if sha256 is None else self.releases.load(request, sha256)
