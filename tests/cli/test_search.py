"""`hcio search` before anything runs: what it refuses, its dry run, the probes it would make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import cli
from orchestrator.errors import HcioError
from orchestrator.profiles import Profile
from orchestrator.sought import Sought, asked_iops, least_rate, probe_case
from orchestrator.suites import Case

SLO = ("--slo", "read.p99 <= 1ms")


def ask(*words: str, folder: Path) -> str:
    """What the command prints; its own errors are raised."""
    result = CliRunner().invoke(
        cli, ["search", *words, "--runs", str(folder / "runs")], standalone_mode=False
    )
    if isinstance(result.exception, HcioError):
        raise result.exception
    assert result.exception is None, result.exception
    return result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("easy-run", *SLO), "a search is over the load of one profile"),
        (("4k-100r-random", *SLO, "--set", "iodepth=1,2"), "a search is over the load of one"),
        (("4k-100r-random", *SLO, "--set", "engine=psync"), "one I/O in flight whatever"),
        (("4k-100r-random", *SLO, "--set", "until=steady"), "until has no place in a search"),
        (("4k-100r-random", *SLO, "--least", "9", "--most", "8"), "--most is below --least"),
        (("4k-100r-random", *SLO, "--probe", "0", "--dry-run"), "--probe is 0"),
        (("4k-100r-random", "--slo", "write.p99 <= 1s", "--dry-run"), "has no writes"),
        (("4k-100r-random", "--slo", "vs baseline iops >= -5%"), "an objective is of the probe"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """Before a folder is made, with the reason."""
    with pytest.raises(HcioError, match=said):
        ask(*words, "--local", folder=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_the_dry_run_shows_a_probe_and_a_confirmation(tmp_path: Path) -> None:
    """The anchor at its short length and the same load at the profile's own; nothing is made."""
    words = ("4k-100r-random", *SLO, "--local", "--dry-run", "--json", "--most", "32")
    cases = json.loads(ask(*words, "--probe", "7s", folder=tmp_path))["cases"]
    assert [case["case"] for case in cases] == ["probe-01.iodepth=32", "probe-02.iodepth=32.full"]
    assert cases[0]["expected_s"] - cases[0]["ramp_s"] == 7
    assert cases[1]["expected_s"] > 60
    assert not (tmp_path / "runs").exists()


def test_the_dry_run_warns_of_a_cap_without_room(tmp_path: Path) -> None:
    """Lint's warnings stand beside the case that they are about."""
    words = ("4k-100r-random", *SLO, "--local", "--dry-run", "--set", "rate.iops=5000")
    text = ask(*words, "--set", "engine=libaio", "--most", "16", folder=tmp_path)
    assert "  warning: depth 16 at 5,000 IOPS a job" in text
    assert "iodepth 5000 rides out a second" in text


def sought(targets: tuple[int, ...] = (2, 2), **fields: object) -> Sought:
    """A search by rate over a mixed profile."""
    profile = Profile.model_validate(
        {"name": "p", "block_size": "4k", "read_percent": 70, "iodepth": 4, **fields}
    )
    return Sought(
        slo=("p99 <= 1ms",),
        axis="rate",
        case=Case(id="p", groups={"all": profile}),
        targets=targets,
        probe_runtime=10,
        probe_ramp=0,
        least=1,
        most=256,
        resolution=0.05,
        most_probes=24,
        curve_points=6,
    )


@pytest.mark.parametrize("load", [40, 41, 999, 12_345, 400_000])
def test_a_rate_probe_asks_for_its_load_and_little_more(load: int) -> None:
    """fio's caps are whole numbers a job: together they are never below the load, and above it by
    less than one for each job and direction of each worker."""
    search = sought(numjobs=3)
    case = probe_case(search, 1, load, full=False)
    rate = case.groups["all"].rate
    assert rate is not None
    assert isinstance(rate.iops, int)
    assert load <= asked_iops(search, rate.iops) <= load + 2 * 2 * 2 * 3
    assert case.id == f"probe-01.rate={load}"


def test_the_depth_grows_with_the_rate_up_to_what_a_worker_allows() -> None:
    """A job's second of I/Os fits its depth; all jobs together stay below the kernel's limit."""
    case = probe_case(sought(), 1, 4_000, full=True)
    assert case.groups["all"].iodepth == 1_000
    case = probe_case(sought(numjobs=8), 1, 4_000_000, full=True)
    assert case.groups["all"].iodepth * 2 * 8 <= 32_768
    assert probe_case(sought(), 2, None, full=True).groups["all"].iodepth == 4


def test_the_least_rate_can_be_split() -> None:
    """Each job's direction gets at least one I/O a second on every worker."""
    least = least_rate(sought(numjobs=3).profile, (2, 2))
    assert asked_iops(sought(numjobs=3), least // 2) >= 2 * 2 * 2 * 3
