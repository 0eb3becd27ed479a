import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError
from orchestrator.sections import (
    escape_filename,
    fio_directions,
    fio_int,
    fio_seconds,
    parse_job_text,
    set_option,
    split_filenames,
)

FILE = """; a comment
[global]
ioengine=libaio
readwrite=randread ; inline
timeout=60

[a]
time_based
[global]
bs=8k
[b]
rw=write
"""


def test_globals_hold_for_the_sections_after_them():
    """A later global changes only what follows it, and aliases are one option."""
    (a, of_a), (b, of_b) = parse_job_text(FILE).jobs()
    assert (a.name, b.name) == ("a", "b")
    assert of_a == {"ioengine": "libaio", "rw": "randread", "runtime": "60", "time_based": "1"}
    assert of_b == {"ioengine": "libaio", "rw": "write", "runtime": "60", "bs": "8k"}


def test_a_file_that_is_not_changed_stays_the_same():
    """Comments, blank lines and order survive."""
    assert parse_job_text(FILE).render() == FILE


def test_an_option_is_replaced_where_it_stands_and_added_where_it_does_not():
    """Replacing touches that line alone; a new option comes before all sections."""
    job = set_option(parse_job_text(FILE), "runtime", "5")
    assert job.render() == FILE.replace("timeout=60", "runtime=5")
    (_, options), _ = set_option(parse_job_text(FILE), "ramp_time", "2").jobs()
    assert options["ramp_time"] == "2"


@pytest.mark.parametrize(
    ("text", "value"), [("4k", 4096), ("4kb", 4096), ("4KiB", 4000), ("7", 7), ("$ncpus", None)]
)
def test_integers_are_read_as_fio_reads_them(text, value):
    """fio 3.33 reads KiB as 1000, measured with bs=4KiB."""
    assert fio_int(text) == value


@pytest.mark.parametrize(("text", "value"), [("60", 60), ("500ms", 0.5), ("1h", 3600), ("x", None)])
def test_times_are_read_as_fio_reads_them(text, value):
    """A bare number is in seconds."""
    assert fio_seconds(text) == value


@pytest.mark.parametrize(
    ("text", "both"), [("700", (700, 700)), ("700,300", (700, 300)), (",300", (None, 300))]
)
def test_directions(text, both):
    """One figure is for both directions, an empty one is no limit."""
    assert fio_directions(text) == both


@given(
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters=";#$\\\n\r"), min_size=1).filter(
            lambda name: name == name.strip() and name.isprintable()
        ),
        min_size=1,
    )
)
def test_names_with_colons_and_blanks_survive(names):
    """Escaped names that are joined by colons come apart as they were."""
    assert split_filenames(":".join(escape_filename(name) for name in names)) == names


@pytest.mark.parametrize("path", ["/dev/a;b", "/dev/a#b", "/dev/$x", "/dev/a\nb", " /dev/a", ""])
def test_names_that_fio_would_misread_are_refused(path):
    """What a job file can't say is an error, never another file."""
    with pytest.raises(ConfigError, match="can't be named"):
        escape_filename(path)
