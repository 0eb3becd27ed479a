"""Easy-run sizing: HCIBench's formulas by release, every input's source, every step shown."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.sizing import Sizing, size_easy_run
from orchestrator.sizing_inputs import Input, parse_input, resolve_inputs

OSA = {
    "storage": "osa",
    "disk_groups": 8,
    "cache_gib": 6400,
    "capacity_gib": 60_000,
    "free_gib": 60_000,
}
HYBRID = OSA | {"disk_groups": 4, "cache_gib": 1600, "all_flash": False}
ESA = {"storage": "esa", "hosts": 4, "capacity_gib": 40 * 1024, "free_gib": 40 * 1024}
PLAIN = {"storage": "plain", "hosts": 4, "capacity_gib": 20 * 1024, "free_gib": 20 * 1024}


def _size(formula: str = "hcibench-3.0", **inputs: Any) -> Sizing:
    return size_easy_run(resolve_inputs(inputs, {}), formula)


def _shape(sizing: Sizing) -> tuple[int, int, int, int, int]:
    return (
        sizing.workers,
        sizing.disks_per_worker,
        sizing.disk_gib,
        sizing.iodepth_random,
        sizing.iodepth_sequential,
    )


@pytest.mark.parametrize(
    ("inputs", "shape"),
    [
        pytest.param(OSA, (16, 8, 14, 4, 1), id="osa all-flash 4x2 groups RAID-1"),
        pytest.param(OSA | {"erasure_coding": True}, (16, 8, 21, 4, 1), id="the same, RAID-5"),
        pytest.param(OSA | {"latency_target": "low"}, (16, 4, 28, 8, 2), id="the same, low"),
        pytest.param(HYBRID, (8, 8, 3, 4, 1), id="osa hybrid 4x1 groups"),
        pytest.param(ESA, (8, 8, 64, 16, 2), id="esa 4 hosts 40 TB"),
        pytest.param(
            ESA | {"hosts": 3, "capacity_gib": 3072, "free_gib": 3072},
            (6, 8, 10, 16, 2),
            id="esa 3 hosts 3 TB",
        ),
        pytest.param(PLAIN, (8, 8, 64, 16, 2), id="plain 4 hosts 20 TB"),
        pytest.param(OSA | {"checksum": False}, (16, 8, 14, 4, 4), id="osa without checksum"),
        pytest.param(
            OSA | {"checksum": False, "latency_target": "high"},
            (16, 4, 28, 8, 8),
            id="osa without checksum, latency target",
        ),
        pytest.param(ESA | {"latency_target": "medium"}, (8, 4, 64, 32, 4), id="esa, medium"),
    ],
)
def test_3_0_gives_the_worked_examples(
    inputs: dict[str, Any], shape: tuple[int, int, int, int, int]
) -> None:
    """Release 3.0: workers, disks, disk size and depths as HCIBench itself computes them."""
    assert _shape(_size(**inputs)) == shape


@pytest.mark.parametrize(
    ("inputs", "shape"),
    [
        # 8 x 2 x 1 workers; 4800 x 0.75 / 2 / (16 x 8) = 14.06
        pytest.param(OSA, (16, 8, 14, 4, 1), id="osa"),
        # two datastores: twice the workers, the same disks
        pytest.param(OSA | {"datastores": 2}, (32, 8, 14, 4, 1), id="osa, two datastores"),
        # RAID-6: 4800 x 0.75 / 1.66 / 128 = 16.9
        pytest.param(
            OSA | {"erasure_coding": True, "failures_to_tolerate": 2},
            (16, 8, 16, 4, 1),
            id="osa RAID-6",
        ),
        # 13653 x 0.25 / 2 / (16 x 8) = 13.3
        pytest.param(ESA, (16, 8, 13, 4, 1), id="esa"),
    ],
)
def test_2_8_3_differs_where_the_release_differed(
    inputs: dict[str, Any], shape: tuple[int, int, int, int, int]
) -> None:
    """Release 2.8.3: eight disks at depth 4, four workers a host on ESA, 1.66 for RAID-6."""
    sizing = _size("hcibench-2.8.3", **inputs)
    assert _shape(sizing) == shape
    assert sizing.workloads == ("4k70r", "4k100r", "8k50r", "256k0r")


def test_3_0_amplification_of_esa_depends_on_the_number_of_hosts() -> None:
    """RAID-5 on ESA costs 1.25 above four hosts and 1.5 up to four; RAID-6 1.5 everywhere."""

    def total(**more: Any) -> float:
        steps = {
            step.name: step.value for step in _size(**(ESA | {"erasure_coding": True} | more)).steps
        }
        return float(steps["amplification"])

    assert total(hosts=4) == 1.5
    assert total(hosts=5) == 1.25
    assert total(hosts=6, failures_to_tolerate=2) == 1.5


def test_the_base_is_halved_until_four_fifths_of_the_free_space_hold_it() -> None:
    """A fuller datastore gets smaller disks; each halving is a step of its own."""
    sizing = _size(**(OSA | {"free_gib": 2000}))
    halvings = [str(step) for step in sizing.steps if step.note.startswith("until")]
    assert halvings == [
        "base size = 4800 / 2 = 2400  (until 2000 x 0.8 holds it)",
        "base size = 2400 / 2 = 1200  (until 2000 x 0.8 holds it)",
    ]
    assert sizing.disk_gib == 3  # 1200 x 0.75 / 2 / 128 = 3.5


def test_2_8_3_on_a_full_datastore_ends_with_an_error() -> None:
    """The original halves for ever when less than a fifth is free; here it is a plain refusal."""
    with pytest.raises(ConfigError, match="no size fits"):
        _size("hcibench-2.8.3", **(OSA | {"free_gib": 1000}))


def test_a_witness_holds_no_disk_group_for_data() -> None:
    """With a witness host one group less counts."""
    assert _size(**(OSA | {"disk_groups": 9, "witness": True})).workers == 16


@pytest.mark.parametrize(
    ("inputs", "prepare", "percent"),
    [
        (OSA, "zero", None),
        (OSA | {"dedupe": True}, "random", 50),
        (ESA, "random", 50),
        (PLAIN, "random", 50),
    ],
)
def test_prepare_and_data_shape_follow_the_storage(
    inputs: dict[str, Any], prepare: str, percent: int | None
) -> None:
    """Zeros only on OSA without dedupe; random data comes with 50/50 compress and dedupe."""
    sizing = _size(**inputs)
    assert (sizing.prepare, sizing.compress_percent, sizing.dedupe_percent) == (
        prepare,
        percent,
        percent,
    )


def test_large_block_cases_and_latency_targets() -> None:
    """256k on OSA, 512k elsewhere; a latency target gives its two limits, max none."""
    osa, esa = _size(**OSA), _size(**(ESA | {"latency_target": "low"}))
    assert (osa.large_block, osa.latency_us) == (256 * 1024, None)
    assert (esa.large_block, esa.latency_us) == (512 * 1024, (1000, 3000))
    assert esa.workloads == ("4k70r", "8k50r", "4k100r", "4k0r", "512k100r", "512k0r")


def test_every_step_of_the_arithmetic_can_be_read() -> None:
    """The steps of the first worked example, as a user reads them."""
    assert [str(step) for step in _size(**OSA).steps] == [
        "base size = min(8 x 600, 6400) = 4800  (GiB of cache)",
        "ratio = 0.75  (all-flash)",
        "copies = (1 + 1) x (0 + 1) = 2",
        "amplification = copies = 2  (mirrors)",
        "workers = 8 x 2 = 16  (two for a disk group)",
        "disks per worker = 8 if no latency target else 4 = 8",
        "total = 4800 x 0.75 / 2 = 1800  (GiB over all workers)",
        "disk size = max(floor(1800 / 128), 1) = 14  (GiB)",
        "divider = 4 if checksum else 1 = 4  (for sequential cases)",
        "iodepth of random cases = 32 / 8 = 4",
        "iodepth of sequential cases = 4 / 4 = 1",
        "prepare = zero  (random only where duplicates are removed)",
    ]


def test_given_wins_over_vcenter_and_keeps_what_vcenter_said() -> None:
    """A user's figure is used, its source is `given`, and the detected one is still shown."""
    inputs = resolve_inputs({"disk_groups": 4}, OSA)
    assert inputs["disk_groups"] == Input("disk_groups", 4, "given", 8)
    assert inputs["cache_gib"].source == "vcenter"
    assert inputs["checksum"] == Input("checksum", True, "default")


def test_missing_inputs_are_listed_all_at_once() -> None:
    """Nothing is guessed: every input that must be known is named, with how to give it."""
    with pytest.raises(ConfigError) as caught:
        resolve_inputs({"storage": "osa", "free_gib": 5}, {})
    for name in ("capacity_gib", "disk_groups", "cache_gib"):
        assert f"--set {name}=" in caught.value.next_step
    assert "hosts" not in caught.value.next_step


def test_an_unknown_storage_kind_is_asked_for() -> None:
    """Without the kind no formula can be chosen, and the message says how to give it."""
    with pytest.raises(ConfigError, match="storage kind"):
        resolve_inputs({"hosts": 4}, {})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("host", "4", "did you mean 'hosts'"),
        ("hosts", "four", "not a whole number"),
        ("hosts", "0", "at least 1"),
        ("checksum", "maybe", "neither yes nor no"),
        ("storage", "vsan", "none of osa, esa, plain"),
    ],
)
def test_a_wrong_override_is_refused_with_what_would_be_right(
    name: str, text: str, said: str
) -> None:
    """Unknown names and values of another kind never reach a formula."""
    with pytest.raises(ConfigError, match=said):
        parse_input(name, text)


def test_overrides_are_read_by_their_kind() -> None:
    """Numbers, words and yes/no come out as such."""
    assert parse_input("hosts", "4") == 4
    assert parse_input("witness", "yes") is True
    assert parse_input("checksum", "false") is False
    assert parse_input("storage", "esa") == "esa"
    assert parse_input("site_failures_to_tolerate", "0") == 0


@pytest.mark.parametrize(
    ("formula", "inputs", "said"),
    [
        ("hcibench-2.8.3", PLAIN, "knows no plain datastores"),
        ("hcibench-2.8.3", ESA | {"latency_target": "low"}, "knows no latency targets"),
        ("hcibench-3.0", ESA | {"datastores": 2}, "exactly one datastore"),
        ("easy", ESA, "no sizing formula"),
        ("hcibench-3.0", OSA | {"disk_groups": 1, "witness": True}, "no disk group"),
    ],
)
def test_what_a_release_could_not_do_is_refused(
    formula: str, inputs: dict[str, Any], said: str
) -> None:
    """A formula is never bent: outside its release's range it says so."""
    with pytest.raises(ConfigError, match=said):
        _size(formula, **inputs)
