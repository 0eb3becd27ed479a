"""What is wrong with a job file before fio has seen it: faults that fio accepts in silence.

An `error` makes the figures worthless or the file dangerous; a `warning` is said and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.sections import JobText, fio_flag, fio_seconds, split_filenames

#: Engines that do I/O on the given file or device and on nothing else, or do none at all.
LOCAL_ENGINES: Final = frozenset(
    ["libaio", "io_uring", "psync", "pvsync", "pvsync2", "sync", "vsync", "posixaio", "mmap"]
) | {"null", "cpuio"}

#: Options that reach beyond the targets, or that hcio sets itself, and why each is refused.
REFUSED: Final = {
    "include": "the file on the worker is not part of the plan",
    "directory": "it would create files beside the targets; targets come from the inventory",
    "opendir": "it would take every file below a directory as a target",
    "filename_format": "it would name files that are not targets",
    "unique_filename": "it would change the targets' names",
    "exec_prerun": "it runs a command on the worker",
    "exec_postrun": "it runs a command on the worker",
    "read_iolog": "a replay goes to the devices that the log names",
    "write_iolog": "it writes a file that is not a target",
    "replay_redirect": "it names a device that is not a target",
    "merge_blktrace_file": "it writes a file that is not a target",
    "lockfile": "it locks files that are not targets",
    "allow_mounted_write": "a mounted target is never written",
    "unlink": "it would delete the target, a device's node included",
    "unlink_each_loop": "it would delete the target, a device's node included",
    "ioscheduler": "it changes a setting of the worker and leaves it changed",
    "cgroup": "it changes a setting of the worker",
    "uid": "hcio decides whom fio runs as",
    "gid": "hcio decides whom fio runs as",
    "profile": "fio's built-in profile replaces the file's own jobs",
    "verify_state_save": "it writes a file that is not a target",
    "verify_state_load": "it reads a file that is not a target",
}
_LOGS: Final = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log")


@dataclass(frozen=True)
class Finding:
    """One thing found: how bad, a stable code, the section it is in, and the text."""

    level: Literal["error", "warning"]
    code: str
    section: str
    text: str

    def __str__(self) -> str:
        place = f"[{self.section}] " if self.section else ""
        return f"{self.level}: {place}{self.text} ({self.code})"


def lint_job(job: JobText) -> tuple[Finding, ...]:
    """Timing and measuring faults of every job section, in the file's order."""
    findings: list[Finding] = []
    for section, options in job.jobs():
        findings += _timing(section.name, options)
        findings += _measuring(section.name, options)
    if not any(True for _ in job.jobs()):
        findings.append(Finding("error", "no-jobs", "", "the file has no job section"))
    return tuple(findings)


def _timing(name: str, options: Mapping[str, str]) -> Iterator[Finding]:
    """The rules of ramp_time, runtime and time_based, as fio 3.33 was seen to behave."""
    runtime = fio_seconds(options["runtime"]) if "runtime" in options else None
    ramp = fio_seconds(options["ramp_time"]) if "ramp_time" in options else None
    based = fio_flag(options, "time_based")
    if based and not runtime:
        yield Finding(
            "error",
            "time_based-without-runtime",
            name,
            "time_based without runtime: fio warns on stderr only, goes once through the size "
            "and exits 0; set runtime",
        )
    if runtime and not based and options.get("ioengine") != "cpuio":
        yield Finding(
            "warning",
            "runtime-without-time_based",
            name,
            f"may end before {runtime:g} s: without time_based it ends when the size is done; "
            "add time_based",
        )
    if ramp and runtime and ramp >= runtime:
        yield Finding(
            "error",
            "ramp-longer-than-runtime",
            name,
            f"ramp {ramp:g} s is not shorter than runtime {runtime:g} s: fio may end inside the "
            "ramp with nothing measured; make runtime longer or ramp shorter",
        )


def _measuring(name: str, options: Mapping[str, str]) -> Iterator[Finding]:
    """What switches latency off, or hides an error."""
    off = [key for key in ("gtod_reduce", "disable_lat", "disable_clat") if fio_flag(options, key)]
    asked = [
        key
        for key in ("lat_percentiles", "clat_percentiles", "percentile_list")
        if options.get(key, "0") != "0"
    ]
    if off:
        also = f" although {', '.join(asked)} ask for percentiles" if asked else ""
        yield Finding(
            "warning",
            "latency-off",
            name,
            f"{', '.join(off)} switches latency off{also}: it will be `not measured`",
        )
    if options.get("continue_on_error", "none") not in ("none", "0"):
        yield Finding(
            "warning",
            "errors-continued",
            name,
            "continue_on_error lets fio go on after I/O errors; a job with errors still fails",
        )
    if "latency_target" in options and options.get("numjobs", "1") != "1":
        yield Finding(
            "warning",
            "latency-target-clones",
            name,
            "fio 3.33 multiplies latency_target by 1000 for all but the first of numjobs; "
            "write the jobs as sections of their own",
        )


def check_reach(job: JobText) -> tuple[Finding, ...]:
    """Everything in a user's file that would reach beyond the targets, each with its reason."""
    findings: list[Finding] = []
    for section in job.sections:
        options = section.options()
        findings += [
            Finding("error", "refused-option", section.name, f"{key}: {REFUSED[key]}")
            for key, value in options.items()
            if key in REFUSED and value != "0"
        ]
        findings += _reach_of_values(section.name, options)
    return tuple(findings)


def _reach_of_values(name: str, options: Mapping[str, str]) -> Iterator[Finding]:
    engine = options.get("ioengine", "psync")
    if engine not in LOCAL_ENGINES:
        yield Finding(
            "error",
            "refused-engine",
            name,
            f"ioengine={engine} can reach beyond the targets; allowed are "
            f"{', '.join(sorted(LOCAL_ENGINES))}",
        )
    for path in split_filenames(options.get("filename", "")):
        if not path.startswith("/dev/") or ".." in path.split("/"):
            yield Finding(
                "error",
                "refused-filename",
                name,
                f"filename={path} is not a target; leave filename out, or name devices "
                "(/dev/sda, /dev/sdb, ...) that stand for the worker's targets in order",
            )
    for key in _LOGS:
        if "/" in options.get(key, ""):
            yield Finding(
                "error", "refused-log", name, f"{key} writes outside the case's folder; use a name"
            )
    memory = options.get("mem", "")
    if ":" in memory:
        yield Finding("error", "refused-memory", name, f"mem={memory} maps a file on the worker")
