import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError
from orchestrator.hcibench import (
    HcibenchName,
    is_hcibench_name,
    name_of_profile,
    parse_name,
    profile_of_name,
)
from orchestrator.profiles import Profile

PLAIN = "fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads"
percent = st.integers(0, 100)
optional = st.none() | percent


@st.composite
def names(draw):
    latency = draw(st.booleans())
    cpus = draw(st.none() | st.integers(1, 16))
    return HcibenchName(
        disks=draw(st.integers(1, 60)),
        working_set=draw(st.integers(1, 100)),
        block=draw(st.sampled_from(["4k", "1024k", "512", "1M", "256K"])),
        read_percent=draw(percent),
        random_percent=draw(percent),
        threads=None if latency else draw(st.integers(1, 1024)),
        latency_us=draw(st.integers(1, 10**6)) if latency else None,
        prefix=draw(
            st.none() | st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,3})?", fullmatch=True)
        ),
        jobs=draw(st.none() | st.integers(1, 64)),
        cpus=cpus,
        cpu_percent=None if cpus is None else draw(percent),
        compress=draw(optional),
        dedupe=draw(optional),
    )


@given(names())
def test_a_name_round_trip(name):
    """Every suffix and every prefix comes back as it was written."""
    assert parse_name(str(name)) == name
    assert is_hcibench_name(str(name))


def test_the_plain_form():
    """The six parts mean what HCIBench means by them."""
    profile = profile_of_name(PLAIN)
    assert (profile.block_size, profile.read_percent, profile.random_percent) == (4096, 70, 100)
    assert (profile.iodepth, profile.numjobs, profile.working_set) == (4, 1, 100)
    assert (profile.runtime, profile.ramp) == (3600, 1800)
    assert name_of_profile(profile, disks=8) == PLAIN


def test_all_suffixes():
    """Jobs are divided over the disks; a latency target has HCIBench's depth and percentile."""
    text = "my-fio-4vmdk-50ws-1024k-0rdpct-0randompct-3000lt-8jobs-50compress-30dedupe"
    profile = profile_of_name(text)
    assert (profile.numjobs, profile.compress, profile.dedupe) == (2, 50, 30)
    assert profile.latency_target.latency == 3_000_000
    assert (profile.iodepth, profile.latency_target.percentile) == (1024, 95)
    assert name_of_profile(profile, disks=4, prefix="my") == text


@given(names().filter(lambda n: n.cpus is None and (n.jobs or n.disks) % n.disks == 0))
def test_a_profile_round_trip(name):
    """A profile made from a name says the same name again, but for what is its default."""
    profile = profile_of_name(str(name))
    again = profile_of_name(name_of_profile(profile, disks=name.disks))
    same = {"name": "x", "description": ""}
    assert again.model_copy(update=same) == profile.model_copy(update=same)


@pytest.mark.parametrize(
    "text",
    [
        "4k-70r-random",
        "fio-8vmdk-4k-100ws-70rdpct-100randompct-4threads",
        "fio-8vmdk-100ws-4k-70rdpct-100randompct",
        PLAIN + "-",
        PLAIN + "-50compress-8jobs",
        "vdb-8vmdk-100ws-4k-70rdpct-100randompct-4threads",
    ],
)
def test_what_is_no_name(text):
    """Another order, a missing part, or Vdbench's form is not taken for one."""
    assert not is_hcibench_name(text)
    with pytest.raises(ConfigError, match="not an HCIBench workload name"):
        parse_name(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAIN.replace("70rdpct", "170rdpct"), "percents"),
        (PLAIN.replace("100ws", "0ws"), "counts and sizes"),
        (PLAIN.replace("8vmdk", "0vmdk"), "counts"),
        (PLAIN.replace("4threads", "0threads"), "counts"),
        (PLAIN.replace("4threads", "0lt"), "counts"),
        (PLAIN.replace("4k", "0k"), "sizes"),
        (PLAIN + "-2cpu-50cpupct", "CPU load"),
        (PLAIN + "-3jobs", "dealt evenly"),
    ],
)
def test_what_a_name_may_not_ask_for(text, said):
    """Figures out of range, and what would be another workload here, are refused with reason."""
    with pytest.raises(ConfigError, match=said):
        profile_of_name(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": {"iops": 5}},
        {"distribution": {"zipf": 1.2}},
        {"block_size": {"read": 512, "write": 1024}},
        {"options": {"norandommap": 1}},
    ],
)
def test_what_the_form_cannot_say(fields):
    """Two profiles that differ in what a name leaves out must not get one name."""
    with pytest.raises(ConfigError, match="can't be written"):
        name_of_profile(
            Profile.model_validate({"name": "x", "block_size": "4k", **fields}), disks=8
        )
