import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.errors import InputError
from orchestrator.profiles import Profile, override_profile

VDI = {
    "name": "vdi",
    "iodepth": 4,
    "jobs": [
        {"name": "read", "block_size": "8k", "share": 70},
        {"name": "log", "block_size": "32k", "read_percent": 0, "iodepth": 1, "rate": {"iops": 9}},
    ],
}


def test_a_profile_says_its_timing():
    """A shaped profile has a runtime and a ramp even where none is written."""
    profile = Profile(name="x", block_size="4k")
    assert (profile.runtime, profile.ramp) == (600, 120)
    assert Profile(name="x", block_size="4k", ramp=0).ramp == 0


def test_jobs_take_what_they_lack_from_the_profile():
    """The profile's shape is the default of each job; a job's own value wins."""
    read, log = Profile.model_validate(VDI).jobs
    assert (read.iodepth, log.iodepth) == (4, 1)
    assert (read.read_percent, log.read_percent) == (100, 0)


def test_a_profile_is_only_read():
    """A made profile can't be changed."""
    with pytest.raises(ValidationError):
        Profile(name="x", block_size="4k").iodepth = 3


def test_an_override_of_the_shape_reaches_every_job():
    """`--set iodepth=16` holds for all jobs, also for those that had said otherwise."""
    profile = override_profile(Profile.model_validate(VDI), {"iodepth": "16", "runtime": "1m"})
    assert [job.iodepth for job in profile.jobs] == [16, 16]
    assert profile.runtime == 60


def test_one_job_can_be_overridden_by_name():
    """`jobs.log.rate.iops` changes that job alone."""
    profile = override_profile(Profile.model_validate(VDI), {"jobs.log.rate.iops": "2k"})
    assert profile.jobs[1].rate.iops == 2000
    assert profile.jobs[0].rate is None


def test_an_override_drops_what_it_excludes():
    """A block size drops a split, a byte rate drops an I/O rate, and the other way round."""
    profile = Profile(name="x", block_size="4k", rate={"iops": 5})
    split = override_profile(profile, {"bssplit": [{"size": "8k", "percent": 100}]})
    assert split.block_size is None
    assert override_profile(split, {"block_size": "4k"}).bssplit is None
    assert override_profile(profile, {"rate.bytes_per_s": "1MB/s"}).rate.iops is None


def test_wrong_overrides_are_all_named():
    """Unknown fields come with the nearest one, wrong values with the reason, all at once."""
    with pytest.raises(InputError) as caught:
        override_profile(
            Profile.model_validate(VDI),
            {"iodept": 1, "read_percent": 300, "jobs.lag.iodepth": 1, "jobs.log.iodept": 1},
        )
    found = {problem.path: problem.nearest for problem in caught.value.problems}
    assert found["iodept"] == "iodepth"
    assert found["jobs.lag.iodepth"] == "log"
    assert found["jobs.log.iodept"] == "iodepth"
    assert any(path.endswith("read_percent") for path in found)


@pytest.mark.parametrize("name", ["name", "fio", "jobs"])
def test_what_makes_a_profile_itself_is_not_overridden(name):
    """Name, job file and job list are not fields to set."""
    with pytest.raises(InputError, match="no such field"):
        override_profile(Profile(name="x", block_size="4k"), {name: "y"})


def test_an_override_of_an_own_file_is_its_timing_alone():
    """Beside a job file only runtime and ramp can be set."""
    own = Profile(name="own", fio="[a]\nrw=read\n")
    assert (own.runtime, own.ramp) == (None, None)
    assert override_profile(own, {"runtime": 5}).runtime == 5
    with pytest.raises(InputError, match="can't be given beside fio"):
        override_profile(own, {"iodepth": 5})


profiles = st.builds(
    dict,
    name=st.just("p"),
    block_size=st.one_of(
        st.integers(1, 2**30),
        st.fixed_dictionaries({"read": st.integers(1, 2**20), "write": st.integers(1, 2**20)}),
    ),
    read_percent=st.integers(0, 100),
    random_percent=st.integers(1, 100),
    distribution=st.sampled_from(["random", {"zipf": 1.2}, {"pareto": 0.2}]),
    iodepth=st.integers(1, 1024),
    numjobs=st.integers(1, 64),
    working_set=st.integers(1, 100),
    runtime=st.integers(1, 10**6),
    ramp=st.integers(0, 10**6),
    compress=st.integers(0, 100),
    latency_target=st.none() | st.fixed_dictionaries({"latency": st.sampled_from(["1ms", "7us"])}),
    rate=st.none() | st.fixed_dictionaries({"iops": st.integers(1, 10**6)}),
)


@given(profiles)
def test_a_dumped_profile_reads_back(data):
    """A plan holds profiles as data: reading one back gives the same profile."""
    profile = Profile.model_validate(data)
    assert Profile.model_validate(profile.model_dump()) == profile
    assert Profile.model_validate_json(profile.model_dump_json()) == profile
    assert override_profile(profile, {}) == profile


def test_a_dumped_profile_of_jobs_reads_back():
    """The same for one with jobs, whose defaults are spread."""
    profile = Profile.model_validate(VDI)
    assert Profile.model_validate(profile.model_dump()) == profile
