import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from orchestrator import units


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("50GiB", 50 * 2**30),
        ("1.5g", 3 * 2**29),
        ("512", 512),
        (512, 512),
        ("512B", 512),
        ("64 MiB", 2**26),
        ("2t", 2**41),
    ],
)
def test_size_is_read_as_fio_users_write_it(text, size):
    """k, m, g and KiB, MiB, GiB are 1024-based; a bare number is bytes."""
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "k", "4x", "-1", "0.3", "1:30", "4iB", "1e3", True, None, [4]]
)
def test_what_is_no_size_is_refused(text):
    """Anything but a whole number of bytes is refused, YAML's own values too."""
    with pytest.raises(ValueError, match=r"size|whole"):
        units.parse_size(text)


def test_gigabytes_of_two_meanings_are_refused_with_the_way_out():
    """50GB is 2^30 to fio and 10^9 to a disk's label: say so, and say what to write."""
    with pytest.raises(ValueError, match="50GiB"):
        units.parse_size("50GB")


@given(st.integers(0, 2**62))
def test_size_round_trip(size):
    """What is printed for fio reads back as the same number of bytes."""
    assert units.parse_size(units.format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600", 600), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("1d", 86400), (2.5, 2.5)],
)
def test_duration_is_read(text, seconds):
    """Bare numbers are seconds; units go from large to small."""
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "1:30", "30m1h", "5m5m", "-5", "10 minutes", True])
def test_what_is_no_duration_is_refused(text):
    """A time in another form is refused, the colon form of YAML 1.1 among them."""
    with pytest.raises(ValueError, match="time"):
        units.parse_duration(text)


@given(st.integers(0, 10**11))
def test_duration_round_trip(milliseconds):
    """To the millisecond, what is printed reads back."""
    assert units.parse_duration(units.format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )


@given(st.integers(1, 10**15))
def test_latency_round_trip(nanoseconds):
    """A latency prints exactly, with its unit."""
    assert units.parse_latency(units.format_latency(nanoseconds)) == nanoseconds


def test_latency_without_a_unit_is_refused():
    """10 could be microseconds (fio's own) or milliseconds: the unit must be written."""
    with pytest.raises(ValueError, match="unit"):
        units.parse_latency(10)


def test_count_has_decimal_prefixes():
    """50k I/Os per second are 50,000, where fio alone would read 51,200."""
    assert units.parse_count("50k") == 50_000


def test_mb_and_mib_are_two_numbers():
    """Rates keep the two apart when read and when printed."""
    assert units.parse_byte_rate("100MB/s") == 100_000_000
    assert units.parse_byte_rate("100MiB/s") == units.parse_byte_rate("100m") == 104_857_600
    assert units.show_byte_rate(104_857_600) == "104.86 MB/s"
    assert units.show_byte_rate(104_857_600, binary=True) == "100.00 MiB/s"


@pytest.mark.parametrize(("size", "text"), [(512, "512 B"), (1536, "1.5 KiB"), (2**40, "1 TiB")])
def test_size_for_people(size, text):
    """A size for people is rounded and names its 1024-based unit."""
    assert units.show_size(size) == text


@pytest.mark.parametrize(("text", "percent"), [(70, 70), ("70%", 70), ("70", 70), (0, 0)])
def test_percent_is_read(text, percent):
    """With or without the sign."""
    assert units.parse_percent(text) == percent


@pytest.mark.parametrize("text", [101, -1, "70.5", "many", True, "nan"])
def test_what_is_no_percent_is_refused(text):
    """fio takes whole percents from 0 to 100."""
    with pytest.raises(ValueError, match="percent"):
        units.parse_percent(text)


@pytest.mark.parametrize("kind", [units.Size, units.Iops, units.ByteRate, units.PositiveDuration])
def test_zero_is_refused_where_it_means_nothing(kind):
    """A block size, a rate or a runtime of 0 is an error, not a default."""
    with pytest.raises(ValidationError, match="more than 0"):
        TypeAdapter(kind).validate_python(0)


@pytest.mark.parametrize(
    "kind",
    [units.Size, units.Duration, units.Iops, units.ByteRate, units.Percent, units.Latency],
)
def test_the_schemas_examples_are_what_is_taken(kind):
    """What the JSON Schema shows an editor fits its own pattern and is read."""
    adapter = TypeAdapter(kind)
    schema = adapter.json_schema()
    text = next(form for form in schema.get("anyOf", [schema]) if form["type"] == "string")
    for example in text["examples"]:
        assert re.search(text["pattern"], example)
        assert adapter.validate_python(example) > 0
