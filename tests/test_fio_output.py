"""Parsing fio's output: real and derived files of public reports, and what damage does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import UnreadableOutput
from orchestrator.fio_output import parse_fio_output, parse_fio_outputs
from orchestrator.measured import Latency, WorkerOutput

DATA = Path(__file__).parent / "data"
CASES = DATA / "cases"


def parse(case: str, name: str) -> WorkerOutput:
    return parse_fio_output((CASES / case / name).read_bytes(), name)


def expected(case: str) -> dict[str, Any]:
    return json.loads((CASES / case / "expected.json").read_text())


def p(latency: Latency | None, percent: float) -> int | None:
    assert latency is not None
    if latency.histogram is not None:
        return latency.histogram.percentile(percent, cap=latency.max)
    return latency.printed.get(percent)


@pytest.mark.parametrize("name", sorted(expected("01-text-around-json")))
def test_case_1_text_around_the_document_is_kept_apart(name: str) -> None:
    """Lines around the JSON are kept, and the figures are those of the document."""
    want, output = expected("01-text-around-json")[name], parse("01-text-around-json", name)
    assert list(output.text_before) == want["text_lines_before"]
    assert len(output.text_after) == want["text_lines_after"]
    (job,) = output.jobs
    assert (job.name, job.error) == (want["job"], want["error"])
    assert job.read is not None
    assert job.write is not None
    assert (job.read.iops, job.write.iops) == (want["read_iops"], want["write_iops"])


def test_case_3_the_last_of_several_documents_counts() -> None:
    """Cumulative documents are counted, not summed."""
    output = parse("03-status-interval", "status-interval.json")
    assert (output.documents, output.complete) == (5, True)
    assert output.jobs[0].read is not None
    assert output.jobs[0].read.ios == 8000
    assert output.jobs[0].read.iops == 1999.500125


def test_case_3_a_cut_last_document_makes_it_incomplete() -> None:
    """The last complete document is there, and it is known that a later one was cut."""
    output = parse("03-status-interval", "killed-during-last.json")
    assert (output.documents, output.complete) == (4, False)
    assert output.jobs[0].read is not None
    assert output.jobs[0].read.ios == 7797


@pytest.mark.parametrize(("name", "reason"), sorted(expected("04-truncated")["unusable"].items()))
def test_case_4_a_damaged_file_is_named_with_its_reason(name: str, reason: str) -> None:
    """Cut, empty and text-only files raise UnreadableOutput with the reason."""
    with pytest.raises(UnreadableOutput, match=name) as caught:
        parse("04-truncated", name)
    assert caught.value.reason == reason


@pytest.mark.parametrize("name", ["read-only.json", "no-trim-sync-diskutil.json"])
def test_case_6_missing_sections_are_unknown(name: str) -> None:
    """A direction without I/O has no latency; absent sections are None."""
    (job,) = parse("06-no-samples", name).jobs
    assert job.read is not None
    assert job.write is not None
    assert p(job.read.clat, 99.0) == 788
    assert (job.write.iops, job.write.lat, job.write.clat) == (0.0, None, None)
    assert job.trim is None
    assert job.sync is None


def test_case_7_latency_that_was_not_measured_is_none() -> None:
    """gtod_reduce leaves IOPS and takes latency away; it is not 0."""
    (job,) = parse("07-latency-not-measured", "gtod-reduce.json").jobs
    assert job.read is not None
    assert (job.read.ios, job.read.iops) == (2000, 1998.001998)
    assert (job.read.lat, job.read.clat) == (None, None)


@pytest.mark.parametrize("name", ["fio-2.20.json", "fio-3.1.json"])
def test_case_8_old_names_and_units_are_converted(name: str) -> None:
    """Figures of old versions are in ns and bytes, and the coarseness is noted."""
    want, output = expected("08-old-fio-units")[name], parse("08-old-fio-units", name)
    side = output.jobs[0].read
    assert side is not None
    assert side.clat is not None
    assert side.bytes == want["io_bytes"]
    assert side.bytes_per_s == want["bw_bytes_per_s"]
    assert side.clat.mean == pytest.approx(want["clat_mean_ns"])
    assert p(side.clat, 99.0) == want["p99_ns"]
    assert "coarse-units" in {note.code for note in output.notes}


def test_case_10_both_kinds_of_latency_are_kept_apart() -> None:
    """Percentiles stand under the kind that fio printed them for."""
    for number, name in enumerate(("vm1-clat-only", "vm2-lat-only", "vm3-both"), 1):
        want = expected("10-lat-or-clat-percentiles")
        side = parse("10-lat-or-clat-percentiles", f"{name}.json").jobs[0].read
        assert side is not None
        assert p(side.clat, 99.0) == want["clat_p99_ns"][f"vm{number}"]
        assert p(side.lat, 99.0) == want["lat_p99_ns"][f"vm{number}"]


def test_case_11_entries_of_one_name_are_all_there() -> None:
    """Without group reporting each of numjobs is an entry of its own."""
    output = parse("11-ungrouped-numjobs", "four-entries.json")
    assert [job.name for job in output.jobs] == ["vmjob"] * 4


def test_case_13_options_are_a_cross_check_with_defaults() -> None:
    """Job options override global ones, and fio's defaults fill the rest."""
    job = parse("13-metadata-not-of-this-job", "options-only-global.json").jobs[0]
    found = {name: job.option(name) for name in ("rw", "bs", "numjobs", "iodepth")}
    assert found == {"rw": "randread", "bs": "4k", "numjobs": "4", "iodepth": "1"}
    assert parse("13-metadata-not-of-this-job", "no-iodepth.json").jobs[0].option("iodepth") == "1"


def test_case_13_a_hybrid_group_is_labelled() -> None:
    """An entry whose I/O its own options can't have done is a mixed group."""
    assert parse("13-metadata-not-of-this-job", "group-hybrid.json").jobs[0].mixed_group
    assert not parse("13-metadata-not-of-this-job", "options-only-global.json").jobs[0].mixed_group


@pytest.mark.parametrize("name", ["two-clients", "two-clients-two-jobs", "one-client"])
def test_case_15_the_summary_of_all_clients_is_left_out(name: str) -> None:
    """Clients are told apart by name and port, and the summary entry doubles nothing."""
    want = expected("15-client-server")[f"{name}.json"]
    output = parse("15-client-server", f"{name}.json")
    assert len(output.jobs) == want["entries"]
    assert sorted({job.host for job in output.jobs if job.host}) == want["hosts"]
    for side in ("read", "write"):
        total = sum(getattr(job, side).iops for job in output.jobs)
        assert total == pytest.approx(want[f"{side}_iops"], abs=0.06)


def test_case_18_a_latency_longer_than_the_run_is_rejected() -> None:
    """A mean of centuries goes, IOPS stays, and a note says so."""
    output = parse("18-impossible-latency", "latency-of-centuries.json")
    side = output.jobs[0].read
    assert side is not None
    assert (side.lat, side.clat, side.iops) == (None, None, 1999.50025)
    assert [note.code for note in output.notes] == ["impossible-latency"]


def test_case_18_a_percentile_above_the_maximum_is_capped() -> None:
    """The middle of the last bin may exceed the maximum; the maximum is reported."""
    side = parse("18-impossible-latency", "percentile-above-max.json").jobs[0].read
    assert side is not None
    assert side.clat is not None
    assert side.clat.histogram is not None
    assert side.clat.histogram.percentile(99.9) == 2179072
    assert p(side.clat, 99.9) == 2177213


def test_case_19_sync_latency_has_its_own_section() -> None:
    """Flush latency is its own, although its section counts no I/Os."""
    want, (job,) = expected("19-sync-latency"), parse("19-sync-latency", "fdatasync.json").jobs
    assert job.sync is not None
    assert job.write is not None
    assert job.sync.count == want["sync_count"]
    assert p(job.sync, 99.0) == want["sync_p99_ns"]
    assert p(job.write.clat, 99.0) == want["write_p99_ns"]


@pytest.mark.parametrize(
    ("name", "iops", "codes"),
    [
        ("nan.json", 3204.225352, ["not-finite"]),
        ("python-style.json", 3204.225352, ["not-finite"]),
        ("inf.json", None, ["not-finite", "rate-unknown"]),
    ],
)
def test_case_21_nan_and_inf_are_unknown(name: str, iops: float | None, codes: list[str]) -> None:
    """C's and Python's spellings parse; what they stood for is None, and noted."""
    output = parse("21-nan-and-inf", name)
    assert output.jobs[0].write is not None
    assert output.jobs[0].write.iops == iops
    assert [note.code for note in output.notes] == codes


def test_case_32_the_latency_target_is_taken_as_fio_gives_it() -> None:
    """The target that each job really ran with is kept."""
    jobs = parse("32-per-job-limits", "latency-target-3-jobs.json").jobs
    assert [job.latency_target_ns for job in jobs] == [10**7, 10**10, 10**10]


def test_case_33_text_without_json_is_shown() -> None:
    """fio's own words are the error, not a parser's traceback."""
    with pytest.raises(UnreadableOutput, match="cannot open shared object file") as caught:
        parse("33-engine-or-direct-missing", "stdout.txt")
    assert caught.value.reason == "no JSON"


@pytest.mark.parametrize("name", ["stdout-latin1.bin", "pty-sudo.bin"])
def test_case_40_odd_bytes_and_line_ends_do_not_matter(name: str) -> None:
    """Undecodable bytes become replacement characters; CRLF and a prompt are text."""
    output = parse("40-odd-bytes-and-sudo-text", name)
    assert output.jobs[0].read is not None
    assert output.jobs[0].read.ios == 2000
    assert len(output.text_before) == 1
    assert ("�" in output.text_before[0]) == (name == "stdout-latin1.bin")


def test_case_40_bytes_that_are_no_text_are_no_json() -> None:
    """Another encoding raises UnreadableOutput and nothing else."""
    with pytest.raises(UnreadableOutput, match="no JSON"):
        parse("40-odd-bytes-and-sudo-text", "stderr-gbk.bin")


def test_a_document_after_a_prompt_without_line_end_is_found() -> None:
    """The opening brace needn't stand at the start of a line."""
    data = b"Password: " + (CASES / "06-no-samples" / "read-only.json").read_bytes().strip()
    assert parse_fio_output(data, "w").jobs[0].name == "cp"


def test_json_without_jobs_is_not_fio() -> None:
    """Another program's JSON is refused by name."""
    with pytest.raises(UnreadableOutput) as caught:
        parse_fio_output(b'{"hello": 1}\n', "w")
    assert caught.value.reason == "not fio"


def test_bins_that_do_not_add_up_are_left_out() -> None:
    """A histogram that disagrees with fio's own count is dropped with a note."""
    document = json.loads((DATA / "truth/mild/w1.json").read_text())
    document["jobs"][0]["read"]["lat_ns"]["bins"]["22656"] += 5
    output = parse_fio_output(json.dumps(document).encode(), "w")
    assert output.jobs[0].read is not None
    assert output.jobs[0].read.lat is not None
    assert output.jobs[0].read.lat.histogram is None
    assert [note.code for note in output.notes] == ["bins-unreadable"]


@pytest.mark.parametrize("bad", [-1, 1.5, "x", None, [1], {"1": 2}, 2**70])
def test_bins_that_are_not_counts_are_left_out(bad: object) -> None:
    """Whatever stands where a count should be, the parser keeps its feet."""
    document = json.loads((DATA / "truth/mild/w1.json").read_text())
    document["jobs"][0]["read"]["lat_ns"]["bins"]["22656"] = bad
    output = parse_fio_output(json.dumps(document).encode(), "w")
    assert output.jobs[0].read is not None
    assert output.jobs[0].read.lat is not None
    assert output.jobs[0].read.lat.histogram is None


@pytest.mark.parametrize("bins", [{}, {"": 5}, {"100": 1, "": 5}, {"200": 1, "100": 2}, {"-1": 1}])
def test_only_the_unreadable_bins_of_a_document_are_left_out(bins: dict[str, int]) -> None:
    """Empty, nameless and falling bins are dropped with a note; the histograms beside them stay."""
    document = json.loads((DATA / "truth/mild/w1.json").read_text())
    document["jobs"][0]["read"]["lat_ns"]["bins"] = bins
    output = parse_fio_output(json.dumps(document).encode(), "w")
    assert output.jobs[0].read is not None
    assert output.jobs[0].read.lat is not None
    assert output.jobs[0].read.clat is not None
    assert output.jobs[0].read.lat.histogram is None
    assert output.jobs[0].read.clat.histogram is not None
    assert [note.code for note in output.notes] == ["bins-unreadable"]


def test_outputs_read_together_are_those_read_alone() -> None:
    """A damaged output among good ones gives its error in its place and harms no other."""
    good = [path.read_bytes() for path in sorted((DATA / "truth" / "mild").glob("w*.json"))[:2]]
    first, bad, last = parse_fio_outputs([(good[0], "a"), (b"oops", "b"), (good[1], "c")])
    assert isinstance(bad, UnreadableOutput)
    for together, data in ((first, good[0]), (last, good[1])):
        assert isinstance(together, WorkerOutput)
        assert together == parse_fio_output(data, "w")


def test_a_repeated_key_counts_once_the_last() -> None:
    """Repeated `global options`, as fio's client mode writes them, are no trouble."""
    output = parse("15-client-server", "two-clients.json")
    assert output.jobs[0].option("iodepth") == "4"


def test_a_damaged_later_document_makes_it_incomplete() -> None:
    """A last document that closes but can't be read is no reason to take an earlier one for it."""
    data = (CASES / "03-status-interval" / "status-interval.json").read_bytes()
    place = data.rindex(b'"jobname"')
    output = parse_fio_output(data[:place] + b"oops " + data[place:], "w")
    assert (output.documents, output.complete) == (4, False)


def test_bins_with_a_torn_separator_are_left_out() -> None:
    """A comma too many between two bins costs the histogram, not the whole output."""
    text = (CASES / "10-lat-or-clat-percentiles" / "vm3-both.json").read_text()
    document = json.loads(text)
    latency = document["jobs"][0]["read"]["clat_ns"]
    first, second, *_ = latency["bins"]
    torn = json.dumps(document).replace(f'"{second}": ', f'"{second},,": ', 1)
    assert first != second
    output = parse_fio_output(torn.encode(), "w")
    assert "bins-unreadable" in {note.code for note in output.notes}
