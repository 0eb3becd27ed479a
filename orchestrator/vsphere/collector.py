"""Reading vCenter through its PropertyCollector: narrow paths, whole pages, waits with an end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from pyVmomi import vim, vmodl

from orchestrator.errors import AwaitedTooLong
from orchestrator.vsphere.session import Session, lost, task_failed

_log = logging.getLogger(__name__)
_Filter = vmodl.query.PropertyCollector.FilterSpec
_ObjectSpec = vmodl.query.PropertyCollector.ObjectSpec
_PropertySpec = vmodl.query.PropertyCollector.PropertySpec
_Traversal = vmodl.query.PropertyCollector.TraversalSpec
_Selection = vmodl.query.PropertyCollector.SelectionSpec

#: Objects a page; vCenter may give fewer.
PAGE: Final = 100
#: A wait is asked again after so many seconds at most, so that a dead connection shows.
WAIT_SECONDS: Final = 20

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """An object and the properties that it has; absent ones are absent."""

    obj: Any
    props: Mapping[str, Any]

    @property
    def ref(self) -> str:
        """vCenter's id of the object."""
        return str(self.obj._moId)

    def get(self, path: str, default: Any = None) -> Any:
        """A property's value; `default` where vCenter gave none."""
        return self.props.get(path, default)


class Page(Protocol):
    """A part of a long answer. A token that isn't None means more, whatever it is (also '0')."""

    objects: Sequence[Any]
    token: str | None


def all_pages(first: Page | None, more: Callable[[str], Page]) -> Iterator[Any]:
    """Every object of every page."""
    page = first
    while page is not None:
        yield from page.objects
        page = None if page.token is None else more(page.token)


def traversal(kind: Any, path: str, *, name: str, then: Sequence[str] = ()) -> Any:
    """A step from an object to others; `then` names the steps that go on from there."""
    return _Traversal(
        name=name,
        type=kind,
        path=path,
        skip=False,
        selectSet=[_Selection(name=other) for other in then],
    )


#: From a datacenter's VM folder to every VM below, also inside vApps.
TO_MACHINES: Final = ("folder", "vapp")


def machine_steps() -> list[Any]:
    """The steps from a VM folder to all VMs."""
    return [
        traversal(vim.Folder, "childEntity", name="folder", then=("folder", "vapp")),
        traversal(vim.VirtualApp, "vm", name="vapp"),
    ]


def read(
    session: Session,
    step: str,
    roots: Sequence[Any],
    wanted: Mapping[Any, Sequence[str]],
    steps: Sequence[Any] = (),
) -> list[Found]:
    """Read `wanted` (type: paths) of the roots and what the steps lead to, all pages of it.

    An object that vanishes while it is listed is left out, with a debug note.
    """
    spec = _Filter(
        objectSet=[_ObjectSpec(obj=root, skip=False, selectSet=list(steps)) for root in roots],
        propSet=[_PropertySpec(type=kind, pathSet=list(paths)) for kind, paths in wanted.items()],
        reportMissingObjectsInResults=True,
    )
    options = vmodl.query.PropertyCollector.RetrieveOptions(maxObjects=PAGE)

    def ask() -> list[Found]:
        collector = session.content.propertyCollector
        first = collector.RetrievePropertiesEx([spec], options)
        pages = all_pages(first, collector.ContinueRetrievePropertiesEx)
        return [found for content in pages if (found := _found(content)) is not None]

    return session.call(step, ask, reads=True)


def _found(content: Any) -> Found | None:
    for missing in content.missingSet or ():
        fault = missing.fault
        if isinstance(fault, vim.fault.NotAuthenticated):
            raise lost()
        if isinstance(fault, vmodl.fault.ManagedObjectNotFound):
            _log.debug("%s vanished while it was being listed", content.obj)
            return None
    return Found(content.obj, {prop.name: prop.val for prop in content.propSet or ()})


def watch(
    session: Session,
    step: str,
    objects: Sequence[Any],
    kind: Any,
    paths: Sequence[str],
    done: Callable[[Mapping[str, Mapping[str, Any]]], bool],
    *,
    timeout: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[str, dict[str, Any]]:
    """Follow properties until `done` says so or the time is over; the last seen, by ref.

    `done` gets what is known so far after every change. Objects that are removed are left out.
    The caller finds out by itself whether it was done: running out of time is no error here.
    """
    end = monotonic() + timeout

    def ask() -> dict[str, dict[str, Any]]:
        collector = session.content.propertyCollector.CreatePropertyCollector()
        try:
            collector.CreateFilter(
                _Filter(
                    objectSet=[_ObjectSpec(obj=obj, skip=False) for obj in objects],
                    propSet=[_PropertySpec(type=kind, pathSet=list(paths))],
                ),
                partialUpdates=False,
            )
            return _follow(session, collector, done, end, monotonic)
        finally:
            _discard(collector)

    return session.call(step, ask, reads=True)


def _follow(
    session: Session,
    collector: Any,
    done: Callable[[Mapping[str, Mapping[str, Any]]], bool],
    end: float,
    monotonic: Callable[[], float],
) -> dict[str, dict[str, Any]]:
    seen: dict[str, dict[str, Any]] = {}
    version = ""
    while True:
        left = end - monotonic()
        # Half of a call's own limit at most: a wait that is answered late is not a dead vCenter.
        seconds = int(max(1, min(left, WAIT_SECONDS, session.call_timeout / 2)))
        options = vmodl.query.PropertyCollector.WaitOptions(
            maxWaitSeconds=seconds if version else 0
        )
        update = collector.WaitForUpdatesEx(version, options)
        if update is not None:
            version = update.version
            _take(seen, update)
        if done(seen) or (version and monotonic() >= end):
            return seen


def _take(seen: dict[str, dict[str, Any]], update: Any) -> None:
    for part in update.filterSet or ():
        for change in part.objectSet or ():
            ref = str(change.obj._moId)
            if change.kind == "leave":
                seen.pop(ref, None)
                continue
            for missing in change.missingSet or ():
                if isinstance(missing.fault, vim.fault.NotAuthenticated):
                    raise lost()
            values = seen.setdefault(ref, {})
            for prop in change.changeSet or ():
                if prop.op in ("assign", "add"):
                    values[prop.name] = prop.val
                else:
                    values.pop(prop.name, None)


def _discard(collector: Any) -> None:
    """Remove a collector of ours; it goes with the session anyway."""
    try:
        collector.DestroyPropertyCollector()
    except Exception:  # noqa: BLE001 - the answer, or the error on its way out, matters more
        _log.debug("a property collector could not be removed", exc_info=True)


def finish(
    session: Session,
    step: str,
    start: Callable[[], Any],
    *,
    timeout: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> Any:
    """Start a task and wait for its end: its result. TaskFailed or AwaitedTooLong.

    Only `info.state` is watched; result and error are read once, at the end.
    """
    task = session.call(step, start)

    def ended(seen: Mapping[str, Mapping[str, Any]]) -> bool:
        return any(v.get("info.state") in ("success", "error") for v in seen.values())

    watched = watch(
        session, step, [task], vim.Task, ["info.state"], ended, timeout=timeout, monotonic=monotonic
    )
    if not ended(watched):
        state = next((v.get("info.state") for v in watched.values()), None)
        raise AwaitedTooLong(
            session.host,
            step,
            f"the task {task._moId} is still {state or 'unknown'} after {timeout:g} s",
            means="it may still end well; what it makes carries our mark",
            next_step="look at it in vCenter's task list, then run the command again",
        )
    found = read(session, step, [task], {vim.Task: ["info.state", "info.result", "info.error"]})
    props: Mapping[str, Any] = found[0].props if found else {}
    if props.get("info.state") == "error":
        raise task_failed(session.host, step, props.get("info.error"))
    return props.get("info.result")
