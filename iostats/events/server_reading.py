"""
What a storage server's files say at one moment, of itself and of its targets.

    PLACE/health_check          from 2.13 to 2.16 twice: sysfs has the word, debugfs the devices
    PLACE/KIND/NAME/FILE        KIND: obdfilter, mdt, mgs; NAME: scratch-OST0003, MGS

    recovery_status             up to 2.16 in /proc; in debugfs, which is root's alone, from 2.17 on
    num_exports, instance       up to 2.12 in /proc, then in sysfs
    eviction_count              sysfs, from 2.16 on

All but those of debugfs can be read by every user (0444).  num_exports are the connections to a
target: of clients, and of the other storage servers; up to 2.10.0 the target itself is one more.
instance is how often a target was started, anywhere.  MGS has no recovery_status and no instance.

Source: lustre/ofd/lproc_ofd.c, mdt/mdt_lproc.c, mgs/lproc_mgs.c; obdclass/lprocfs_status_server.c
(2.5.3: lprocfs_status.c) prints them; __class_new_export(), obdclass/genops.c, counts exports.
"""

from __future__ import annotations

import errno
import os
from collections import namedtuple

from iostats.base.private_files import read_text
from iostats.lustre.health_check import LBUG, NOT_HEALTHY, parse_health_check
from iostats.lustre.paths import PLACES
from iostats.lustre.recovery_status import parse_recovery_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KINDS = ("obdfilter", "mdt", "mgs")
MOST_TARGETS = 100_000
_DEBUGFS, _PROC, _SYSFS = PLACES
# Where each may be, the place of newer releases first.
_PLACES_OF = {"recovery_status": (_PROC, _DEBUGFS), "eviction_count": (_SYSFS,),
              "num_exports": (_SYSFS, _PROC), "instance": (_SYSFS, _PROC)}
_LONGEST = 4096                         # of these files; recovery_status has 300
_MOST_SAID = 10
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)
_OF_NAMES = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-")

ServerReading = namedtuple("ServerReading", "health devices targets why")
ServerReading.__doc__ = """
A storage server at one moment.

Attributes:
    health: as HealthCheck has it; "" where it cannot be read.
    devices: those that are not healthy, as far as they are named.
    targets: {"scratch-OST0003", "MGS": TargetReading}; None where their directories cannot be read.
    why: the first few that could not be read or understood, and why.
"""

TargetReading = namedtuple("TargetReading", "instance recovery evictions clients")
TargetReading.__doc__ = """
One target; None, and "" of instance: it cannot be read, or is not there in this release.

Attributes:
    instance: how often it was started, anywhere: text of digits.
    recovery: its RecoveryStatus.
    evictions: exports that were evicted since it was started: eviction_count.
    clients: connections to it: num_exports.
"""

_last: list[tuple[str, float, ServerReading]] = []


def reading(root: str, now: float) -> ServerReading:
    """The ServerReading of the moment `now`: read once, for all sources that ask for it."""
    if not _last or _last[0][:2] != (root, now):
        _last[:] = [(root, now, read_server(root))]
    return _last[0][2]


def read_server(root: str, rest: Callable[[], object] = lambda: None) -> ServerReading:
    """A ServerReading; `rest` is called between targets.  Raises nothing for what is unreadable."""
    why: list[str] = []
    health, devices = _health(root, why)
    targets: dict[str, TargetReading] = {}
    for kind in KINDS:
        found = _directories(root, kind, why)
        if found is None:
            return ServerReading(health, devices, None, tuple(why))
        for name in sorted(set().union(*found.values())):
            if len(targets) >= MOST_TARGETS:
                why.append(f"more than {MOST_TARGETS} targets; the others are not looked at")
                break
            targets[name] = _target(root, kind, name, found, why)
            rest()
    return ServerReading(health, devices, targets, tuple(why[:_MOST_SAID]))


def _health(root: str, why: list[str]) -> tuple[str, tuple[str, ...]]:
    healths: list[str] = []
    devices: dict[str, None] = {}
    for place in PLACES:
        path = f"{place}/health_check"
        try:
            found = parse_health_check(read_text(os.path.join(root, path)))
        except OSError as error:
            # The word is in a place that all may read; debugfs may be closed.
            if error.errno not in (*_ABSENT, errno.EACCES, errno.EPERM):
                why.append(f"{path}: {error.strerror or error}")
            continue
        if found.bad:
            why.append(f"{path}: {found.bad}")
        devices.update(dict.fromkeys(found.devices))
        healths.append(found.health)
    return next((word for word in (LBUG, NOT_HEALTHY) if word in healths),
                max(healths, default="")), tuple(devices)


def _directories(root: str, kind: str, why: list[str]) -> dict[str, set[str]] | None:
    """{place: targets of a kind}; None where a directory that is there cannot be read."""
    found: dict[str, set[str]] = {}
    closed = ""
    for place in PLACES:
        path = f"{place}/{kind}"
        try:
            names = os.listdir(os.path.join(root, path))
        except OSError as error:
            # debugfs' own root is closed to users (0700): the directory may be there or not.
            if error.errno not in _ABSENT and place != _DEBUGFS:
                closed = closed or f"{path}: {error.strerror or error}"
            continue
        found[place] = {name for name in names if is_target(kind, name)}
    if closed and not any(found.values()):
        why.append(closed)
        return None
    return found


def _target(root: str, kind: str, name: str, found: dict[str, set[str]],
            why: list[str]) -> TargetReading:
    def text(file: str) -> str | None:
        return _text(root, [f"{place}/{kind}/{name}/{file}" for place in _PLACES_OF[file]
                            if name in found.get(place, ())], why)

    def number(file: str) -> int | None:
        word = text(file)
        if word is None:
            return None
        word = word.strip()
        if word.isascii() and word.isdigit() and len(word) < 12:
            return int(word)
        why.append(f"{name}: {file}: expected a number, got {word[:40]!r}")
        return None
    if kind == "mgs":
        return TargetReading("", None, number("eviction_count"), number("num_exports"))
    status = text("recovery_status")
    recovery = None if status is None else parse_recovery_status(status)
    if recovery is not None and recovery.status is None:
        why.append(f"{name}: recovery_status: expected a status, got {(status or '')[:60]!r}")
        recovery = None
    instance = number("instance")
    return TargetReading("" if instance is None else str(instance), recovery,
                         number("eviction_count"), number("num_exports"))


def _text(root: str, paths: Iterable[str], why: list[str]) -> str | None:
    """The beginning of the first of these files that is there; None where none is."""
    for path in paths:
        try:
            # A few hundred bytes of the kernel's, which come whole in one read(2).
            handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.read(handle, _LONGEST).decode("latin-1")
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno not in _ABSENT and len(why) < _MOST_SAID:
                why.append(f"{path}: {error.strerror or error}")
    return None


def is_target(kind: str, name: str) -> bool:
    """
    True for a directory that is a target's, and no other file beside them.

    >>> [is_target("obdfilter", "scratch-OST000f"), is_target("mdt", "num_refs")]
    [True, False]
    """
    if kind == "mgs":
        return name in ("MGS", "MGT")
    file_system, _, target = name.rpartition("-")
    return (bool(file_system) and len(name) <= 64 and len(target) == 7
            and target[:3] == ("OST" if kind == "obdfilter" else "MDT")
            and all(c in "0123456789abcdef" for c in target[3:]) and not set(name) - _OF_NAMES)


def file_system_of(target: str) -> str:
    """
    >>> [file_system_of(name) for name in ("my-fs-OST000f", "MGS")]
    ['my-fs', '']
    """
    return target.rpartition("-")[0]
