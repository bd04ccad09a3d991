"""What leaks, measured: attacks on a method's own client and server."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedballot.api.experiment import resolve
from fedballot.api.objects import as_settings
from fedballot.api.watch import listener
from fedballot.core.errors import SettingsError
from fedballot.core.files import check_writable, read_json, write_json
from fedballot.core.numbers import is_whole
from fedballot.core.progress import Progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedballot.studies.attacks.membership import Leak
    from fedballot.studies.attacks.poisoning import Poisoned
    from fedballot.studies.attacks.shares import Shares

Adversary = Literal["membership", "active-server", "property", "active-client"]
ADVERSARIES = ("membership", "active-server", "property", "active-client")
VIEWS = ("server", "output")
RUNS = 128
FEDERATIONS = 5  # runs with malicious clients, each of which plays all numbers of them


@dataclass(frozen=True)
class Attack:
    """What an attack found.

    Attributes
    ----------
    folder : Path
        With ``attack.json``, ``attack.html`` and a picture: of membership ``roc.png``, of malicious clients
        ``poison.png``.
    leaks : tuple of Leak
        Membership: one for each size of the client that was attacked.
    shares : tuple of Shares
        Property: the same, of the shares of its classes.
    poisoned : Poisoned or None
        What malicious clients reached.
    """

    folder: Path
    leaks: tuple[Leak, ...] = ()
    shares: tuple[Shares, ...] = ()
    poisoned: Poisoned | None = None

    @property
    def epsilon(self) -> float:
        """The largest ε that membership inference showed, each at 95 % confidence."""
        return max((leak.epsilon for leak in self.leaks), default=0.0)

    @property
    def contradicted(self) -> bool:
        """Whether more was shown than is proved."""
        return any(leak.contradicted for leak in self.leaks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        told = {"leaks": [one.to_dict() for one in self.leaks], "shares": [one.to_dict() for one in self.shares]}
        return told if self.poisoned is None else {**told, "poisoned": self.poisoned.to_dict()}

    def to_frame(self) -> pd.DataFrame:
        """A row for each attack and size; of malicious clients, one for each number, aim and kind of message."""
        import pandas as pd

        if self.poisoned is not None:
            from fedballot.report.poison_page import frame_row

            return pd.DataFrame([frame_row(self.poisoned, cell) for cell in self.poisoned.cells])
        plain = [one.to_dict() for one in self.shares]
        rows: list[dict[str, Any]] = [{**one, "largest": one["largest"]["value"]} for one in plain]
        for leak in self.leaks:
            for score in leak.scores:
                known = {"method": leak.method, "records": leak.size, "rounds": leak.rounds, "attack": score.attack}
                area = {"auc": score.auc, "auc_error": score.auc_error}
                found = {f"tpr_at_{rate.at:g}": rate.value for rate in score.rates}
                rows.append({**known, **area, **found, "epsilon": score.epsilon})
        return pd.DataFrame(rows)

    def figure(self) -> Figure | None:
        """Of membership, the curves of the first size; of malicious clients, what they reached."""
        if self.poisoned is not None:
            from fedballot.report.poison_page import poison_figure

            return poison_figure(self.poisoned, white=True)
        from fedballot.report.attack_plot import roc_figure

        return roc_figure(self.leaks[0]) if self.leaks else None

    def _repr_html_(self) -> str:
        from fedballot.report.shown import shown

        found = self.poisoned or (self.leaks or self.shares)[0]
        return shown(f"Attack on {found.method}", self.to_frame(), self.figure(), [])


def attack(
    method: str,
    *,
    out: str | Path | None = None,
    adversary: Adversary = "membership",
    view: Literal["server", "output"] = "server",
    records: int | Sequence[int] = 0,
    client: int = 0,
    poisoned: float = 0.3,
    runs: int | None = None,
    quick: bool = False,
    preset: str | None = None,
    config: str | Path | None = None,
    progress: bool | Progress = True,
    **settings: Any,
) -> Attack:
    """Measure what an adversary tells of a client's records, or how far malicious clients move what is learned.

    Parameters
    ----------
    method : str
        A name from ``fedballot methods``, or ``package.module:METHOD``.
    out : path, optional
        A folder; by default ``attacks/METHOD-TIME``. Runs that are in it count, so that an attack that was stopped goes
        on, and more ``runs`` add to those that are there.
    adversary : {"membership", "active-server", "property", "active-client"}
        Who infers membership; ``active-server`` plants the records in question in the public pool; ``property`` infers
        the shares of the client's classes instead; ``active-client``: clients that send what harms.
    view : {"server", "output"}
        All answers of one client, or what the server makes of all clients' answers.
    records : int or sequence of int
        Records of the client that is attacked; several: one attack each; 0: as many as in the experiment.
    client : int
        Which client.
    poisoned : float
        Of ``active-client``: the largest share of clients that are malicious.
    runs : int, optional
        Even, at least 8, by default 128; half of them are shadow runs for the others. Of ``active-client``: at least 2,
        by default 5, each a federation of its own.
    quick : bool
        As many runs as fit into about two minutes.
    **settings
        As for `run`.

    Raises
    ------
    SettingsError
        If a setting cannot work, or there is nothing to attack.

    Examples
    --------
    >>> import fedballot as fb  # doctest: +SKIP
    >>> found = fb.attack("fedkd", dataset="digits", clients=5, quick=True)  # doctest: +SKIP
    >>> found.epsilon, found.to_frame()  # doctest: +SKIP
    """
    from fedballot.methods.registry import get_method
    from fedballot.studies.attacks.membership import Asked, Leak, attack_members
    from fedballot.studies.attacks.poisoning import Infiltration, attack_poison
    from fedballot.studies.attacks.shares import Shares, attack_shares

    for name, value, allowed in (("adversary", adversary, ADVERSARIES), ("view", view, VIEWS)):
        if value not in allowed:
            raise SettingsError(f"{name}={value!r}: allowed are {', '.join(allowed)}")
    sizes = [records] if isinstance(records, int) else list(records)
    if not sizes or not all(is_whole(size) and size >= 0 for size in sizes):
        raise SettingsError(f"records={records!r}: give numbers of records, or 0 for those of the experiment")
    for number, given in (("client", client), ("runs", runs)):
        if not (is_whole(given) or (number == "runs" and given is None)):
            raise SettingsError(f"{number}={given!r}: give a whole number")
    inside = adversary == "active-client"
    if inside and (view, sizes, client) != ("server", [0], 0):
        raise SettingsError("view, records and client are of one client that is attacked: leave them out here")
    count = runs if runs is not None else FEDERATIONS if inside else RUNS
    chosen = resolve(method, as_settings(settings), preset, None if config is None else Path(config))
    folder = new_folder(method) if out is None else Path(out)
    check_writable(folder)
    if folder.is_dir() and any(folder.iterdir()) and not any(folder.glob("*/asked.json")):
        raise SettingsError(f"--out {folder}: exists and holds no attack; name a new folder")
    told, found, known = listener(progress), list[Leak | Shares](), get_method(method)
    done = Attack(folder)
    try:
        if adversary == "active-client":
            asked, place = Infiltration(poisoned), folder / "played"
            reached = attack_poison(known, chosen, asked, place, told, runs=count, quick=quick)
            done = Attack(folder, poisoned=reached)
        else:
            attacked = attack_shares if adversary == "property" else attack_members
            for size in sizes:
                place = folder / (f"records-{size}" if len(sizes) > 1 else "played")
                one = Asked(adversary, view, size, client)
                found.append(attacked(known, chosen, one, place, told, runs=count, quick=quick))
            leaks = tuple(one for one in found if isinstance(one, Leak))
            done = Attack(folder, leaks, tuple(one for one in found if isinstance(one, Shares)))
    finally:
        told.stop()
    words = ["fedballot attack", method, *(["--preset", preset] if preset else [])]
    words += ["--config", str(config)] if config else []
    words += [f"--set {shlex.quote(f'{key}={plain(value)}')}" for key, value in settings.items()]
    words += [f"--adversary {adversary}"]
    if inside:
        words += [f"--poisoned {poisoned:g}"]
    else:
        words += [f"--view {view}", f"--client {client}", f"--records {','.join(map(str, sizes))}"]
    words += [f"--runs {count}", *(["--quick"] if quick else [])]
    write(done, " ".join([*words, "--out", shlex.quote(str(folder))]))
    return done


def write(done: Attack, command: str) -> None:
    """Write ``attack.json``, the page and the picture."""
    from fedballot.report.attack_page import attack_page, shares_page
    from fedballot.report.canvas import write_picture
    from fedballot.report.poison_page import poison_page
    from fedballot.report.study import write_study

    write_json(done.folder / "attack.json", {"command": command, **done.to_dict()})
    if (figure := done.figure()) is not None:
        write_picture(figure, done.folder / ("roc.png" if done.leaks else "poison.png"))
    if done.poisoned is not None:
        page = poison_page(done.poisoned, command)
    else:
        page = attack_page(done.leaks, command) if done.leaks else shares_page(done.shares, command)
    write_study(page, done.folder / "attack.html")


def load_attack(folder: str | Path) -> Attack:
    """An attack from its folder."""
    from fedballot.studies.attacks.membership import leak_of
    from fedballot.studies.attacks.poisoning import poisoned_of
    from fedballot.studies.attacks.shares import shares_of

    plain = read_json(Path(folder) / "attack.json")
    shares = tuple(map(shares_of, plain.get("shares", ())))
    reached = poisoned_of(plain["poisoned"]) if "poisoned" in plain else None
    return Attack(Path(folder), tuple(map(leak_of, plain["leaks"])), shares, reached)


def new_folder(method: str) -> Path:
    """Where an attack goes that was given no folder."""
    name = "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in method)
    return Path("attacks") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def plain(value: Any) -> Any:
    """A setting as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value
