import json

import pytest

from orchestrator.catalog import load_profile, parse_document
from orchestrator.cli.main import run_cli
from orchestrator.profiles import Profile


@pytest.fixture
def hcio(capsys, monkeypatch, tmp_path):
    """Run a command in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = run_cli(list(words))
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


def test_profiles_are_listed(hcio):
    """One line a profile, or as JSON."""
    code, out, _ = hcio("profiles")
    assert code == 0
    assert "4k-70r-random" in out
    code, out, _ = hcio("profiles", "--json")
    names = {row["name"] for row in json.loads(out)["profiles"]}
    assert {"general-purpose", "oltp", "vdi", "sql", "1024k-0r-sequential"} <= names


def test_suites_are_listed_with_cases_and_time(hcio):
    """A suite's cases and fio's time for them stand beside its name."""
    _, out, _ = hcio("suites", "--json")
    suites = {row["name"]: row for row in json.loads(out)["suites"]}
    assert suites["easy-run"]["cases"] == [
        "4k-70r-random",
        "4k-100r-random",
        "8k-50r-random",
        "256k-0r-sequential",
    ]
    assert suites["easy-run"]["seconds"] == 4 * 5400
    assert suites["smoke"]["seconds"] < 45
    assert len(suites["atto"]["cases"]) == 36
    assert len(suites["storagereview-esa"]["cases"]) == 5
    assert "[4 cases, 6h]" in hcio("suites")[1]


def test_a_shown_profile_reads_back_as_the_same(hcio, tmp_path):
    """What `show` prints can be saved as a profile of one's own."""
    for name in ("4k-70r-random", "sql", "vdi", "general-purpose"):
        _, text, _ = hcio("show", name)
        (tmp_path / f"{name}.yaml").write_text(text)
        _, data, _ = hcio("show", name, "--json")
        assert load_profile(tmp_path / f"{name}.yaml") == Profile.model_validate(json.loads(data))


def test_a_shown_suite_names_its_cases(hcio):
    """A suite is shown with its resolved cases and rules."""
    _, text, _ = hcio("show", "easy-run-6")
    shown = parse_document(text, "shown").data
    assert [case["id"] for case in shown["cases"]][-1] == "512k-0r-sequential"
    assert shown["fast_fail"] == "20s"


def test_atto_is_both(hcio):
    """A name that is a profile and a suite shows both."""
    shown = json.loads(hcio("show", "atto", "--json")[1])
    assert len(shown["cases"]) == 36
    assert shown["profile"]["iodepth"] == 4


def test_a_wrong_name_ends_with_2_and_the_nearest(hcio):
    """A typing error costs one line to correct."""
    code, out, err = hcio("show", "easy-rum")
    assert (code, out) == (2, "")
    assert "did you mean 'easy-run'?" in err


def test_broken_files_of_ones_own_are_all_named(hcio, tmp_path):
    """Listing reads all files and reports the problems of every one."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a.yaml").write_text("block_size: 4q\n")
    (tmp_path / "own/b.yaml").write_text("blocksize: 4k\n")
    code, _, err = hcio("profiles", "--profiles", str(tmp_path / "own"))
    assert code == 2
    assert "a.yaml:1" in err
    assert "b.yaml:1" in err


def test_a_file_of_ones_own_is_shown_by_its_path(hcio, tmp_path):
    """`show ./x.fio` shows a job file as a profile."""
    (tmp_path / "x.fio").write_text("[a]\nrw=read\n")
    code, out, _ = hcio("show", "x.fio", "--json")
    assert code == 0
    assert json.loads(out) == {
        "name": "x",
        "engine": "libaio",
        "direct": True,
        "fio": "[a]\nrw=read\n",
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("profile", ["block_size", "4k"]),
        ("suite", ["cases", "quorum"]),
        ("inventory", ["workers", "hctl", "env:"]),
    ],
)
def test_schema(hcio, kind, words):
    """The JSON Schema holds the fields and examples that an editor offers."""
    code, out, _ = hcio("schema", kind)
    assert code == 0
    assert json.loads(out)["type"] == "object"
    assert json.loads(out)["additionalProperties"] is False
    assert [word for word in words if word not in out] == []


def test_schema_knows_the_short_forms(hcio):
    """A case, a policy and a jump host may be plain text for an editor too."""
    suite = json.loads(hcio("schema", "suite")[1])["$defs"]
    inventory = json.loads(hcio("schema", "inventory")[1])["$defs"]
    for form in (suite["CaseEntry"], suite["Policy"], inventory["Jump"]):
        assert {"type": "string"} in form["anyOf"]
