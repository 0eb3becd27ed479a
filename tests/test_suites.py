import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import InputError, Problem
from orchestrator.expansion import (
    case_id,
    expand_suite,
    override_suite,
    parse_overrides,
)
from orchestrator.profiles import Profile
from orchestrator.suites import Policy, Suite

SHELF = {
    name: Profile(name=name, block_size="4k", read_percent=70)
    for name in ("4k-70r-random", "oltp", "log")
}


def find(name):
    if name not in SHELF:
        raise InputError([Problem("shelf", None, "", f"no profile {name}", None)])
    return SHELF[name]


def suite(*cases, **fields):
    return Suite.model_validate({"name": "s", "cases": list(cases), **fields})


def ids(*args, **kwargs):
    return [case.id for case in expand_suite(*args, **kwargs)]


def test_a_plain_case_has_its_profiles_name():
    """With nothing varied the id is the profile's name, and the group is `all`."""
    (case,) = expand_suite(suite("oltp"), find)
    assert (case.id, list(case.groups), case.groups["all"].name) == ("oltp", ["all"], "oltp")


def test_lists_multiply():
    """Every combination of a matrix is a case; the case's axes come after the suite's."""
    entry = {"profile": "oltp", "matrix": {"iodepth": [1, 8]}}
    assert ids(suite(entry, matrix={"block_size": ["4KiB", "8k"]}), find) == [
        "oltp.block_size=4k.iodepth=1",
        "oltp.block_size=4k.iodepth=8",
        "oltp.block_size=8k.iodepth=1",
        "oltp.block_size=8k.iodepth=8",
    ]


def test_the_values_reach_the_profile():
    """Suite, case, matrix and command line apply in that order."""
    entry = {"profile": "oltp", "set": {"iodepth": 2, "numjobs": 2}, "matrix": {"iodepth": [8]}}
    base = suite(entry, set={"iodepth": 1, "numjobs": 1, "runtime": "1m", "ramp": 5})
    (case,) = expand_suite(base, find, overrides={"ramp": ["7"]})
    profile = case.groups["all"]
    assert (profile.iodepth, profile.numjobs, profile.runtime, profile.ramp) == (8, 2, 60, 7)
    assert case.id == "oltp.iodepth=8.numjobs=2"


def test_an_override_of_one_value_leaves_the_ids():
    """`--set runtime=600` does not rename a case; several values make a matrix."""
    plain = suite("oltp", "log")
    assert ids(plain, find, overrides={"runtime": ["600"]}) == ["oltp", "log"]
    assert ids(plain, find, overrides=parse_overrides(["iodepth=8,16"])) == [
        "oltp.iodepth=8",
        "oltp.iodepth=16",
        "log.iodepth=8",
        "log.iodepth=16",
    ]


def test_an_override_replaces_a_matrix():
    """The user's value stands instead of the suite's list."""
    entry = {"profile": "oltp", "matrix": {"iodepth": [1, 8]}}
    assert ids(suite(entry), find, overrides={"iodepth": ["4"]}) == ["oltp"]


@given(st.permutations(["iodepth", "numjobs", "block_size"]), st.permutations([1, 2, 4]))
def test_ids_do_not_depend_on_order(names, values):
    """The same cases have the same ids, however fields and values are ordered."""
    entry = {"profile": "oltp", "matrix": {name: values for name in names}}
    assert sorted(ids(suite(entry), find)) == sorted(
        f"oltp.block_size={b}.iodepth={i}.numjobs={n}"
        for b in (1, 2, 4)
        for i in (1, 2, 4)
        for n in (1, 2, 4)
    )


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.integers(), max_size=3))
def test_ids_are_safe_as_folder_names(values):
    """Whatever a value holds, the id has no separator, blank or sign of the shell."""
    assert set(case_id("p", values)) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.=+-"
    )


def test_equal_values_have_one_form():
    """4k, 4KiB and 4096, or 1m and 60, make the same id."""
    assert len({case_id("p", {"block_size": v}) for v in ("4k", "4KiB", 4096)}) == 1
    assert len({case_id("p", {"runtime": v}) for v in ("1m", 60, "60s")}) == 1
    assert case_id("p", {"rate.iops": "5k"}) == "p.rate.iops=5000"


def test_groups_run_different_profiles_in_one_case():
    """Each group has its profile, the id names both whatever their order."""
    one = {"groups": {"db": "oltp", "web": {"profile": "log", "set": {"iodepth": 3}}}}
    other = {"groups": {"web": {"profile": "log", "set": {"iodepth": 3}}, "db": "oltp"}}
    (case,) = expand_suite(suite(one), find)
    assert case.id == "db=oltp+web=log"
    assert case.groups["web"].iodepth == 3
    assert ids(suite(other), find) == [case.id]


def test_orders():
    """As listed, matrix first, or shuffled the same way for the same seed."""
    two = {"matrix": {"iodepth": [1, 2]}}
    assert ids(suite("oltp", "log", **two), find)[:2] == ["oltp.iodepth=1", "oltp.iodepth=2"]
    first = ids(suite("oltp", "log", order="matrix-first", **two), find)
    assert first[:2] == ["oltp.iodepth=1", "log.iodepth=1"]
    shuffled = ids(suite("oltp", "log", order="shuffled", seed=3, **two), find)
    assert shuffled == ids(suite("log", "oltp", order="shuffled", seed=3, **two), find)
    assert sorted(shuffled) == sorted(first)


def test_a_case_twice_is_a_problem_unless_it_has_an_id():
    """Two cases may not share a folder, not even where case does not count."""
    with pytest.raises(InputError, match="case oltp is there twice"):
        expand_suite(suite("oltp", "oltp"), find)
    assert ids(suite("oltp", {"profile": "oltp", "id": "again"}), find) == ["oltp", "again"]
    with pytest.raises(InputError, match="twice"):
        expand_suite(suite("oltp", {"profile": "oltp", "id": "OLTP"}), find)


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (["oltp"], ["oltp.iodepth=1", "oltp.iodepth=2"]),
        (["*=2"], ["oltp.iodepth=2", "log.iodepth=2"]),
        (["log.iodepth=2", "oltp.iodepth=1"], ["oltp.iodepth=1", "log.iodepth=2"]),
    ],
)
def test_subset(only, found):
    """By id, by profile name, or by glob; in the suite's order."""
    assert ids(suite("oltp", "log", matrix={"iodepth": [1, 2]}), find, only=only) == found


def test_a_subset_that_means_nothing_is_a_problem():
    """A pattern without a case gets the nearest id."""
    with pytest.raises(InputError) as caught:
        expand_suite(suite("oltp"), find, only=["oltq"])
    assert caught.value.problems[0].nearest == "oltp"


def test_all_problems_of_a_suite_at_once():
    """Missing profiles, unknown fields and wrong values are all in one error."""
    base = suite("oltp", "none", {"profile": "log", "set": {"iodept": 1}}, set={"numjob": 2})
    with pytest.raises(InputError) as caught:
        expand_suite(base, find, overrides={"read_percent": ["300"]})
    places = {(problem.file, problem.path) for problem in caught.value.problems}
    assert places == {
        ("suite s", "cases.1"),
        ("suite s", "cases.2.iodept"),
        ("suite s", "set.numjob"),
        ("--set", "read_percent"),
    }


def test_overrides_are_parsed():
    """Commas and repeats make lists, JSON stays one value, spaces do not matter."""
    found = parse_overrides(["runtime=600", "iodepth=8, 16".replace(" ", ""), "iodepth=32"])
    assert found == {"runtime": ["600"], "iodepth": ["8", "16", "32"]}
    assert parse_overrides(['distribution={"zipf": 1.2}']) == {"distribution": [{"zipf": 1.2}]}


@pytest.mark.parametrize("word", ["runtime", "=5", "runtime=", "distribution={"])
def test_what_is_no_override(word):
    """Anything else is a problem of the command line."""
    with pytest.raises(InputError, match="--set"):
        parse_overrides([word])


def test_a_suites_own_fields_are_overridden():
    """`prepare=zero` and `policy.quorum=3` are the suite's, the rest stays for the cases."""
    words = ["prepare=zero", "policy.quorum=3", "iodepth=8", "thresholds.max_skew=5ms"]
    changed, rest = override_suite(suite("oltp"), parse_overrides(words))
    assert (changed.prepare.method, changed.policy.quorum, changed.thresholds.max_skew) == (
        "zero",
        3,
        0.005,
    )
    assert rest == {"iodepth": ["8"]}


@pytest.mark.parametrize("word", ["prepare=zero,random", "prepare=zeros", "order.x=1"])
def test_a_suites_field_takes_one_right_value(word):
    """A list, a wrong value or a part that is not there are problems."""
    with pytest.raises(InputError, match="--set"):
        override_suite(suite("oltp"), parse_overrides([word]))


@pytest.mark.parametrize(
    ("policy", "workers", "needed"),
    [
        ("abort", 10, 10),
        ({}, 10, 10),
        ({"quorum": "90%"}, 10, 9),
        ({"quorum": "90%"}, 8, 8),
        ({"quorum": "1%"}, 8, 1),
        ({"quorum": 3}, 8, 3),
        ({"quorum": 30}, 8, 8),
    ],
)
def test_quorum(policy, workers, needed):
    """A percent is rounded up, a count never asks for more than there are."""
    assert Policy.model_validate(policy).needed(workers) == needed


def test_abort_stops_the_other_cases_too():
    """`abort` is the short form for all workers and no further cases."""
    assert not Policy.model_validate("abort").continue_cases
    assert Policy().continue_cases


@given(st.sampled_from(["abort", {"quorum": "90%"}, {"quorum": 2}]), st.integers(0, 100))
def test_a_dumped_suite_reads_back(policy, pause):
    """Suite and cases are data that reads back the same."""
    entry = {"groups": {"a": "oltp", "b": {"profile": {"name": "p", "block_size": 512}}}}
    made = suite("oltp", entry, policy=policy, pause=pause)
    assert Suite.model_validate(made.model_dump()) == made
    for case in expand_suite(made, find):
        assert type(case).model_validate_json(case.model_dump_json()) == case
