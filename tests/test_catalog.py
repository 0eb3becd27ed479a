from pathlib import Path

import pytest

from orchestrator.catalog import (
    Catalog,
    dump_yaml,
    load_inventory,
    load_profile,
    parse_document,
    shipped_folder,
)
from orchestrator.errors import ConfigError, InputError

DATA = Path(__file__).parent / "data/catalog"
LOADERS = {
    "profile": load_profile,
    "suite": lambda path: Catalog.of().find_suite(str(path)),
    "inventory": load_inventory,
}
FILES = sorted(DATA.glob("*/*.yaml"))


def expected(path):
    lines = path.read_text().splitlines()
    return [line.removeprefix("# expect: ") for line in lines if line.startswith("# expect: ")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_all_problems_are_listed_at_once(path):
    """Each file's `# expect:` lines are its problems, all in one error, and there are no more."""
    with pytest.raises(InputError) as caught:
        LOADERS[path.parent.name](path)
    found = [str(p).removeprefix(str(path)).lstrip(": ") for p in caught.value.problems]
    assert len(found) == len(expected(path)), found
    for start in expected(path):
        assert any(text.startswith(start) for text in found), (start, found)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("1:30", "1:30"),
        ("010", "010"),
        ("2026-01-01", "2026-01-01"),
        ("true", True),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-1.5", -1.5),
        ("1e3", 1000.0),
        ("0x10", "0x10"),
        ('"12"', "12"),
        ("4k", "4k"),
    ],
)
def test_yaml_scalars_without_the_traps(text, value):
    """Only true, false, null and decimal numbers are more than text."""
    document = parse_document(f"a: {text}", "f")
    assert document.problems == []
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)


def test_yaml_tags_make_no_objects():
    """A tag that would build a Python object is a problem, not an object."""
    document = parse_document("a: !!python/object/apply:os.getcwd []", "f")
    assert not document.readable
    assert "tag" in document.problems[0].text


def test_what_is_written_reads_back():
    """A dumped document is the same when read."""
    data = {"name": "x", "on": "yes", "t": "1:30", "n": "010", "list": [1, 2.5, None, True, "ü"]}
    assert parse_document(dump_yaml(data), "f").data == data


def test_a_users_profile_replaces_and_adds(tmp_path):
    """`--profiles DIR` comes after `./profiles`, which comes after the shipped ones."""
    here, other = tmp_path / "here", tmp_path / "other"
    for folder, depth in ((here / "profiles", 2), (other, 3)):
        folder.mkdir(parents=True)
        (folder / "4k-70r-random.yaml").write_text(f"block_size: 4k\niodepth: {depth}\n")
    (here / "profiles/mine.fio").write_text("[a]\nrw=read\n")
    both = Catalog.of(other, here=here)
    assert both.find_profile("4k-70r-random").iodepth == 3
    assert Catalog.of(here=here).find_profile("4k-70r-random").iodepth == 2
    assert Catalog.of().find_profile("4k-70r-random").iodepth == 8
    assert both.find_profile("mine").fio == "[a]\nrw=read\n"
    assert both.profiles()["mine"].origin == str(here / "profiles")
    assert "oltp" in both.profiles()


def test_a_job_file_is_found_beside_its_profile(tmp_path):
    """`fio: NAME` is read from the profile's own folder, and its text kept in the profile."""
    (tmp_path / "jobs.fio").write_text("[a]\nrw=read\n")
    (tmp_path / "p.yaml").write_text("fio: jobs.fio\nruntime: 5\n")
    profile = load_profile(tmp_path / "p.yaml")
    assert (profile.name, profile.fio, profile.runtime) == ("p", "[a]\nrw=read\n", 5)


def test_a_name_in_hcibenchs_form_is_a_profile_and_a_suite():
    """Wherever a profile is named, HCIBench's form is taken."""
    name = "fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads"
    assert Catalog.of().find_profile(name).iodepth == 4
    assert [case.profile for case in Catalog.of().find_suite(name).cases] == [name]
    assert Catalog.of().find_suite("oltp").cases[0].profile == "oltp"


@pytest.mark.parametrize("find", ["find_profile", "find_suite"])
def test_a_wrong_name_gets_the_nearest_one(find):
    """What isn't there is answered with what was probably meant."""
    with pytest.raises(InputError) as caught:
        getattr(Catalog.of(), find)("4k-70r-randm")
    assert caught.value.problems[0].nearest == "4k-70r-random"


def test_a_users_template_is_preferred(tmp_path):
    """DIR/templates/jobfile/NAME replaces the shipped template of that name."""
    (tmp_path / "templates/jobfile").mkdir(parents=True)
    (tmp_path / "templates/jobfile/job.fio.j2").write_text("mine")
    catalog = Catalog.of(tmp_path)
    assert catalog.template("job.fio.j2").text == "mine"
    assert "rw=write" in catalog.template("fill.fio.j2").text
    with pytest.raises(ConfigError, match="no template"):
        catalog.template("none.j2")


def test_folders_and_files_that_cannot_be_read(tmp_path):
    """A missing folder, a missing file and bytes that are no text are named."""
    with pytest.raises(ConfigError, match="no such folder"):
        Catalog.of(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load_inventory(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match=r"bytes\.yaml: not UTF-8"):
        load_profile(tmp_path / "bytes.yaml")


def test_the_example_inventory_passes():
    """`inventory.example.yaml` is valid and uses groups, ranges, devices and files."""
    inventory = load_inventory(Path(__file__).parent.parent / "inventory.example.yaml")
    assert list(inventory.groups()) == ["all", "db"]
    assert len(inventory.workers) == 18
    assert inventory.workers[15].host == "10.0.0.26"


def test_the_shipped_folder_has_all_three():
    """Profiles, suites and templates are where the catalog looks."""
    for name in ("profiles", "profiles/suites", "templates/jobfile"):
        assert list((shipped_folder() / name).iterdir())
