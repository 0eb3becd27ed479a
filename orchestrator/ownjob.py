"""The user's own job file with the worker's targets filled in, and nothing else changed.

A device that the file names stands for a target: the first for the first, and so on. A file that
names none, or one, is a pattern: its sections are repeated for every target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.errors import ConfigError
from orchestrator.joblint import check_reach
from orchestrator.sections import (
    JobTarget,
    JobText,
    Line,
    Section,
    escape_filename,
    named_files,
    option_line,
    split_filenames,
)

#: They hold back all sections after them, so of several copies only the first may have them.
_BARRIERS: Final = ("stonewall", "new_group")


def fill_targets(job: JobText, targets: Sequence[JobTarget], *, name: str) -> JobText:
    """The file with `filename` set to the targets. `name` is the profile's, for errors.

    ConfigError when the file reaches beyond its targets, or names more devices than there are.
    """
    findings = check_reach(job)
    if findings:
        raise ConfigError(
            "\n  ".join([f"profile {name}: the job file is refused", *map(str, findings)]),
            next_step="take these options out; hcio gives the file its targets and nothing else",
        )
    devices = named_files(job)
    if len(devices) <= 1:
        return _repeat(job, targets)
    if len(devices) > len(targets):
        raise ConfigError(
            f"profile {name}: the job file names {len(devices)} devices "
            f"({', '.join(devices)}), the worker has {len(targets)} targets",
            next_step="give the worker more targets, or let the file name one device or none",
        )
    paths = {device: target.path for device, target in zip(devices, targets, strict=False)}
    return _replace(job, paths)


def _replace(job: JobText, paths: Mapping[str, str]) -> JobText:
    """Every device's name replaced by its target's path, where it stands."""

    def swap(line: Line) -> Line:
        if line.key != "filename":
            return line
        names = [escape_filename(paths[name]) for name in split_filenames(line.value or "")]
        return option_line("filename", ":".join(names), line.number)

    sections = tuple(
        replace(section, lines=tuple(swap(line) for line in section.lines))
        for section in job.sections
    )
    return JobText(job.head, sections)


def _repeat(job: JobText, targets: Sequence[JobTarget]) -> JobText:
    """Every job section once for each target; sections without I/O (cpuio) stay single."""
    idle = {s.line for s, options in job.jobs() if options.get("ioengine") == "cpuio"}
    repeated = {s.name for s, _ in job.jobs() if s.line not in idle}
    sections: list[Section] = []
    for section in job.sections:
        if section.is_global or section.line in idle:
            kept = tuple(line for line in section.lines if line.key != "filename")
            sections.append(replace(section, lines=kept))
            continue
        sections += [
            _copy(section, target, repeated, first=index == 0, alone=len(targets) == 1)
            for index, target in enumerate(targets)
        ]
    return JobText(job.head, tuple(sections))


def _copy(
    section: Section, target: JobTarget, repeated: set[str], *, first: bool, alone: bool
) -> Section:
    """One target's copy of a section, named after both; it waits for the same target's copies."""
    lines = [option_line("filename", escape_filename(target.path))]
    for line in section.lines:
        if line.key == "filename" or (line.key in _BARRIERS and not first):
            continue
        if line.key == "wait_for" and line.value in repeated and not alone:
            lines.append(option_line("wait_for", f"{line.value}-{target.label}", line.number))
            continue
        lines.append(line)
    name = section.name if alone else f"{section.name}-{target.label}"
    return replace(section, name=name, lines=tuple(lines))
