"""A client whose models learn from public features in place of records."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from fedballot.clients.workspace import Workspace
from fedballot.datasets.examples import Examples
from fedballot.learners.seen import seen_through
from fedballot.settings.parts import ClientFeatures, CommonSettings

S = TypeVar("S", bound=CommonSettings)


def featured(workspace: Workspace[S]) -> Workspace[S]:
    """The workspace in which records are features of ``client_features``; the same where the settings name none.

    No step of an extractor has seen private records, so a record's features depend on that record and public data
    only.
    """
    settings = workspace.settings
    if not isinstance(settings, ClientFeatures) or not settings.client_features:
        return workspace
    extractor, data = seen_through(settings.client_features, workspace.data, settings.components, workspace.device)

    def read() -> Examples:
        own = workspace.private()
        return replace(own, x=extractor.total(own.x))

    return replace(workspace, data=data, read=read)
