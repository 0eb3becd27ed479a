import pytest

from orchestrator.errors import ConfigError
from orchestrator.jobfile import JobTarget, TemplateSource, render_job
from orchestrator.profiles import Profile

TARGETS = (
    JobTarget("disk0", "/dev/disk/by-path/scsi-0:0:1:0", 2**30, "block"),
    JobTarget("disk1", "/dev/sdx", 2**30, "block"),
)
ESCAPED = "/dev/disk/by-path/scsi-0\\:0\\:1\\:0"
UNUSED = TemplateSource("unused", "{{ nothing }}")


def render(text, targets=TARGETS, **timing):
    profile = Profile(name="own", fio=text, **timing)
    return render_job(profile, targets, seed=1, template=UNUSED)


def test_a_pattern_is_repeated_for_every_target():
    """A file without names: each section once a target; all other lines verbatim."""
    assert render("; mine\n[global]\nbs=4k ; small\n[a]\nrw=read\nsize=1m\n") == (
        "; mine\n[global]\nbs=4k ; small\n"
        f"[a-disk0]\nfilename={ESCAPED}\nrw=read\nsize=1m\n"
        "[a-disk1]\nfilename=/dev/sdx\nrw=read\nsize=1m\n"
    )


def test_one_target_leaves_the_names():
    """With one target the sections keep their names."""
    assert render("[a]\nrw=read\n", TARGETS[1:]) == "[a]\nfilename=/dev/sdx\nrw=read\n"


def test_case_32_one_device_in_global_stands_for_all_targets():
    """Case 32: limits.fio names /dev/sdb; that device is never used, each target is."""
    text = render("[global]\nfilename=/dev/sdb\n[oltp]\nrw=randrw\n")
    assert "/dev/sdb" not in text
    assert text.count("filename=") == 2


def test_devices_stand_for_targets_in_order():
    """HCIBench's files: /dev/sda is the first target wherever it stands, lists included."""
    text = render("[a]\nfilename=/dev/sda\n[b]\nfilename=/dev/sdb:/dev/sda\n")
    assert text == f"[a]\nfilename={ESCAPED}\n[b]\nfilename=/dev/sdx:{ESCAPED}\n"


def test_more_devices_than_targets_is_refused():
    """A device without a target would be written as it is named."""
    with pytest.raises(ConfigError, match="names 3 devices"):
        render("[a]\nfilename=/dev/sda:/dev/sdb:/dev/sdc\n")


def test_all_that_reaches_beyond_is_named_at_once():
    """Each refused line has its reason."""
    with pytest.raises(ConfigError) as caught:
        render("[a]\nfilename=/etc/passwd\nexec_prerun=id\nioengine=net\ndirectory=/\n")
    for word in ("exec_prerun", "ioengine=net", "/etc/passwd", "directory"):
        assert word in str(caught.value)


def test_barriers_are_kept_once():
    """A stonewall in every copy would run the targets one after the other."""
    text = render("[a]\nrw=write\n[b]\nstonewall\nrw=read\n")
    assert text.count("stonewall") == 1
    assert text.index("stonewall") < text.index("[b-disk1]")


def test_waiting_is_for_the_same_targets_copy():
    """wait_for names the copy of the same target."""
    text = render("[a]\nrw=write\n[b]\nwait_for=a\nrw=read\n")
    assert "[b-disk1]\nfilename=/dev/sdx\nwait_for=a-disk1\n" in text


def test_a_cpu_section_is_not_repeated():
    """HCIBench's CPU load belongs to the worker, not to a target."""
    text = render("[cpu]\nioengine=cpuio\ncpuload=20\n[a]\nrw=read\n")
    assert text.startswith("[cpu]\nioengine=cpuio\ncpuload=20\n[a-disk0]\n")


def test_timing_overrides_replace_the_files_own():
    """Only runtime and ramp change, wherever they stand."""
    text = render("[a]\nrw=read\nruntime=9\ntime_based\n", TARGETS[1:], runtime=3, ramp=1)
    assert "runtime=3\n" in text
    assert "runtime=9" not in text
    assert "ramp_time=1\n" in text
