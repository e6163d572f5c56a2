"""
One reading of a storage server's files: its own state, and that of its targets.

    PLACE/health_check          from 2.13 to 2.16 twice: sysfs has the word, debugfs the devices
    PLACE/KIND/NAME/FILE        KIND: obdfilter, mdt, mgs; NAME: scratch-OST0003, MGS

    recovery_status             up to 2.16 in /proc; in debugfs, which is root's alone, from 2.17 on
    num_exports, instance       up to 2.12 in /proc, then in sysfs
    eviction_count              sysfs, from 2.16 on
    mdd/NAME/changelog_users    of an MDT: lustre/changelog_users.py
    osd-*/NAME/kbytesfree ...   the capacity of an OST or MDT: lustre/capacity.py

All but those of debugfs can be read by every user (0444).  num_exports are the connections to a
target: of clients, and of the other storage servers; up to 2.10.0 the target itself is one more.
instance is how often a target was started, anywhere.  MGS has no recovery_status and no instance.

Source: lustre/ofd/lproc_ofd.c, mdt/mdt_lproc.c, mgs/lproc_mgs.c; obdclass/lprocfs_status_server.c
(2.5.3: lprocfs_status.c) prints them; __class_new_export(), obdclass/genops.c, counts exports.
"""

from __future__ import annotations

import errno
import os

from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import read_text
from iostats.lustre.capacity import FILES, OSD_KINDS, Capacity
from iostats.lustre.changelog_users import parse_changelog_users
from iostats.lustre.health_check import LBUG, NOT_HEALTHY, parse_health_check
from iostats.lustre.paths import PLACES
from iostats.lustre.recovery_status import parse_recovery_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iostats.events.sources import Place
    from iostats.lustre.changelog_users import ChangelogUser
    from iostats.lustre.recovery_status import RecoveryStatus

KINDS = ("obdfilter", "mdt", "mgs")
MOST_TARGETS = 100_000
_DEBUGFS, _PROC, _SYSFS = PLACES
# Where each may be, the place of newer releases first.
_PLACES_OF = {"recovery_status": (_PROC, _DEBUGFS), "eviction_count": (_SYSFS,),
              "num_exports": (_SYSFS, _PROC), "instance": (_SYSFS, _PROC)}
_LONGEST = 4096                         # of these files; recovery_status has 300
_LONGEST_OF_CHANGELOGS = 1 << 18        # a line for each user, with its mask
_MOST_SAID = 10
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)
_OF_NAMES = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-")


class ServerReading(NamedTuple):
    """A storage server at one moment."""

    health: str                 # as HealthCheck has it; "" where it cannot be read
    devices: tuple[str, ...]    # those that are not healthy, as far as they are named
    # {"scratch-OST0003", "MGS": TargetReading}; None where their directories cannot be read
    targets: dict[str, TargetReading] | None
    why: tuple[str, ...]        # the first few that could not be read or understood, and why


class TargetReading(NamedTuple):
    """One target; values that cannot be read, or are missing in this release, are None or ""."""

    instance: str           # how often it was started, anywhere: text of digits
    recovery: RecoveryStatus | None
    evictions: int | None   # exports that were evicted since it was started: eviction_count
    clients: int | None     # connections to it: num_exports
    capacity: Capacity | None = None  # its Capacity; None where one of the files cannot be read
    changelog_users: dict[str, ChangelogUser] | None = None  # {name: ChangelogUser} of an MDT


def get_server_reading(place: Place, now: float) -> ServerReading:
    """The ServerReading of the moment `now`: read once, for all sources that ask for it."""
    if "server" not in place.cache or place.cache["server"][0] != now:
        place.cache["server"] = now, read_server(place.root)
    server: ServerReading = place.cache["server"][1]
    return server


def read_server(root: str, rest: Callable[[], object] = lambda: None) -> ServerReading:
    """A ServerReading; `rest` is called between targets.  Unreadable files raise nothing."""
    why: list[str] = []
    health, devices = _read_health(root, why)
    targets: dict[str, TargetReading] = {}
    backing = _list_backing_directories(root)
    for kind in KINDS:
        directories = _list_directories(root, kind, why)
        if directories is None:
            return ServerReading(health, devices, None, tuple(why))
        for name in sorted(set().union(*directories.values())):
            if len(targets) >= MOST_TARGETS:
                why.append(f"more than {MOST_TARGETS} targets; the others are not read")
                break
            targets[name] = _read_target(root, kind, name, directories, why)._replace(
                capacity=_read_capacity(root, backing.get(name, ()), why),
                changelog_users=_read_changelog_users(root, name, why) if kind == "mdt" else None)
            rest()
    return ServerReading(health, devices, targets, tuple(why[:_MOST_SAID]))


def _read_health(root: str, why: list[str]) -> tuple[str, tuple[str, ...]]:
    healths: list[str] = []
    devices: dict[str, None] = {}
    for place in PLACES:
        path = f"{place}/health_check"
        try:
            health = parse_health_check(read_text(os.path.join(root, path)))
        except OSError as error:
            # The word is in a place that all may read; debugfs may be closed.
            if error.errno not in (*_ABSENT, errno.EACCES, errno.EPERM):
                why.append(f"{path}: {error.strerror or error}")
            continue
        if health.bad:
            why.append(f"{path}: {health.bad}")
        devices.update(dict.fromkeys(health.devices))
        healths.append(health.health)
    return next((word for word in (LBUG, NOT_HEALTHY) if word in healths),
                max(healths, default="")), tuple(devices)


def _list_directories(root: str, kind: str, why: list[str]) -> dict[str, set[str]] | None:
    """Return {place: targets of a kind}; None if an existing directory cannot be read."""
    names_by_place: dict[str, set[str]] = {}
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
        names_by_place[place] = {name for name in names if is_target(kind, name)}
    if closed and not any(names_by_place.values()):
        why.append(closed)
        return None
    return names_by_place


def _read_target(root: str, kind: str, name: str, names_by_place: dict[str, set[str]],
                 why: list[str]) -> TargetReading:
    def text(file: str) -> str | None:
        paths = [f"{place}/{kind}/{name}/{file}" for place in _PLACES_OF[file]
                 if name in names_by_place.get(place, ())]
        return read_first_existing(root, paths, why)

    def number(file: str) -> int | None:
        return parse_number(text(file), f"{name}: {file}", why)
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


def _list_backing_directories(root: str) -> dict[str, list[str]]:
    """{target: its directories of the backing file system}, those of newer releases first."""
    directories: dict[str, list[str]] = {}
    for place in (_SYSFS, _PROC):
        for kind in OSD_KINDS:
            try:
                names = os.listdir(f"{root}/{place}/{kind}")
            except OSError:                     # also where it is closed: the capacity is unknown
                continue
            for name in names:
                directories.setdefault(name, []).append(f"{place}/{kind}/{name}")
    return directories


def _read_capacity(root: str, directories: Iterable[str], why: list[str]) -> Capacity | None:
    values: list[int] = []
    for file, factor in FILES.items():
        paths = [f"{directory}/{file}" for directory in directories]
        value = parse_number(read_first_existing(root, paths, why), paths[0] if paths else file,
                             why)
        if value is None:
            return None
        values.append(value * factor)
    return Capacity(*values)


def _read_changelog_users(root: str, mdt: str, why: list[str]) -> dict[str, ChangelogUser] | None:
    unreadable: list[str] = []                  # in debugfs, which most users may not read
    paths = [f"{place}/mdd/{mdt}/changelog_users" for place in (_DEBUGFS, _PROC)]
    text = read_first_existing(root, paths, unreadable, _LONGEST_OF_CHANGELOGS)
    if text is None:
        return None
    try:
        return parse_changelog_users(text)
    except ValueError as error:
        why.append(f"{mdt}: changelog_users: {error}")
        return None


def parse_number(text: str | None, origin: str, why: list[str]) -> int | None:
    """The number in a file's text; `origin` names it in `why`."""
    if text is None:
        return None
    word = text.strip()
    if word.isascii() and word.isdigit() and len(word) < 16:
        return int(word)
    why.append(f"{origin}: expected a number, got {word[:40]!r}")
    return None


def read_first_existing(root: str, paths: Iterable[str], why: list[str],
               longest: int = _LONGEST) -> str | None:
    """The beginning of the first of these files that exists; None if none does."""
    for path in paths:
        try:
            # A few hundred bytes of the kernel's, which come whole in one read(2).
            handle = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return os.read(handle, longest).decode("latin-1")
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno not in _ABSENT and len(why) < _MOST_SAID:
                why.append(f"{path}: {error.strerror or error}")
    return None


def is_target(kind: str, name: str) -> bool:
    """
    True for the directory of a target, false for other files beside it.

    >>> [is_target("obdfilter", "scratch-OST000f"), is_target("mdt", "num_refs")]
    [True, False]
    """
    if kind == "mgs":
        return name in ("MGS", "MGT")
    file_system, _, target = name.rpartition("-")
    return (bool(file_system) and len(name) <= 64 and len(target) == 7
            and target[:3] == ("OST" if kind == "obdfilter" else "MDT")
            and all(c in "0123456789abcdef" for c in target[3:]) and not set(name) - _OF_NAMES)
