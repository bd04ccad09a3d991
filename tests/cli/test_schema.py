"""``fedballot data schema``: from a public file to a contract that everybody reads through."""

import pytest

from fedballot.cli.main import main
from fedballot.datasets.fingerprint import source_fingerprint
from fedballot.datasets.schema.reading import Reading
from fedballot.datasets.schema.toml import read_schema
from fedballot.datasets.sources import load_as

ROWS = [f"{row},{row % 5}.5,{('Benign', 'malignant', 'benign')[row % 3]}" for row in range(30)]


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    (tmp_path / "public.csv").write_text("\n".join(["Unnamed: 0,size,diagnosis", *ROWS]))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr("sys.argv", ["fedballot", *words])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return end.value.code or 0, " ".join(shown.out.split()), " ".join(shown.err.split())

    return run


def test_from_a_public_file_to_a_fingerprint(call, tmp_path):
    code, _, error = call("data", "schema", "public.csv")
    assert code == 2 and "no column 'label'" in error and "--label COLUMN" in error
    code, _, error = call("data", "schema", "public.csv", "--label", "diagnosis")
    assert code == 2 and "'Benign' and 'benign' differ in spelling only" in error
    assert not (tmp_path / "schema.toml").exists()
    words = ("--label", "diagnosis", "--same", "Benign=benign")
    code, out, _ = call("data", "schema", "public.csv", *words)
    assert code == 0 and "'Unnamed: 0' is left out" in out and "benign, malignant" in out
    schema = read_schema(tmp_path / "schema.toml")
    assert schema.label.same == (("Benign", "benign"),) and [column.name for column in schema.columns] == ["size"]
    agreed = source_fingerprint(load_as(str(tmp_path / "public.csv"), Reading(schema)))
    assert agreed in out
    code, out, _ = call("data", "public.csv", "--schema", "schema.toml", "--json")
    assert code == 0 and agreed in out
    code, _, error = call("data", "schema", "public.csv", *words)
    assert code == 2 and "already there" in error


def test_a_public_file_without_labels(call, tmp_path):
    (tmp_path / "pool.csv").write_text("\n".join(["size", *(f"{row % 5}.5" for row in range(30))]))
    code, out, error = call("data", "schema", "pool.csv", "--label", "diagnosis", "--classes", "ill, well")
    assert code == 0, error
    schema = read_schema(tmp_path / "schema.toml")
    assert schema.label.name == "diagnosis" and schema.classes == ("ill", "well")
    source = load_as(str(tmp_path / "pool.csv"), Reading(schema, labels=False))
    assert source_fingerprint(source) in out and not source.labelled
    code, out, _ = call("data", "pool.csv", "--schema", "schema.toml", "--json")
    assert code == 0 and source_fingerprint(source) in out and "the records have no labels" in out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["digits"], "needs no schema"),
        (["public.csv", "--classes", "ill"], "expected at least two different words"),
        (
            ["public.csv", "--label", "diagnosis", "--same", "Benign=benign", "--classes", "a,b"],
            "has labels, which say",
        ),
        (["public.csv", "--same", "Benign"], "expected WORD=MEANT"),
        (["public.csv", "--out", "schema.json"], "expected a .toml file"),
        (["public.csv", "--label", "diagnosis", "--drop", "sise"], "no column 'sise'; did you mean 'size'"),
    ],
)
def test_what_cannot_be_a_contract(call, words, error):
    code, _, text = call("data", "schema", *words)
    assert code == 2 and error in text


def test_a_run_reads_through_the_settings(call, tmp_path):
    (tmp_path / "public.csv").write_text("\n".join(["site,size,diagnosis", *(row.lower() for row in ROWS)]))
    code, out, error = call(
        "data", "public.csv", "--set", "label=diagnosis", "--set", "drop=site", "--set", "public_size=5", "--set",
        "test_size=5", "--set", "clients=2", "--json",
    )  # fmt: skip
    assert code == 0, error
    assert '"shape": [ 1 ]' in out and '"benign", "malignant"' in out
