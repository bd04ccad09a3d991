"""What a site refuses whatever its data are: requests beyond its file's rules, and releases beyond its budget."""

from __future__ import annotations

import math

from fedballot.clients.base import Refusal
from fedballot.datasets.own import SITES
from fedballot.deploy.site_file import Site
from fedballot.methods import Method
from fedballot.settings import CommonSettings


def check_request(site: Site, method: Method, settings: CommonSettings) -> None:
    """Refuse what the site's file does not allow, before any data are read.

    Raises
    ------
    Refusal
        With reason ``policy`` and a sentence that names the rule; it holds nothing of the site's data.
    """
    allowed, queries = site.allowed, getattr(settings, "query_count", settings.public_size)
    rules = (
        (
            method.name in allowed.methods,
            f"method {method.name!r} is not allowed here; allowed are {', '.join(allowed.methods)}",
        ),
        (settings.dataset == SITES, f"dataset={settings.dataset!r}: this site answers with its own records only"),
        (settings.agents == site.sites, f"agents={settings.agents}, but this site joined a federation of {site.sites}"),
        (queries <= allowed.queries, f"{queries} queries are more than the {allowed.queries} that this site allows"),
        (getattr(settings, "noise_seed", None) is None, "noise_seed is set: seeded noise protects nobody"),
        (
            not allowed.secure_aggregation or getattr(settings, "secure_aggregation", True),
            "secure_aggregation=false: this site's ballots, where only their sum is needed, leave under masks only",
        ),
        (not math.isinf(getattr(settings, "epsilon", 0.0)), "epsilon=inf: this site releases nothing without noise"),
    )
    for holds, words in rules:
        if not holds:
            raise Refusal("policy", words)
