"""What fio itself makes of our job files: it accepts each, and it does what the profile says."""

import json
import subprocess

import pytest

from orchestrator.catalog import Catalog
from orchestrator.demand import does_read, does_write, worker_seed
from orchestrator.expansion import expand_suite
from orchestrator.jobfile import FILL_TEMPLATE, JOB_TEMPLATE, JobTarget, render_fill, render_job
from orchestrator.profiles import Profile, override_profile

pytestmark = pytest.mark.real

CATALOG = Catalog.of()
JOB = CATALOG.template(JOB_TEMPLATE)
GIB = 2**30


def fio(*arguments, cwd):
    command = ["fio", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def accept(text, folder, name):
    """fio --parse-only says nothing and exits 0."""
    path = folder / f"{name}.fio"
    path.write_text(text)
    done = fio("--parse-only", path, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), name


def run(profile, targets, folder, *, seed=1):
    """Run a profile with real fio; its jobs in order.

    The null engine of fio 3.33 may print a note before the JSON: its init changes a flag that
    threads share, so a job of depth 1 makes the others look synchronous for a moment.
    """
    (folder / "job.fio").write_text(render_job(profile, targets, seed=seed, template=JOB))
    done = fio("job.fio", "--output-format=json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    return found


def null(**fields):
    return Profile.model_validate(
        {"name": "x", "block_size": "4k", "engine": "null", "runtime": 2, "ramp": 0, **fields}
    )


def disks(folder, count):
    return [JobTarget(f"disk{n}", f"{folder}/d{n}", GIB, "file") for n in range(count)]


@pytest.mark.parametrize("suite", sorted(CATALOG.suites()))
def test_every_case_of_every_shipped_suite_is_accepted(suite, tmp_path):
    """fio parses each case's job file without a word."""
    for case in expand_suite(CATALOG.find_suite(suite), CATALOG.find_profile):
        text = render_job(case.groups["all"], disks(tmp_path, 3), seed=1, template=JOB)
        accept(text, tmp_path, case.id)


@pytest.mark.parametrize("name", sorted(CATALOG.profiles()))
@pytest.mark.parametrize("count", [1, 2, 8])
def test_every_shipped_profile_is_accepted(name, count, tmp_path):
    """The same for each profile, on one target and on several."""
    text = render_job(CATALOG.find_profile(name), disks(tmp_path, count), seed=1, template=JOB)
    accept(text, tmp_path, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CATALOG.profiles()))
def test_every_shipped_profile_runs(name, tmp_path):
    """Each one moves data in every job, in the directions it names."""
    short = {"runtime": "400ms", "ramp": 0, "engine": "null"}
    profile = override_profile(CATALOG.find_profile(name), short)
    jobs = run(profile, disks(tmp_path, 2), tmp_path)
    assert (sum(job["read"]["total_ios"] for job in jobs) > 0) == does_read(profile)
    assert (sum(job["write"]["total_ios"] for job in jobs) > 0) == does_write(profile)
    assert all(job["read"]["total_ios"] + job["write"]["total_ios"] for job in jobs)


def test_the_rarer_fields_are_accepted(tmp_path):
    """Laws, splits, byte rates, latency targets, compression and options are fio's own."""
    split = [{"size": "4k", "percent": 60}, {"size": "64k", "percent": 40}]
    for number, fields in enumerate(
        [
            {"distribution": {"zipf": 1.2}, "compress": 50, "dedupe": 30},
            {"distribution": {"pareto": 0.2}, "rate": {"bytes_per_s": "10MiB/s"}},
            {"block_size": None, "bssplit": {"read": split, "write": split}, "read_percent": 50},
            {"latency_target": {"latency": "1500us", "window": "500ms"}, "numjobs": 3},
            {"random_percent": 0, "numjobs": 4, "working_set": 37, "read_percent": 30},
            {"options": {"norandommap": 1, "thinktime": "10us"}, "runtime": 0.5},
        ]
    ):
        text = render_job(null(**fields), disks(tmp_path, 2), seed=1, template=JOB)
        accept(text, tmp_path, f"fields{number}")


@pytest.mark.slow
def test_a_workers_rate_and_mix_are_kept(tmp_path):
    """1,200 I/Os per second at 70/30 over 3 targets with 2 jobs each are 840 reads and 360
    writes in all, where rate_iops=1200 in [global] would give twelve times as much. A busy
    machine may stay below; the mix holds there too."""
    profile = null(read_percent=70, rate={"iops": 1200}, numjobs=2, iodepth=4, runtime=4)
    jobs = run(profile, disks(tmp_path, 3), tmp_path)
    assert len(jobs) == 6
    reads = sum(job["read"]["iops"] for job in jobs)
    writes = sum(job["write"]["iops"] for job in jobs)
    assert 0.5 * 1200 < reads + writes < 1.05 * 1200
    assert reads / (reads + writes) == pytest.approx(0.70, abs=0.03)


def test_jobs_carry_their_targets_names_and_both_percentiles(tmp_path):
    """fio reports each target on its own, with total and completion latency."""
    profile = null(runtime=0.5, rate={"iops": 2000})
    jobs = run(profile, disks(tmp_path, 2), tmp_path)
    assert [job["jobname"] for job in jobs] == ["disk0", "disk1"]
    for job in jobs:
        assert "99.999000" in job["read"]["lat_ns"]["percentile"]
        assert "99.999000" in job["read"]["clat_ns"]["percentile"]


def offsets(folder, seed):
    """The first random offsets that two jobs of a seed go to."""
    profile = null(
        runtime=0.1, numjobs=2, options={"number_ios": 20, "log_offset": 1}, rate={"iops": 2000}
    )
    text = render_job(profile, disks(folder, 1), seed=seed, template=JOB)
    work = folder / f"seed{seed}"
    work.mkdir(exist_ok=True)
    logged = text.replace("[disk0]", "[disk0]\nwrite_iops_log=log", 1)
    (work / "job.fio").write_text(logged)
    assert fio("job.fio", cwd=work).returncode == 0
    logs = sorted(work.glob("log_iops*.log"))
    rows = [path.read_text().splitlines() for path in logs]
    return [[line.split(",")[4].strip() for line in lines[:10]] for lines in rows]


def test_seeds_repeat_and_differ(tmp_path):
    """A worker goes to the same offsets again; no two jobs of two workers go to the same ones,
    as the first of seed 2 and the second of seed 1 would."""
    one, other = worker_seed(1, "w1"), worker_seed(1, "w2")
    first = offsets(tmp_path, one)
    assert offsets(tmp_path, one) == first
    second = offsets(tmp_path, other)
    assert len({tuple(row) for row in [*first, *second]}) == 4


@pytest.mark.parametrize("method", ["zero", "random"])
def test_a_fill_writes_every_byte(method, tmp_path):
    """The whole target is written, its odd end too, whatever its name."""
    target = JobTarget("disk0", f"{tmp_path}/a:b c", 3 * 2**20 + 512 * 3, "file")
    template = CATALOG.template(FILL_TEMPLATE)
    text = render_fill(method, [target], seed=1, template=template, engine="psync", direct=False)
    (tmp_path / "job.fio").write_text(text)
    assert fio("job.fio", cwd=tmp_path).returncode == 0
    content = (tmp_path / "a:b c").read_bytes()
    assert len(content) == target.size
    empty = [n for n in range(0, len(content), 512) if content[n : n + 512] == bytes(512)]
    assert len(empty) == (0 if method == "random" else target.size // 512)


def test_own_file_runs_on_the_targets_alone(tmp_path):
    """A user's file with a stranger's device touches the targets and nothing else."""
    own = "[global]\nioengine=psync\nsize=64k\n[a]\nfilename=/dev/sdz\nrw=write\nbs=4k\n"
    jobs = run(Profile(name="own", fio=own), disks(tmp_path, 2), tmp_path)
    assert [job["jobname"] for job in jobs] == ["a-disk0", "a-disk1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d0", "d1", "job.fio"]
