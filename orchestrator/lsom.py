"""vSAN OSA's cache in the words of an ESXi shell: what to ask, what to set, how answers read. Pure.

The nodes and limits are those of HCIBench's dropCache.py (its guide: vSAN 6.2 and later). Read
caches are dropped for each component; write buffers drain when the elevator runs all the time
and does not pause. A value is set by `vsish -e set NODE VALUE` and read by `vsish -e get NODE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.errors import WorkerError

OPTIONS: Final = "/config/LSOM/intOpts"
#: What drains fastest: the elevator always on, no pause between rounds, no throttle for dedupe.
DRAIN_SETTINGS: Final[Mapping[str, int]] = {
    "plogRunElevator": 1,
    "plogElevSleepTime": 1,
    "dedupElevThrottle": 0,
}
#: Builds without deduplication don't have it; the others are everywhere.
OPTIONAL_SETTINGS: Final = frozenset({"dedupElevThrottle"})

LOG_THRESHOLD: Final = "/vmkModules/plog/plogLogThreshold"
#: Below this there is no write buffer worth draining.
LEAST_LOG_THRESHOLD: Final = 1000

#: Bytes in a write buffer at which it counts as drained; it never gets to 0 under a live cluster.
DRAINED_BYTES: Final = 100 * 2**20
#: The counter is unsigned and may slip below 0: such a value means empty.
UNDERFLOW: Final = 10**19

_MISSING: Final = "-"
_DEVICE: Final = "device"

#: Reads every setting: one line `name value`, `-` where this build has none.
SETTINGS_SCRIPT: Final = (
    "for name in "
    + " ".join(DRAIN_SETTINGS)
    + f"""; do
  value=$(vsish -e get {OPTIONS}/$name 2>/dev/null | sed -n 's/.*Current value: *//p')
  echo "$name ${{value:-{_MISSING}}}"
done
"""
)

#: Drops the read cache of every component: a line `dropped N failed M`.
READ_CACHE_SCRIPT: Final = """\
dropped=0; failed=0
drop() {
  for component in $(vsish -e ls "$1" 2>/dev/null); do
    if yes | vsish -e set "$1${component%/}/dropRcCache" 1 >/dev/null 2>&1
    then dropped=$((dropped + 1)); else failed=$((failed + 1)); fi
  done
}
disks=$(vsish -e ls /vmkModules/lsom/disks/ 2>/dev/null)
if [ -n "$disks" ]; then
  for disk in $disks; do drop "/vmkModules/lsom/disks/${disk%/}/components/"; done
else
  drop /vmkModules/vsan/lsom/components/
fi
echo "dropped $dropped failed $failed"
"""

#: The write buffers: a line `device NAME BYTES` for each SSD, `device NAME -` where unreadable.
USAGE_SCRIPT: Final = f"""\
node=/vmkModules/plog/devices/
vsish -e ls "$node" | while read -r disk; do
  disk=${{disk%/}}
  ssd=$(vsish -e get "$node$disk/info" | sed -n 's/.*isSSD: *//p')
  [ "$ssd" = 1 ] || [ "$ssd" = true ] || continue
  bytes=$(vsish -e get "$node$disk/elevStats" | sed -n 's/.*plogDataUsage: *//p')
  echo "{_DEVICE} $disk ${{bytes:-{_MISSING}}}"
done
"""


@dataclass(frozen=True)
class SavedSettings:
    """What a host's settings were before hcio changed them."""

    host: str
    values: Mapping[str, int]

    def fields(self) -> dict[str, Any]:
        """The form for a journal."""
        return {"host": self.host, "values": dict(self.values)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> SavedSettings:
        """Read a journal's form back."""
        values = {str(name): int(value) for name, value in dict(fields["values"]).items()}
        return cls(str(fields["host"]), values)


def set_script(values: Mapping[str, int]) -> str:
    """Set options to values, one after the other, and fail when one could not be set.

    `yes` answers builds that ask whether a hidden option is really meant.
    """
    lines = ["status=0"]
    lines += [
        f"yes | vsish -e set {OPTIONS}/{name} {value} >/dev/null || status=1"
        for name, value in values.items()
    ]
    return "\n".join([*lines, "exit $status", ""])


def parse_settings(host: str, text: str) -> SavedSettings:
    """The settings that the host has, from SETTINGS_SCRIPT's lines.

    WorkerError when one that every build has is missing: then this is no vSAN OSA host.
    """
    values = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name in DRAIN_SETTINGS and (number := _number(value)) is not None:
            values[name] = number
    missing = [
        name for name in DRAIN_SETTINGS if name not in values and name not in OPTIONAL_SETTINGS
    ]
    if missing:
        raise WorkerError(
            host,
            "read cache settings",
            f"no {', '.join(missing)} among this host's options",
            means="this is no ESXi host of a vSAN OSA cluster, or vsish may not be used here",
            next_step="see that the inventory's ESXi hosts and user are right",
        )
    return SavedSettings(host, values)


def parse_number(text: str) -> int | None:
    """The number that a node without structure prints; None when it prints something else."""
    return _number(text.strip())


def parse_dropped(text: str) -> tuple[int, int] | None:
    """(dropped, failed) components from READ_CACHE_SCRIPT; None when it didn't get to its end."""
    match = re.search(r"^dropped (\d+) failed (\d+)$", text, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else None


def parse_usage(text: str) -> dict[str, int | None]:
    """Bytes in each SSD's write buffer by device; None where the host did not say."""
    usage: dict[str, int | None] = {}
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == _DEVICE:
            device, _, value = rest.rpartition(" ")
            usage[device] = _number(value)
    return usage


def is_drained(usage: int | None) -> bool:
    """Whether a write buffer counts as empty."""
    return usage is not None and (usage <= DRAINED_BYTES or usage >= UNDERFLOW)


def still_full(usage: Mapping[str, int | None]) -> dict[str, int | None]:
    """The devices that aren't drained yet."""
    return {device: left for device, left in usage.items() if not is_drained(left)}


def differing(wanted: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """What isn't as wanted, in words: `name is 1, should be 0`."""
    return [
        f"{name} is {found.get(name, 'gone')}, should be {value}"
        for name, value in wanted.items()
        if found.get(name) != value
    ]


def usable_settings(names: Iterable[str]) -> dict[str, int]:
    """The draining settings among the names that a host has."""
    return {name: value for name, value in DRAIN_SETTINGS.items() if name in set(names)}


def _number(text: str) -> int | None:
    match = re.match(r"(-?\d+|0x[0-9a-fA-F]+)\b", text)
    if match is None:
        return None
    return int(match[1], 16 if match[1].startswith("0x") else 10)
