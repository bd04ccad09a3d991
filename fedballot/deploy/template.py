"""A site's new folder: its key pair, and a ``site.toml`` that says what is still to be filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from fedballot.core.errors import SettingsError
from fedballot.deploy.pki import make_site_key

TEMPLATE = """\
# One site of a federation. Paths are relative to this file's folder.
number = {number}                      # this site's number; every site has another one, from 0
sites = {sites}                       # sites of the federation; a request that says otherwise is refused
server = "{server}"
model = "random-forest"         # what this site trains: any learner, such as "xgboost(max_depth=4)"
key = "site.key"                # private; its other half, site.key.pub, goes to the server
ca = "ca.crt"                   # from the server: whose certificates this site trusts
state = "state"                 # trained models, the site's own

[data]
population = "site {number}"           # whose records these are; name them: the ledger is about these people
private = "records.csv"         # a table, .npz or an image folder; never leaves this machine
public = "public.npz"           # the agreed public source, the same at every site and at the server
public_fingerprint = "sha256:"  # of that source, as `fedballot data public.npz` prints it at the server
# schema = "schema.toml"        # from the server, where it has one: columns, classes and their order, units, ranges
# id = "patient_id"             # column (.csv, .parquet) or key (.npz) that says whose record each is; never a feature
# image_reader = "my_scans:middle_slice"  # a function of yours that makes an image of each file, see docs/data.md
# encoder = "minilm"            # frozen encoder of the federation, installed here: see docs/encoders.md
# records_per_person = 3        # most of one person's records that are used; both are needed for unit = "person"

[budget]
ledger = "ledger"               # what was spent, and every release; back it up, never delete it
unit = "client"                 # whom epsilon protects: "client", all data of this site at once, "record" or "person"
epsilon = 10.0                  # all that this site will ever spend on these data
delta = 1e-3
accountant = "exact"            # how costs add up: "exact" knows Gaussian noise only, "rdp" also other kinds

[allowed]                       # what the server may ask for; all else is refused
methods = ["pate-fl"]           # add "poll" to say first, at a small epsilon, whether the public data fit
# feature extractors that may run here; "package.module:factory" is imported only if it is listed, and weights that the
# server sends are used only with their digest: "simclr-resnet8@sha256:..." (the refusal names it)
extractors = ["auto", "none", "none+standardise", "pca", "pca+l2", "hog", "hog+pca", "hog+pca+l2", "deskew+hog+pca"]
queries = 1000                  # most public records in one request
smallest_epsilon = 0.1          # a release below is mostly noise: not worth a request
largest_epsilon = 5.0           # most that one release may cost
secure_aggregation = true       # what is added up leaves under masks: the server sees the sum, never this site's own
least_clients = {least_clients}                # fewest sites in a sum: `min_clients` of a request must not be below
least_colluders = 0             # sites that may pool what they know with the server: `colluders` must not be below
longest_training_s = 3600.0     # longest work on one request, in seconds
approve = "by-rule"             # "by-hand": what keeps these rules still waits for `fedballot site approve`
unasked_epsilon = 0.0           # with "by-hand": a run that costs no more in all passes without being asked about

# The server sets how this site trains, within limits that `fedballot site check` lists. Yours replace them here:
# numbers as [lowest, highest], words as the list of those accepted.
[allowed.settings]
# epochs = [1, 200]
# lr = [1e-5, 1.0]
# share = ["argmax"]
"""


def init_site(folder: Path, *, number: int, sites: int, server: str) -> Path:
    """Make a site's folder; returns the path of the public key, which the server needs.

    Raises
    ------
    SettingsError
        If there is a site.toml or a key already.
    """
    record = folder / "site.toml"
    if record.exists():
        raise SettingsError(f"{record}: already there; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # the records may be there already
    public_key = make_site_key(folder / "site.key")
    # more than half: what secure aggregation needs in any case
    text = TEMPLATE.format(number=number, sites=sites, server=server, least_clients=sites // 2 + 1)
    record.write_text(text)
    return public_key


def fill_in(record: Path, values: Mapping[str, object]) -> None:
    """Give keys of a site.toml other values, wherever in it they stand.

    Raises
    ------
    SettingsError
        If a key stands there not exactly once.
    """
    text = record.read_text()
    for key, value in values.items():
        text, changed = re.subn(rf"(?m)^{key} = [^#\n]*", f"{key} = {json.dumps(value)} ", text)
        if changed != 1:
            raise SettingsError(f"{record}: {key} stands there {changed} times; expected once")
    record.write_text(text)
