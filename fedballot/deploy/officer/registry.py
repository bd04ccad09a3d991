"""A guarantee as a draft entry of OpenDP's registry of deployments, in YAML.

Field names and enumerations are those of ``schemas/deployments-schema.yaml`` in ``opendp/deployments-registry-data``
as of July 2026 (commit 3e9c812); the schema itself is not part of fedballot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FILE = "deployment.yaml"
BLANK = "TO BE FILLED IN"

_MODELS = {
    "self": "Clients add their own noise; whoever collects their answers need not be trusted.",
    "trusted aggregator": "The server adds up the clients’ answers, and must be trusted to show only the sum.",
    "secure aggregation": "The clients’ answers are added under encryption; the server sees only the sum.",
}


@dataclass(frozen=True)
class About:
    """What an entry says beside the guarantee.

    Attributes
    ----------
    name, description : of the data product.
    kind : one of the schema's ``data_product_type``.
    date : YYYY-MM-DD.
    curators, purpose, region : who publishes it, what for, whose data or law; empty: to be filled in.
    mechanisms : how noise is made, and by which version.
    access, releases : of the schema's ``access_type`` and ``release_type``.
    notes : what a reader must know.
    """

    name: str
    description: str
    kind: str
    date: str
    mechanisms: str
    curators: Sequence[str] = ()
    purpose: str = ""
    region: str = ""
    access: str = "Non-interactive"
    releases: str = "One release"
    notes: str = ""


def entry(guarantee: Mapping[str, Any], about: About) -> dict[str, Any]:
    """The entry of a guarantee that holds, as a result holds it: a draft, since people must fill in the rest."""
    curators = list(about.curators) or [BLANK]
    details = [str(guarantee["sentence"]), *(guarantee.get("warnings") or ())]
    trust = str(guarantee["trust"])
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", about.name.lower()).strip("_") or "fedballot",
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": about.name,
                "data_curators": curators,
                "intended_use": about.purpose or BLANK,
                "data_product_type": about.kind,
                "data_product_region": about.region or BLANK,
                "description": about.description,
                "publication_date": about.date,
            },
            "dp_variant": {"variant_name": "Approximate DP" if guarantee["delta"] else "Pure DP"},
            "privacy_loss": {
                "privacy_unit": str(guarantee["unit"]),
                "privacy_unit_details": f"{guarantee['adjacency']}: two worlds that differ in one {guarantee['unit']}.",
                "privacy_parameters": {"epsilon": guarantee["epsilon"], "delta": guarantee["delta"]},
                "privacy_parameters_details": " ".join(details),
            },
            "deployment_model": {
                "model_name": "Federated",
                "model_name_details": next((words for kind, words in _MODELS.items() if trust.startswith(kind)), trust),
                "actors": f"The adversary sees: {guarantee['view']}. A client must trust: {trust}.",
                "release_type": about.releases,
                "data_source_type": "Static",
                "access_type": about.access,
            },
            "accounting": {
                "composition": f"{guarantee.get('composition') or 'one release'}, by {guarantee.get('accountant')}. "
                f"Status: {guarantee['status']}.",
            },
            "implementation": {"mechanisms": f"{guarantee['mechanism']}. {about.mechanisms}"},
            "administrative": {"notes": about.notes, "registry_authors": curators},
        },
    }


def to_yaml(value: Mapping[str, Any], indent: int = 0) -> str:
    """Nested mappings and lists of texts and numbers as YAML; texts are in double quotes, on one line."""
    lines = []
    for key, one in value.items():
        start = f"{' ' * indent}{key}:"
        if isinstance(one, Mapping):
            lines.append(f"{start}\n{to_yaml(one, indent + 2)}")
        elif isinstance(one, list):
            lines += [start, *(f"{' ' * indent}  - {_scalar(each)}" for each in one)]
        else:
            lines.append(f"{start} {_scalar(one)}")
    return "\n".join(lines)


def _scalar(value: str | float) -> str:
    if isinstance(value, str):
        return json.dumps(" ".join(value.split()), ensure_ascii=False)
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text  # YAML 1.1 takes 1e-05 for a text
