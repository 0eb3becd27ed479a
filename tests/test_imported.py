"""Importing HCIBench's folders: their files merged, their summary beside it, published figures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.main import run_cli
from orchestrator.errors import IncompatibleResults
from orchestrator.fio_output import parse_fio_output
from orchestrator.hcibench_folders import rounds, split_folder
from orchestrator.hcibench_summary import (
    Block,
    parse_settings,
    parse_summary,
    parse_usage,
)
from orchestrator.imported import CaseFolder, import_hcibench
from orchestrator.metrics import parse_metric
from orchestrator.results import RunResult, read_result

DATA = Path(__file__).parent / "data"
LAB = DATA / "hcibench" / "lab-test"
PUBLISHED = DATA / "hcibench" / "published-a"
CASE = "fio-2vmdk-100ws-4k-70rdpct-100randompct-4threads"
FOLDER = LAB / f"{CASE}-1700000000"

GROUPS = ((1, "a"), (2, "b"), (11, "a"))

#: workload: IOPS, MB/s, read ms, write ms, p95 read ms, p95 write ms, cpu.usage %
FIGURES = {
    "4k-70rdpct-100randompct-4threads": (30584.21, 119.0, 7.83, 23.73, 19.0, 51.0, 93.64),
    "4k-100rdpct-100randompct-4threads": (56653.0, 221.0, 6.77, 0.0, 16.0, 0.0, 95.91),
    "8k-50rdpct-100randompct-4threads": (14130.11, 110.0, 20.11, 34.34, 59.0, 72.0, 72.71),
    "256k-0rdpct-0randompct-1threads": (789.47, 197.0, 0.0, 123.32, 0.0, 236.0, 40.42),
}


def _published(workload: str) -> str:
    (path,) = PUBLISHED.glob(f"fio-8vmdk-100ws-{workload}-*-res.txt")
    return path.read_text()


@pytest.mark.parametrize("workload", FIGURES)
def test_published_summaries_are_read_as_printed(workload: str) -> None:
    """Every published figure comes out of its block, and the host table's average."""
    iops, rate, read, write, read_p95, write_p95, cpu = FIGURES[workload]
    summary = parse_summary(_published(workload))
    assert summary.blocks == (
        Block("vsanDatastore", "job0", 12, iops, rate, read, write, read_p95, write_p95),
    )
    assert summary.resources["Average"]["cpu.usage"] == cpu


def test_published_hosts_are_read() -> None:
    """The first published test has its three hosts."""
    hosts = parse_summary(_published("4k-70rdpct-100randompct-4threads")).resources
    assert list(hosts) == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "Average"]
    assert hosts["10.0.0.3"] == {"cpu.usage": 92.05, "cpu.utilization": 92.59, "mem.usage": 86.13}


@pytest.mark.parametrize("workload", FIGURES)
def test_published_rates_agree_with_the_block_size(workload: str) -> None:
    """A summary alone gives rates; bytes from the block size agree with their whole MiB/s."""
    folder = CaseFolder(f"fio-8vmdk-100ws-{workload}-1650000000", {}, _published(workload))
    case = import_hcibench([folder], source="x").result.cases[0]
    iops, rate, *_ = FIGURES[workload]
    assert parse_metric("iops").value(case.total) == pytest.approx(iops)
    found = parse_metric("bytes_per_s").value(case.total)
    assert found is not None
    assert rate <= found / 2**20 < rate + 1
    assert case.verdict.value == "unknown"
    assert parse_metric("read.p95").value(case.total) is None
    assert parse_metric("read.mean").value(case.total) is None


def test_several_stores_jobs_and_pods() -> None:
    """Blocks of several datastores and jobs, pods in place of VMs, early ones counted."""
    text = (
        "Datastore     = a\n"
        "There are 2 VMs finished testing early, those VMs are not used for summarizing results\n"
        "=====\nJOB_NAME\t= job0\nVMs\t\t= 3\nIOPS\t\t= 10.00 IO/S\n=====\n"
        "=====\nJOB_NAME\t= job1\nPODS\t\t= 3\nIOPS\t\t= 5.50 IO/S\n=====\n"
        "StorageClass  = b\n=====\nJOB_NAME\t= job0\nIOPS\t\t= nan IO/S\n=====\n"
        "Resource Usage:\nCPU USAGE\t= 51.5%\n"
        "Check the following results files that finished testing early:\n/x/vm-1.json\n"
    )
    summary = parse_summary(text)
    shown = [(b.store, b.job, b.vms, b.iops, b.finished_early) for b in summary.blocks]
    assert shown == [
        ("a", "job0", 3, 10.0, 2),
        ("a", "job1", 3, 5.5, 2),
        ("b", "job0", None, None, 0),
    ]
    assert summary.resources == {"Average": {"CPU USAGE": 51.5}}
    assert summary.early_files == ("/x/vm-1.json",)
    assert (summary.vms, summary.finished_early) == (3, 2)


STORES = (
    "Datastore     = a\n"
    "There are 1 VMs finished testing early, those VMs are not used for summarizing results\n"
    "=====\nJOB_NAME\t= job0\nVMs\t\t= 4\nIOPS\t\t= 100.00 IO/S\n=====\n"
    "There are 1 VMs finished testing early, those VMs are not used for summarizing results\n"
    "=====\nJOB_NAME\t= job1\nVMs\t\t= 4\nIOPS\t\t= 50.00 IO/S\n=====\n"
    "Datastore     = b\n=====\nJOB_NAME\t= job0\nVMs\t\t= 5\nIOPS\t\t= 100.00 IO/S\n=====\n"
    "Datastore     = c\nAll the VMs finished testing early, no results summarized\n"
)


def test_vms_of_several_stores_are_added_and_of_several_jobs_are_not() -> None:
    """Jobs run on the same VMs, each datastore has its own; one that ended nowhere is named."""
    summary = parse_summary(STORES)
    assert (summary.vms, summary.finished_early, summary.unsummarized) == (9, 1, ("c",))
    case = import_hcibench([CaseFolder(f"{CASE}-1700000000", {}, STORES)], source="x").result.cases[
        0
    ]
    assert (case.received_workers, case.expected_workers, case.degraded) == (9, 10, True)
    assert parse_metric("iops").value(case.total) == pytest.approx(250)
    assert case.verdict.reasons[0].evidence == "no VM of c ended in time"


@pytest.mark.parametrize("word", ["PODS", "Pods"])
def test_pods_of_both_releases(word: str) -> None:
    """3.0 first said Pods and cut to whole MiB/s, then PODS with two digits; a block that the
    parser appended once more counts once."""
    block = (
        f"StorageClass  = (default)\n=====\nJOB_NAME\t= job0\n{word}\t\t= 2\n"
        "IOPS\t\t= 8771.93 IO/S\nTHROUGHPUT\t= 34.27 MB/s\n=====\n"
    )
    summary = parse_summary(
        block * 2 + "All the Pods finished testing early, no results summarized"
    )
    assert (len(summary.blocks), summary.vms, summary.unsummarized) == (1, 2, ("(default)",))
    lab = _lab()
    folder = CaseFolder(lab.name, lab.outputs, block, lab.configuration)
    found = {d.figure: d for d in import_hcibench([folder], source="x").cases[0].differences}
    assert found["throughput"].theirs == 34.27
    assert not found["throughput"].differs


@given(st.text(alphabet="|=%:. \n\tJOBNAMEVsIOPS0123456789-+ResourceUg", max_size=200))
def test_no_summary_is_a_crash(text: str) -> None:
    """Any text gives a summary, none of its figures negative or not a number."""
    for block in parse_summary(text).blocks:
        assert block.iops is None or block.iops >= 0
    parse_settings(text)
    parse_usage(text)


def test_small_files() -> None:
    """vsan.cfg and resource_usage.info as they are; folder names split."""
    assert parse_settings("A: 1\nnothing\nA: 2\nB:\n") == {"A": "1; 2"}
    assert parse_usage('{"C": {"cpu.usage": 52.1, "x": "y"}, "D": 1}') == {"C": {"cpu.usage": 52.1}}
    assert parse_usage("[]") == parse_usage("{") == {}
    assert split_folder("a-b-1700000000") == ("a-b", 1700000000)
    assert split_folder("a-b") == ("a-b", None)
    ran = rounds(["a-1700000000", "b-1700000001", "a-1700000002"])
    assert [one.case for one in ran] == ["a.repeat=1", "b", "a.repeat=2"]


def test_groups_that_ran_together_are_one_case() -> None:
    """Groups of one round belong together; a group that comes again begins the next round."""
    alone = rounds(["group1-x-1700000000"])
    assert [(one.case, one.mixed) for one in alone] == [("group1-x", False)]
    names = [f"group{n}-{file}-17000000{second:02}" for second in (0, 50) for n, file in GROUPS]
    ran = rounds([*names, "x-1700000099"])
    assert [one.case for one in ran] == ["mixed.repeat=1", "mixed.repeat=2", "x"]
    assert ran[0].folders == tuple(names[:3])


def _lab() -> CaseFolder:
    outputs = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.json"))}
    summary = (LAB / f"{FOLDER.name}-res.txt").read_text()
    return CaseFolder(FOLDER.name, outputs, summary, {"number_vm": 3, "testing_duration": 4})


def test_repeated_documents_count_once_and_weights_are_right() -> None:
    """The last of six cumulative documents counts; means are weighted by I/O, not by VM."""
    case = import_hcibench([_lab()], source="x").result.cases[0]
    parts = [parse_fio_output(data, vm).jobs[0].read for vm, data in _lab().outputs.items()]
    reads = [(p, p.lat) for p in parts if p and p.lat]
    total = case.total
    assert total is not None
    assert total.read is not None
    assert total.read.latency_ns is not None
    assert {worker.documents for worker in case.workers.values() if worker.counted} == {6}
    assert total.read.ios == sum(read.ios or 0 for read, _ in reads)
    assert total.read.iops == pytest.approx(sum(read.iops or 0 for read, _ in reads))
    samples = sum(lat.count for _, lat in reads)
    weighted = sum(lat.count * (lat.mean or 0) for _, lat in reads) / samples
    assert total.read.latency_ns.mean == pytest.approx(weighted)


def test_the_workload_is_what_fio_says_else_what_the_name_says() -> None:
    """A rate cap that no name tells of is in fio's own options; a summary has its name alone."""
    (said,) = import_hcibench([_lab()], source="x").workloads[CASE].values()
    assert (said["block_size"], said["read_percent"], said["rate_iops"]) == (4096, 70, 2000)
    (named,) = (
        import_hcibench([CaseFolder(f"{CASE}-1700000000", {}, "")], source="x")
        .workloads[CASE]
        .values()
    )
    assert named == {k: said[k] for k in named}


def test_a_vm_without_a_file_is_missing() -> None:
    """The configuration asks for three VMs, two left files: 2 of 3, degraded."""
    case = import_hcibench([_lab()], source="x").result.cases[0]
    assert (case.received_workers, case.expected_workers, case.degraded) == (2, 3, True)
    assert case.workers["missing-1"].outcome == "broken"


def test_their_summary_is_kept_and_differences_are_shown() -> None:
    """Their IOPS and latencies differ from their own files, and each difference has its reason."""
    imported = import_hcibench([_lab()], source="x").cases[0]
    found = {item.figure: item for item in imported.differences}
    assert found["iops"].theirs == 8793.35
    assert found["iops"].differs
    assert "first document" in found["iops"].why
    assert not found["throughput"].differs
    assert found["read.latency.mean"].differs
    assert found["read.latency.p95"].ours is None
    assert "histograms" in found["read.latency.p95"].why


def test_a_vm_that_did_not_end_is_not_counted() -> None:
    """A file whose last document still has time left is a failed VM, its figures kept apart."""
    folder = _lab()
    whole = folder.outputs["hci-fio-vsan01-1"]
    cut = whole[: whole.index(b'"eta" : 1,')]
    cut = cut[: cut.rindex(b"\n}") + 3]
    outputs = {**folder.outputs, "hci-fio-vsan01-1": cut}
    case = import_hcibench([CaseFolder(folder.name, outputs)], source="x").result.cases[0]
    assert case.received_workers == 1
    assert "did not get to its end" in (case.workers["hci-fio-vsan01-1"].reason or "")


def test_a_difference_of_vms_is_said_before_any_other() -> None:
    """HCIBench's two VMs against the one whose file is whole: that is the reason."""
    lab = _lab()
    outputs = {**lab.outputs, "hci-fio-vsan01-2": b""}
    folder = CaseFolder(lab.name, outputs, lab.summary, lab.configuration)
    found = import_hcibench([folder], source="x").cases[0].differences
    assert {item.why for item in found if item.differs} == {
        "HCIBench's figures are of 2 VMs, its files hold those of 1"
    }


def test_without_a_configuration_nobody_knows_how_many_vms_there_were() -> None:
    """HCIBench is silent about a VM whose file is missing, so such a case isn't valid."""
    lab = _lab()
    (case,) = import_hcibench([CaseFolder(lab.name, lab.outputs)], source="x").result.cases
    assert case.verdict.value == "unknown"
    assert case.verdict.reasons[0].code == "expected-workers-not-known"
    assert case.timing.ramp_s is None
    (known,) = import_hcibench([lab], source="x").result.cases
    assert "expected-workers-not-known" not in {reason.code for reason in known.verdict.reasons}


def test_vdbench_summaries_have_the_same_names() -> None:
    """Rates of a vdbench test are split by the percent in its name, as fio's are."""
    folder = CaseFolder(CASE.replace("fio-", "vdb-") + "-1700000000", {}, STORES)
    (case,) = import_hcibench([folder], source="x").result.cases
    assert parse_metric("read.iops").value(case.total) == pytest.approx(0.7 * 250)


def _groups(outputs: tuple[int, ...], *, summaries: bool = False) -> list[CaseFolder]:
    """Two groups of a mix, each with the given number of VMs' files, of two VMs configured."""
    lab = _lab()
    stated = {"vm_groups": [{"number_vm": 2}, {"number_vm": 2}], "number_vm": 0}
    return [
        CaseFolder(
            f"group{number + 1}-{CASE}-170000000{number}",
            dict(list(lab.outputs.items())[:count]),
            lab.summary if summaries else None,
            stated,
        )
        for number, count in enumerate(outputs)
    ]


def test_a_mixed_workload_is_one_case_with_its_groups() -> None:
    """The total that HCIBench doesn't give: sums of the groups, counts exact, VMs kept apart."""
    imported = import_hcibench(_groups((2, 2), summaries=True), source="x")
    (case,) = imported.result.cases
    (lab,) = import_hcibench([_lab()], source="x").result.cases
    assert (case.case, case.received_workers, case.expected_workers) == ("mixed", 4, 4)
    assert case.total is not None
    assert lab.total is not None
    assert parse_metric("iops").value(case.total) == pytest.approx(
        2 * (parse_metric("iops").value(lab.total) or 0)
    )
    assert [group.total for group in case.groups.values()] == [lab.total, lab.total]
    assert "groups-not-together" in {reason.code for reason in case.verdict.reasons}
    assert len(set(imported.workers[f"group2-{CASE}-1700000001"].values()) & set(case.workers)) == 2
    assert {item.group for item in imported.cases} == set(case.groups)
    assert set(imported.workloads["mixed"]) == set(case.groups)
    assert all(item.differences[0].theirs == 8793.35 for item in imported.cases)


def test_a_group_without_files_is_missing_not_forgotten() -> None:
    """A group's VMs count as expected even where it left nothing."""
    (case,) = import_hcibench(_groups((2, 0)), source="x").result.cases
    assert (case.received_workers, case.expected_workers, case.degraded) == (2, 4, True)
    assert [group.received_workers for group in case.groups.values()] == [2, 0]


def test_summaries_of_groups_add_up() -> None:
    """Without any VM's file the rates of the groups' summaries are added, and marked."""
    (case,) = import_hcibench(_groups((0, 0), summaries=True), source="x").result.cases
    assert parse_metric("iops").value(case.total) == pytest.approx(2 * 8793.35)
    assert case.verdict.reasons[0].code == "from-summary"
    assert case.received_workers == 4


def test_command_imports_a_mixed_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file of every group is in the run folder, though two groups name their VMs alike."""
    source = tmp_path / "mix"
    for number in (1, 2):
        shutil.copytree(FOLDER, source / f"group{number}-{CASE}-170000000{number}")
    runs = tmp_path / "runs"
    assert run_cli(["import", "hcibench", str(source), "--runs", str(runs), "--name", "mix"]) == 0
    shown = capsys.readouterr().out
    assert f"mixed/group2-{CASE}: 2 of" in shown
    kept = sorted((runs / "mix" / "raw" / "mixed").rglob("fio.json"))
    assert len(kept) == 2 * len(list(FOLDER.glob("*.json")))
    assert {path.parent.name for path in kept} <= set(_result(runs, "mix").cases[0].workers)


def test_nothing_to_import_is_an_error(tmp_path: Path) -> None:
    """A folder without any result says what was looked for."""
    with pytest.raises(IncompatibleResults, match="no result of HCIBench"):
        import_hcibench([], source="x")
    assert run_cli(["import", "hcibench", str(tmp_path), "--runs", str(tmp_path / "r")]) == 3


def _result(runs: Path, name: str) -> RunResult:
    path = runs / name / "result.json"
    return read_result(path.read_bytes(), str(path))


def test_command_imports_a_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run folder holds the files verbatim, the result and HCIBench's words; no accounts."""
    assert run_cli(["import", "hcibench", str(LAB), "--runs", str(tmp_path)]) == 0
    assert "2 of 3 VMs" in capsys.readouterr().out
    raw = tmp_path / "hcibench-lab-test" / "raw" / CASE
    for path in FOLDER.glob("*.json"):
        assert (raw / path.stem / "fio.json").read_bytes() == path.read_bytes()
    assert (raw / "hcibench" / "res.txt").is_file()
    assert not list(tmp_path.rglob("hcibench.cfg"))
    provenance = _result(tmp_path, "hcibench-lab-test").provenance
    assert provenance["conditions"]["storage_policy"] == "RAID-5"
    assert provenance["conditions"]["vSAN Type"] == "All-Flash"
    assert provenance["hcibench"][CASE]["summary"]["blocks"][0]["iops"] == 8793.35


def test_command_imports_one_case_and_published_summaries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One case's folder finds its summary beside it; summaries alone are imported too."""
    arguments = ["--runs", str(tmp_path), "--name", "one"]
    assert run_cli(["import", "hcibench", str(FOLDER), *arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [case["case"] for case in document["cases"]] == [CASE]
    assert document["provenance"]["hcibench"][CASE]["differences"]
    assert run_cli(["import", "hcibench", str(PUBLISHED), "--runs", str(tmp_path)]) == 0
    assert len(_result(tmp_path, "hcibench-published-a").cases) == 4
    # a second import under the same name doesn't write over the first
    assert run_cli(["import", "hcibench", str(PUBLISHED), "--runs", str(tmp_path)]) == 2


def test_the_report_of_an_import_shows_what_was_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hcio report` of the run prints what the import printed: every published figure is in it."""
    run_cli(["import", "hcibench", str(PUBLISHED), "--runs", str(tmp_path), "--name", "a"])
    printed = capsys.readouterr().out
    assert run_cli(["report", "a", "--runs", str(tmp_path)]) == 3
    assert capsys.readouterr().out == printed
    for figures in FIGURES.values():
        assert all(f"{value:,.4f}" in printed for value in figures[:6] if value)
        assert f"cpu.usage {figures[6]:g} %" in printed
    run_cli(["import", "hcibench", str(LAB), "--runs", str(tmp_path), "--name", "b"])
    assert "HCIBench averages the VMs' means without weights" in capsys.readouterr().out
    run_cli(["list", "--runs", str(tmp_path)])
    assert "a  imported from hcibench  finished  4 done" in capsys.readouterr().out


def test_blocks_of_several_stores_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block as HCIBench prints it, the VMs that it left out, the store without a block."""
    (tmp_path / f"{CASE}-1700000000-res.txt").write_text(STORES)
    run_cli(["import", "hcibench", str(tmp_path), "--runs", str(tmp_path / "r"), "--name", "a"])
    shown = capsys.readouterr().out
    assert "  a job1: 4 VMs, 50.00 IOPS\n  b job0: 5 VMs, 100.00 IOPS\n" in shown
    assert "left out by HCIBench: 1 VMs" in shown
    assert "c: all VMs finished early" in shown


@pytest.mark.parametrize("name", ["../evil", "a/b", "=x", "-x", ".."])
def test_a_name_is_a_folder_below_runs(tmp_path: Path, name: str) -> None:
    """An id that leads elsewhere is usage, and nothing is written."""
    runs = tmp_path / "a" / "runs"
    assert run_cli(["import", "hcibench", str(LAB), "--runs", str(runs), f"--name={name}"]) == 2
    assert not list(tmp_path.iterdir())


def test_a_file_named_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its I/Os would count twice."""
    file = DATA / "cases" / "06-no-samples" / "read-only.json"
    again = file.parent / "." / file.name
    assert run_cli(["import", "fio", str(file), str(again), "--runs", str(tmp_path)]) == 2
    assert "count twice" in capsys.readouterr().err


def test_command_imports_plain_fio_case_22(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 22 as a run folder: percentiles from summed bins, the files verbatim below raw/."""
    folder = DATA / "cases" / "22-merge-fast-and-slow-vm"
    expected = json.loads((folder / "expected.json").read_text())
    files = [str(path) for path in sorted(folder.glob("vm*.json"))]
    assert run_cli(["import", "fio", *files, "--runs", str(tmp_path), "--name", "plain"]) == 0
    assert "imported as plain" in capsys.readouterr().err
    case = _result(tmp_path, "plain").cases[0]
    assert case.total is not None
    assert case.total.read is not None
    assert case.total.read.latency_ns is not None
    assert case.total.read.latency_ns.count == expected["N"]
    assert case.total.read.latency_ns.percentiles["99"] == expected["merged"]["99"]
    for file in files:
        kept = tmp_path / "plain" / "raw" / "fio" / Path(file).stem / "fio.json"
        assert kept.read_bytes() == Path(file).read_bytes()


def test_a_file_that_cannot_be_read_is_usage(tmp_path: Path) -> None:
    """A wrong path ends before a run folder is made."""
    runs = tmp_path / "r"
    assert run_cli(["import", "fio", str(tmp_path / "none.json"), "--runs", str(runs)]) == 2
    assert not runs.exists()
