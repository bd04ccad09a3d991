"""The two sides of a method: classes, or texts that are imported when they are first used."""

import dataclasses
import sys

import pytest

from fedballot.clients.base import BallotClient
from fedballot.clients.pate import PateClient
from fedballot.core.errors import SettingsError
from fedballot.methods.registry import all_methods, get_method
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.voting import VotingStrategy

PATE = get_method("pate-fl")


@pytest.mark.parametrize("method", all_methods().values(), ids=lambda method: method.name)
def test_the_sides_of_every_method_are_there(method):
    assert issubclass(method.client_class, BallotClient)
    assert issubclass(method.strategy_class, BallotStrategy)


def test_a_text_and_the_class_that_it_names_are_the_same_side():
    text = dataclasses.replace(PATE, client="fedballot.clients.pate:PateClient")
    assert text.client_class is dataclasses.replace(PATE, client=PateClient).client_class is PateClient
    text = dataclasses.replace(PATE, strategy="fedballot.strategies.voting:VotingStrategy")
    assert text.strategy_class is dataclasses.replace(PATE, strategy=VotingStrategy).strategy_class is VotingStrategy


@pytest.mark.parametrize("side", ["client", "strategy"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fedballot.clients.pat:PateClient", "cannot be imported: there is no module 'fedballot.clients.pat'"),
        ("fedballot.clients.pate:PateClients", "module 'fedballot.clients.pate' has no 'PateClients'; did you mean"),
        ("fedballot.clients.pate", "is no import path"),
        ("fedballot.methods.voting:METHODS", "is of type tuple; expected type"),
        ("fedballot.methods.api:Method", "is no subclass of Ballot"),
    ],
)
def test_a_wrong_text_names_the_method_and_the_text(side, text, words):
    method = dataclasses.replace(PATE, name="mine", **{side: text})  # nothing is imported yet
    with pytest.raises(SettingsError) as error:
        getattr(method, f"{side}_class")
    assert str(error.value).startswith(f"method 'mine': {side} {text!r} ")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("raise RuntimeError('boom')", "METHOD", "cannot be imported: RuntimeError: boom"),
        ("def (", "METHOD", "cannot be imported: SyntaxError"),
        ("METHODS = ()", "METHOD", "module 'their_method' has no 'METHOD'; did you mean 'METHODS'"),
        ("METHOD = 3", "METHOD", "is of type int; expected Method"),
        ("import no_such_library", "METHOD", "it needs 'no_such_library', which is missing"),
    ],
)
def test_a_path_to_no_method_says_why(content, name, words, tmp_path, monkeypatch):
    (tmp_path / "their_method.py").write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_method", raising=False)
    with pytest.raises(SettingsError) as error:
        get_method(f"their_method:{name}")
    sys.modules.pop("their_method", None)
    assert str(error.value).startswith(f"method 'their_method:{name}' ") and words in str(error.value)
