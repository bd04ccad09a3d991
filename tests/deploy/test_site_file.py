from pathlib import Path

import pytest

from fedballot.core.errors import SettingsError
from fedballot.deploy.limits import Limit
from fedballot.deploy.modes import check_modes
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init_site(tmp_path / "site", number=1, sites=3, server="flower.example.org:9092")
    return tmp_path / "site"


def changed(folder: Path, old: str, new: str) -> Path:
    text = (folder / "site.toml").read_text()
    assert old in text
    (folder / "site.toml").write_text(text.replace(old, new))
    return folder / "site.toml"


@pytest.mark.parametrize(
    ("new", "model"),
    [
        ('model = "xgboost( max_depth = 4 )"', "xgboost(max_depth=4)"),
        ('model = { name = "knn" }', "knn"),
        (
            'model = { name = "mlp", parameters = { hidden_layer_sizes = [8, 8], early_stopping = true } }',
            "mlp(hidden_layer_sizes=[8, 8], early_stopping=True)",
        ),
        ('model = { name = "mlp(alpha=0.1)", parameters = { tol = 0.5 } }', "mlp(alpha=0.1, tol=0.5)"),
    ],
)
def test_a_model_has_parameters(folder: Path, new: str, model: str) -> None:
    assert read_site(changed(folder, 'model = "random-forest"', new)).model == model


def test_a_model_may_be_a_table_of_its_own(folder: Path) -> None:
    path = changed(folder, 'model = "random-forest"', "#")
    path.write_text(path.read_text() + '\n[model]\nname = "xgboost"\nparameters = { max_depth = 4, subsample = 0.5 }\n')
    assert read_site(path).model == "xgboost(max_depth=4, subsample=0.5)"


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("model = 3", "model: 3 is no learner; expected a text, or a table"),
        ('model = ""', "model: '' is no learner; expected a text, or a table"),
        ('model = { nme = "knn" }', "expected a text, or a table with name and parameters"),
        ('model = { name = "knn", parameter = { n = 1 } }', "expected a text, or a table with name and parameters"),
        ('model = { name = "knn", parameters = 3 }', "expected a text, or a table with name and parameters"),
        ('model = { name = "knn", parameters = { since = 2020-01-01 } }', "model: learner .* cannot be read"),
        ('model = "knn(3)"', "model: learner 'knn\\(3\\)' cannot be read"),
    ],
)
def test_a_model_that_is_none_is_refused(folder: Path, new: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_site(changed(folder, 'model = "random-forest"', new))


def test_the_template_is_a_whole_file(folder: Path) -> None:
    site = read_site(folder / "site.toml")
    assert (site.number, site.sites, site.server) == (1, 3, "flower.example.org:9092")
    assert site.data.private == folder / "records.csv" and site.key == folder / "site.key"
    assert site.allowed.methods == ("pate-fl",) and site.budget.unit == "client"
    assert (site.allowed.least_clients, site.allowed.least_colluders) == (2, 0)
    assert "auto" in site.allowed.extractors and site.allowed.settings == {}
    check_modes(site)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("number = 1", "number = 3", "number = 3; expected 0 to 2"),
        ("number = 1", "number = true", "number = True; expected a whole number"),
        ("number = 1", "", "key 'number' is missing"),
        ("sites = 3", "sites = 0", "sites = 0"),
        ("flower.example.org:9092", "flower.example.org", "HOST:PORT"),
        ("flower.example.org:9092", "host:99999", "HOST:PORT"),
        ("queries = 1000", "querys = 1000", "did you mean 'queries'"),
        ("queries = 1000", "queries = 0", "allowed.queries = 0"),
        ('["pate-fl"]', '["pate"]', "did you mean 'pate-fl'"),
        ('["pate-fl"]', "[]", "expected a list of texts"),
        ('unit = "client"', 'unit = "persons"', "expected one of record, person, client"),
        ('unit = "client"', 'unit = "person"', "data.id and data.records_per_person, which say whose record"),
        ('population = "site 1"', 'population = ""', "data.population = ''; expected a text"),
        ('population = "site 1"', "", "key 'data.population' is missing"),
        ('# id = "patient_id"', 'id = "patient_id"', "records_per_person = 0; expected at least 1, together with"),
        ("# records_per_person = 3", "records_per_person = 3", "or neither of them"),
        ('# id = "patient_id"', 'id = "label"', "not the label"),
        ("epsilon = 10.0", "epsilon = 0", "budget.epsilon = 0.0; expected more than 0"),
        ("epsilon = 10.0", "epsilon = inf", "expected a finite number"),
        ("delta = 1e-3", "delta = 1", "budget.delta"),
        ("largest_epsilon = 5.0", "largest_epsilon = 0.01", "largest_epsilon"),
        ("least_clients = 2", "least_clients = 0", "allowed.least_clients = 0; expected 1 to sites = 3"),
        ("least_clients = 2", "least_clients = 4", "allowed.least_clients = 4; expected 1 to sites = 3"),
        ("least_clients = 2", "", "key 'allowed.least_clients' is missing"),
        ("least_colluders = 0", "least_colluders = 3", "allowed.least_colluders = 3; expected 0 to 2"),
        ("least_colluders = 0", "", "key 'allowed.least_colluders' is missing"),
        ("longest_training_s = 3600.0", "longest_training_s = 0", "allowed.longest_training_s = 0.0"),
        ("longest_training_s = 3600.0", "longest_training_s = inf", "expected a finite number"),
        ("longest_training_s = 3600.0", "", "key 'allowed.longest_training_s' is missing"),
        ("extractors = ", "extractor = ", "did you mean 'extractors'"),
        ('["auto", ', '["hogg", ', "'hogg': unknown extractor step 'hogg'; did you mean 'hog'"),
        ('["auto", ', '["hog@sha256:00", ', "'hog' takes no weights from a server"),
        ('["auto", ', '["package.module:factory@sha256:00", ', "takes no weights from a server"),
        ('["auto", ', '["simclr-resnet8@sha256:00", ', "expected simclr-resnet8@sha256: and 64 hex digits"),
        ("[allowed.settings]", "settings = 3", "allowed.settings = 3 is not a table"),
        ("# epochs = [1, 200]", "epoch = [1, 200]", "allowed.settings holds 'epoch'; did you mean 'epochs'"),
        ("# epochs = [1, 200]", "epochs = 200", "epochs = 200; expected [lowest, highest], two finite numbers"),
        ("# epochs = [1, 200]", "epochs = [200, 1]", "epochs = [200, 1]; expected [lowest, highest]"),
        ("# epochs = [1, 200]", "epochs = [1, inf]", "expected [lowest, highest], two finite numbers"),
        ("# epochs = [1, 200]", "abstain = [1]", "expected a list of true, false or both"),
        (
            "# epochs = [1, 200]",
            'share = ["votes"]',
            "expected a list of some of logits, softmax, argmax, heads, predictions",
        ),
        ("# epochs = [1, 200]", "share = []", "expected a list of some of logits, softmax, argmax, heads, predictions"),
        ("# epochs = [1, 200]", "server_lr = [0.1, 1.0]", "holds 'server_lr', which no site takes from the server"),
        ("# epochs = [1, 200]", "noise_seed = [1, 2]", "holds 'noise_seed', which stays at None at every site"),
        ("# epochs = [1, 200]", 'extractor = ["pca"]', "which allowed.extractors limits: list it there"),
        ("[data]", "[datum]", "unknown key 'datum'; did you mean 'data'"),
        ('model = "random-forest"', "model = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(folder: Path, old: str, new: str, words: str) -> None:
    path = changed(folder, old, new)
    with pytest.raises(SettingsError) as caught:
        read_site(path)
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_a_table_is_no_number(folder: Path) -> None:
    path = folder / "site.toml"
    path.write_text(path.read_text().partition("[data]")[0] + "data = 3\nbudget = {}\nallowed = {}\n")
    with pytest.raises(SettingsError, match="data = 3 is not a table"):
        read_site(path)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="fedballot site init"):
        read_site(tmp_path / "site.toml")


def test_the_home_of_nobody_is_a_path_that_is_not_there(folder: Path) -> None:
    site = read_site(changed(folder, '"records.csv"', '"~no-such-user/records.csv"'))
    assert site.data.private == folder / "~no-such-user/records.csv"
    with pytest.raises(SettingsError, match=r"~no-such-user/site\.toml"):
        read_site(Path("~no-such-user/site.toml"))


@pytest.mark.parametrize("name", ["site.key", "ledger", "state"])
def test_files_that_others_can_open_are_refused(folder: Path, name: str) -> None:
    if name != "site.key":
        (folder / name).mkdir(mode=0o700)
    (folder / name).chmod(0o750)
    with pytest.raises(SettingsError, match=f"mode 750 .*chmod go= .*{name}"):
        check_modes(read_site(folder / "site.toml"))


def test_a_missing_key_is_named(folder: Path) -> None:
    (folder / "site.key").unlink()
    with pytest.raises(SettingsError, match=r"site\.key: cannot be read"):
        check_modes(read_site(folder / "site.toml"))


def test_a_key_is_never_overwritten(folder: Path) -> None:
    key = (folder / "site.key").read_bytes()
    with pytest.raises(SettingsError, match="already there"):
        init_site(folder, number=1, sites=3, server="localhost:1")
    (folder / "site.toml").unlink()
    with pytest.raises(SettingsError, match="never overwritten"):
        init_site(folder, number=1, sites=3, server="localhost:1")
    assert (folder / "site.key").read_bytes() == key


def test_limits_of_one_s_own_are_read(folder: Path) -> None:
    text = 'epochs = [1, 200]\nlr = [1e-5, 1.0]\nshare = ["argmax"]\nabstain = [true]\nprecision = ["float16"]'
    site = read_site(changed(folder, "# epochs = [1, 200]", text))
    assert site.allowed.settings == {
        "epochs": Limit(1, 200),
        "lr": Limit(1e-5, 1.0),
        "share": Limit(values=("argmax",)),
        "abstain": Limit(values=(True,)),
        "precision": Limit(values=("float16",)),
    }
    without = read_site(changed(folder, "[allowed.settings]\n" + text, ""))
    assert without.allowed.settings == {}


def test_a_federation_of_one_or_of_many_asks_for_more_than_half(tmp_path: Path) -> None:
    for sites, least in ((1, 1), (2, 2), (3, 2), (10, 6)):
        init_site(tmp_path / str(sites), number=0, sites=sites, server="localhost:1")
        assert read_site(tmp_path / str(sites) / "site.toml").allowed.least_clients == least
