"""Golden job files: after a wanted change run `HCIO_WRITE_GOLDEN=1 pytest tests/test_jobfile.py`,
then read the difference before it is committed."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.catalog import Catalog, parse_document
from orchestrator.errors import ConfigError, TemplateError
from orchestrator.inventory import InventoryFile, resolve_inventory
from orchestrator.jobfile import (
    FILL_TEMPLATE,
    JOB_TEMPLATE,
    JobTarget,
    TemplateSource,
    render_fill,
    render_job,
    render_text,
)
from orchestrator.joblint import lint_job
from orchestrator.profiles import Profile
from orchestrator.sections import parse_job_text

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden/jobfiles"
SHIPPED = sorted(Catalog.of().profiles())
JOB = Catalog.of().template(JOB_TEMPLATE)
FILL = Catalog.of().template(FILL_TEMPLATE)
DISKS = (
    JobTarget("disk0", "/dev/disk/by-path/pci-0000:03:00.0-scsi-0:0:1:0", 100 * 2**30, "block"),
    JobTarget("disk1", "/dev/sdc", 50 * 2**30, "block"),
)
FILE = JobTarget("disk0", "/var/tmp/hcio/scratch file", 2**28 + 5000, "file")


def options(profile, targets=DISKS, seed=1):
    text = render_job(profile, targets, seed=seed, template=JOB)
    return {section.name: dict(found) for section, found in parse_job_text(text).jobs()}


def shaped(**fields):
    return Profile.model_validate({"name": "x", "block_size": "4k", **fields})


def compare(name, text):
    path = GOLDEN / f"{name}.fio"
    if os.environ.get("HCIO_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", SHIPPED)
def test_golden(name):
    """Every shipped profile renders to exactly the text that was reviewed."""
    text = render_job(Catalog.of().find_profile(name), DISKS, seed=1, template=JOB)
    compare(name, text)
    assert lint_job(parse_job_text(text)) == ()


@pytest.mark.parametrize("method", ["zero", "random"])
def test_golden_fill(method):
    """The same for the two ways to prepare a target."""
    compare(f"fill-{method}", render_fill(method, (*DISKS, FILE), seed=1, template=FILL))


def test_case_24_unknown_names_are_refused():
    """Case 24: both names and the template are named, the unused ones mentioned."""
    folder = TESTS / "data/cases/24-undefined-template-variable"
    variables = parse_document((folder / "vars.yaml").read_text(), "vars.yaml").data
    expected = json.loads((folder / "expected.json").read_text())
    source = TemplateSource("disk.fio.j2", (folder / "disk.fio.j2").read_text())
    with pytest.raises(TemplateError) as caught:
        render_text(source, variables)
    for name in [*expected["names"], expected["names_template"]]:
        assert name in caught.value.what
    for name in expected["unused_variables_mentioned"]:
        assert name in caught.value.means


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{% if %}", "line 1"),
        ("{{ a.missing }}", "missing"),
        ("{{ a + 1 }}", "template t"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% include 'x' %}", "template t"),
    ],
)
def test_a_broken_template_is_named(text, said):
    """Whatever is wrong in a template comes out as a TemplateError with its name."""
    with pytest.raises(TemplateError, match="template t") as caught:
        render_text(TemplateSource("t", text), {"a": "text"})
    assert said in str(caught.value)


def test_a_users_template_gets_the_same_variables():
    """Another template over the same names is rendered in place of ours."""
    source = TemplateSource("mine", "{{ profile }} {{ seed }} {{ sections[0].filename }}")
    text = render_job(shaped(), DISKS[1:], seed=7, template=source)
    assert text == "x 7 /dev/sdc"


def test_case_53_no_secret_reaches_a_job_file():
    """Case 53: no password of an inventory is in a job file, and nothing in one is expanded."""
    folder = TESTS / "data/cases/53-special-characters-in-secrets"
    words = json.loads((folder / "secrets.json").read_text())["passwords"]
    target = {"file": "/var/tmp/{{ seed }}", "size": "1g"}
    entry = {"name": "w", "password": "env:PW", "targets": [target]}
    (worker,) = resolve_inventory(InventoryFile.model_validate({"workers": [entry]})).workers
    (named,) = worker.targets
    target = JobTarget(named.label, named.file, named.size, "file")
    text = render_job(
        shaped(options={"description": "{{ 7 * 7 }}"}), [target], seed=1, template=JOB
    )
    assert "filename=/var/tmp/{{ seed }}\n" in text
    assert "description={{ 7 * 7 }}\n" in text
    assert not [word for word in words if word in text and "jinja" not in word]
    assert "PW" not in text


@pytest.mark.parametrize(
    ("read", "random", "rw", "mix", "share"),
    [
        (100, 100, "randread", None, None),
        (0, 100, "randwrite", None, None),
        (70, 100, "randrw", "70", None),
        (100, 0, "read", None, None),
        (0, 0, "write", None, None),
        (70, 0, "rw", "70", None),
        (70, 30, "randrw", "70", "30"),
        (0, 20, "randwrite", None, "20"),
    ],
)
def test_readwrite_rule(read, random, rw, mix, share):
    """fio's rw follows both percents; the partial ones are given only where they mean a part."""
    found = options(shaped(read_percent=read, random_percent=random))["disk0"]
    assert (found["rw"], found.get("rwmixread"), found.get("percentage_random")) == (rw, mix, share)


def test_working_set_is_in_bytes_of_each_target():
    """Half of each target, down to whole blocks; sizes are plain numbers, which fio can't misread
    (it takes KiB for 1000)."""
    found = options(shaped(working_set=50, block_size="1m"), (*DISKS, FILE)[1:])
    assert found["disk1"]["size"] == str(25 * 2**30)
    assert found["disk0"]["size"] == str(2**27)


def test_a_target_below_the_block_size_is_refused():
    """Nothing could be done on it, so it is said before."""
    with pytest.raises(ConfigError, match="below the block size"):
        options(shaped(block_size="64m"), [JobTarget("a", "/x", 2**20, "file")])


def test_sequential_clones_have_a_slice_each():
    """From one offset all clones would read the same blocks, most of them from a cache."""
    found = options(shaped(random_percent=0, numjobs=4), [FILE])["disk0"]
    assert found["offset_increment"] == found["size"] == str(2**26)
    assert "offset_increment" not in options(shaped(numjobs=4), [FILE])["disk0"]


def test_case_32_a_latency_target_is_never_in_clones():
    """Case 32: fio 3.33 multiplies it by 1000 in all but the first clone, so each is a section."""
    profile = shaped(numjobs=3, latency_target={"latency": "10ms"}, iodepth=64)
    found = options(profile, [FILE])
    assert list(found) == ["disk0", "disk0-2", "disk0-3"]
    assert {section["numjobs"] for section in found.values()} == {"1"}
    assert {section["latency_target"] for section in found.values()} == {"10000us"}


def test_rates_are_split_over_targets_jobs_and_directions():
    """All jobs together, both directions, are the worker's rate."""
    found = options(shaped(read_percent=70, numjobs=2, rate={"iops": 1000}))
    assert [found[d]["rate_iops"] for d in ("disk0", "disk1")] == ["175,75", "175,75"]
    assert options(shaped(read_percent=0, rate={"iops": 10}))["disk0"]["rate_iops"] == ",5"
    assert options(shaped(rate={"bytes_per_s": "1MB/s"}))["disk0"]["rate"] == "500000"


def test_distributions_and_splits():
    """They are written in fio's own form."""
    zones = [{"access": 95, "span": 5}, {"access": 5, "span": 95}]
    split = [{"size": "4k", "percent": 60}, {"size": "64k", "percent": 40}]
    profile = shaped(distribution={"zoned": zones}, block_size=None, bssplit=split)
    found = options(profile)["disk0"]
    assert found["random_distribution"] == "zoned:95/5:5/95"
    assert found["bssplit"] == "4k/60:64k/40"
    assert "bs" not in found
    both = options(shaped(block_size={"read": "4k", "write": "8k"}, distribution={"zipf": 1.2}))
    assert (both["disk0"]["bs"], both["disk0"]["random_distribution"]) == ("4k,8k", "zipf:1.2")


def test_seeds_differ_and_are_used():
    """randrepeat would make fio ignore the seed (seen with 3.33), so it is off."""
    found = options(shaped(), seed=42)["disk0"]
    assert (found["randseed"], found["randrepeat"]) == ("42", "0")


def test_latency_is_always_measured_whole():
    """Both kinds of percentiles, the whole list, no errors continued, nothing grouped."""
    found = options(shaped())["disk0"]
    assert (found["lat_percentiles"], found["clat_percentiles"]) == ("1", "1")
    assert found["percentile_list"] == "50:90:95:99:99.9:99.99:99.999"
    assert found["group_reporting"] == "0"
    assert "continue_on_error" not in found


def test_no_ramp_is_no_option():
    """A ramp of 0 is left out; times are whole seconds or say ms."""
    found = options(shaped(ramp=0, runtime=0.5))["disk0"]
    assert "ramp_time" not in found
    assert found["runtime"] == "500ms"


def test_jobs_that_share_one_target_have_their_own_area():
    """Data and log lie behind each other, and neither goes over the end."""
    profile = shaped(
        jobs=[
            {"name": "data", "share": 90},
            {"name": "log", "share": 10, "read_percent": 0, "random_percent": 0},
        ]
    )
    data, log = options(profile, [FILE]).values()
    assert int(data["size"]) <= int(log["offset"])
    assert int(log["offset"]) + int(log["size"]) <= FILE.size


def test_a_fill_covers_every_byte():
    """The last part below 1 MiB is written by a section of its own."""
    text = render_fill("random", [FILE], seed=1, template=FILL)
    sections = [found for _, found in parse_job_text(text).jobs()]
    assert sum(int(found["size"]) for found in sections) == FILE.size
    assert int(sections[1]["offset"]) == int(sections[0]["size"])
    assert all("runtime" not in found and found["rw"] == "write" for found in sections)
