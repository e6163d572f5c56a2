"""
An instance among others: its lease, its key in etcd, and the groups that are its own.

    /PREFIX/instances/ID    {"host", "pid", "since", "version", "ready"}   under our lease
    /PREFIX/owners/GROUP    ID                                             under our lease

Three threads.  One renews the lease, whatever the others wait for.  One reads both directories each
second, and when the third sees a change in them, takes what is free and ours by shares.share_of,
and gives away what others are to have: first we own it no more, and only at the next look its key
goes.

A key that another deletes by hand: that of a group, and the group is none of ours as soon as we are
told, and free for all; our own, and it is made again under the same lease, as the groups are still
ours.

What we write for a group is written only if its owner key is still the one that we made.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time

from iostats import __version__
from iostats.base.errors import IostatsError, one_line
from iostats.etcd.client import Changes, EtcdAway, Stop, absent, created, deleting, getting, putting
from iostats.ldms.instances.lease import RENEWALS, HeldLease, boot_time
from iostats.ldms.instances.shares import share_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iostats.etcd.answers import KeyValue
    from iostats.etcd.client import Etcd
    from iostats.etcd.follow import News

LOOK_EVERY_S = 1.0
STUCK_LEASES = 3                # leases without a beat after which the lease is not renewed
_GIVEN_AFTER_S = 0.3            # what was sent for a group has arrived then
_AGAIN_S = 0.3                  # after a failure
_LONGEST_NAME = 255


def own_name() -> str:
    """The ID of this process: "mgmt1.4711"."""
    return f"{socket.gethostname().partition('.')[0]}.{os.getpid()}"[:_LONGEST_NAME]


class Membership:
    """
    One instance; start() begins.

    Attributes:
        name: its ID.
        away: why etcd can't be asked now, one line; "" where it can.
        on_change: called from a thread of ours after what we own has changed, or may have.
    """

    def __init__(self, etcd: Etcd, lease_s: int, say: Callable[[str], object],
                 name: str | None = None, now: Callable[[], float] = boot_time) -> None:
        self._etcd, self._lease_s, self._say, self._now = etcd, lease_s, say, now
        self.name = own_name() if name is None else name
        self.away = ""
        self.on_change: Callable[[], object] = lambda: None
        self._lease = HeldLease(now)
        self._lock = threading.Lock()               # guards _mine, _removed, _giving, _wanted
        self._mine: dict[str, int] = {}
        self._removed: dict[str, int] = {}          # {group: revision at which its key went}
        self._giving: dict[str, int] = {}
        self._wanted: dict[str, int] | None = None
        self._is_told_ready = False
        self._key_revision = 0                      # create_revision of instances/ID
        self._unlisted: int | None = None           # the lease whose instances/ID is not there
        self._since = time.time()
        self._beat = self._renewed_at = now()
        self._was_held = False
        self._ended, self._woken = Stop(), threading.Event()
        self._leases: set[int] = set()              # that were ours, and may not be over yet
        self._threads = [
            threading.Thread(target=self._forever, args=(work, woken), daemon=True, name=name)
            for name, work, woken in (("lease", self._renewed, self._ended),
                                      ("groups", self._looked, self._woken))]
        self._threads.append(threading.Thread(target=self._watch, daemon=True, name="owners"))

    # -- what the service asks

    def groups_owned(self) -> dict[str, int]:
        """{group: its fence} of those that are ours now."""
        with self._lock:
            return dict(self._mine) if self._lease.is_held() else {}

    def may_command(self, group: str) -> bool:
        """Whether a command may be sent to a daemon of `group` now."""
        return group in self._mine and self._lease.is_held()

    def wants(self, groups: Mapping[str, int]) -> None:
        """{group: how many daemons it has} of the description that is valid now."""
        with self._lock:
            if self._wanted == dict(groups):
                return
            self._wanted = dict(groups)
        self._woken.set()

    def beat(self) -> None:
        """The service is at work; without this our groups go to others."""
        self._beat = self._now()

    @property
    def left_s(self) -> float:
        """Seconds for which we may act, if etcd does not answer any more."""
        return max(0.0, self._lease.left_s)

    # -- what is written for a group

    def write(self, group: str, values: Iterable[tuple[str, bytes | None]]) -> bool:
        """
        Put (key, value), or delete where the value is None, in one transaction; False where the
        group is not ours (any more).  EtcdAway, EtcdRefused.
        """
        fence = self.groups_owned().get(group)
        if fence is None:
            return False
        wanted = [deleting(key) if value is None else putting(key, value)
                  for key, value in values]
        is_ours, _, _ = self._etcd.txn([created(self._owner_key(group), fence)], wanted, again=True)
        if not is_ours:
            self._drop([group])
        return is_ours

    # -- its life

    def start(self) -> None:
        """Be one of the instances until stop()."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Own nothing any more; others take our groups at once."""
        self._ended.set()
        self._woken.set()
        lease = self._lease.id
        self._lease.lost()
        self._drop(list(self._mine))
        if lease is not None:
            try:
                self._etcd.revoke(lease)
            except IostatsError:
                pass                                # it ends by itself
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(0.5)

    def _forever(self, work: Callable[[], float], woken: threading.Event) -> None:
        """`work` again and again; it returns for how long to pause, s, if it is not woken."""
        while not self._ended.is_set():
            try:
                pause = work()
            except IostatsError as error:
                self._is_away(str(error))
                pause = _AGAIN_S
            except Exception as error:              # a bug: without a lease nothing is ours
                self._say(f"internal error; please report: {error!r}; in a moment again")
                pause = LOOK_EVERY_S
            self._tell_lapse()
            if woken.wait(pause) and not self._ended.is_set():
                woken.clear()

    def _watch(self) -> None:
        """Look as soon as another instance comes or goes, or a group is free."""
        for news in self._etcd.follow(self._etcd.below("owners"), self._ended):
            self._hear(news)
            self._woken.set()

    def _hear(self, news: News) -> None:
        """A group whose key is gone, by whatever hand, is none of ours from here on."""
        if not isinstance(news, Changes):
            return
        removed = {self._etcd.last_part(key): revision
                   for key, value, revision in news.changes if value is None}
        with self._lock:
            self._removed.update(removed)
            gone = [group for group, revision in removed.items()
                    if self._mine.get(group, revision) < revision]
        self._drop(gone)

    def _is_away(self, why: str) -> None:
        if not self.away:
            self._say(f"{why}; LDMS' daemons are left as they are until etcd answers")
        self.away = why

    def _tell_lapse(self) -> None:
        """Have the service look where our time is over, or is not any more."""
        is_held = self._lease.is_held()
        if is_held != self._was_held:
            self._was_held = is_held
            self.on_change()

    # -- the lease

    def _renewed(self) -> float:
        lease, sent = self._lease.id, self._now()
        paused, self._renewed_at = sent - self._renewed_at, sent
        if sent - self._beat > STUCK_LEASES * self._lease_s:
            if lease is not None:
                self._say((f"this process, or its host, was stopped for {paused:.0f} s"
                           if paused > 2 * self._lease_s else
                           f"the service has not gone on for {sent - self._beat:.0f} s (the host "
                           f"is overloaded, or an internal error)")
                          + "; other instances take its groups")
                self._gone()
            return LOOK_EVERY_S
        if lease is None:
            self._join()
        else:
            left = self._etcd.keep_alive(lease)
            if left > 0:
                self._lease.renewed(lease, left, sent)
                if self._unlisted == lease:
                    self._list_again(lease)
            else:
                self._say("our lease in etcd is over; other instances may have our groups")
                self._gone()
                return 0.0
        return self._lease_s / RENEWALS

    def _gone(self) -> None:
        self._lease.lost()
        self._drop(list(self._mine))

    def _join(self) -> None:
        sent = self._now()
        lease = self._etcd.grant(self._lease_s)
        self._leases.add(lease)
        is_new, _, revision = self._etcd.txn(
            [absent(self._own_key())], [putting(self._own_key(), self._about(False), lease)])
        if not is_new:
            there = self._etcd.get(self._own_key())
            if there is None or there.lease in self._leases:
                self._etcd.revoke(there.lease if there else lease)      # ours, of before
            else:                                   # an instance in another container, say
                self.name = f"{own_name()[:_LONGEST_NAME - 9]}-{os.urandom(4).hex()}"
            raise EtcdAway("etcd: this instance's name was taken")
        self._leases = {lease}
        self._key_revision, self._is_told_ready = revision, False
        self._lease.granted(lease, float(self._lease_s), sent)
        self._woken.set()

    def _list_again(self, lease: int) -> None:
        """instances/ID is gone, though the lease is not: deleted by hand, as by etcdctl del."""
        self._unlisted = None
        is_new, there, revision = self._etcd.txn(
            [absent(self._own_key())],
            [putting(self._own_key(), self._about(self._is_told_ready), lease)],
            [getting(self._own_key())])
        found = there[0]
        if is_new:
            self._key_revision = revision
            self._say("our key in etcd was deleted; it is there again")
        elif isinstance(found, list) and found and found[0].lease == lease:
            self._key_revision = found[0].create_revision       # of a try that got no answer
        else:                                       # another has our name: _join finds a new one
            self._say("our key in etcd is another instance's; other instances may take our groups")
            self._gone()
            self._ended.wait(_GIVEN_AFTER_S)
            self._etcd.revoke(lease)

    def _about(self, is_ready: bool) -> bytes:
        return json.dumps({"host": socket.gethostname(), "pid": os.getpid(),
                           "since": round(self._since, 3), "version": __version__,
                           "ready": is_ready}).encode()

    # -- the groups

    def _looked(self) -> float:
        lease = self._lease.id
        if lease is None or self._wanted is None:
            return LOOK_EVERY_S
        if not self._is_told_ready:
            self._is_told_ready = self._etcd.txn(
                [created(self._own_key(), self._key_revision)],
                [putting(self._own_key(), self._about(True), lease)], again=True)[0]
        instances, owners = (
            {self._etcd.last_part(one.key): one
             for one in self._etcd.range(self._etcd.below(directory))[0]}
            for directory in ("instances", "owners"))
        if self.away:
            self.away = ""
            self._say("etcd answers again")
        self._see({group: one.create_revision for group, one in owners.items()
                   if one.lease == lease}, lease)
        own = instances.get(self.name)
        if own is None or own.create_revision != self._key_revision:
            self._unlisted = lease                  # for the thread that renews it
            return LOOK_EVERY_S
        for group, owner in [*owners.items()]:
            if not owner.lease:
                self._free(group, owner)
                del owners[group]
        with self._lock:
            wanted, giving = dict(self._wanted), dict(self._giving)
        for group, fence in giving.items():         # of the look before
            self._etcd.txn([created(self._owner_key(group), fence)],
                           [deleting(self._owner_key(group))], again=True)
            with self._lock:
                del self._giving[group]
            del owners[group]
        share = share_of(self.name, wanted, [name for name, one in instances.items()
                                             if _is_ready(one.value)],
                         {group: one.value.decode("utf-8", "replace")
                          for group, one in owners.items()})
        self._take(share.take, lease)
        with self._lock:
            self._giving = {group: self._mine.pop(group) for group in share.give
                            if group in self._mine}
        if share.give:
            self._say(f"giving {_some(share.give)} to other instances")
            self.on_change()
            return _GIVEN_AFTER_S
        return LOOK_EVERY_S

    def _see(self, found: Mapping[str, int], lease: int) -> None:
        """These are ours, by etcd: what is not is none of ours any more."""
        with self._lock:
            before = self._mine
            # What was read before its key went is older than what we heard.
            self._removed = {group: revision for group, revision in self._removed.items()
                             if found.get(group, revision) < revision}
            self._giving = {group: fence for group, fence in self._giving.items()
                            if found.get(group) == fence}
            self._mine = {group: fence for group, fence in found.items()
                          if group not in self._giving and group not in self._removed
                          } if self._lease.id == lease else {}
            is_other = self._mine != before
        if is_other:
            self.on_change()

    def _free(self, group: str, owner: KeyValue) -> None:
        """Delete an owner key without a lease: no instance writes one, and no end would free it."""
        key = self._owner_key(group)
        if self._etcd.txn([created(key, owner.create_revision)], [deleting(key)], again=True)[0]:
            self._say(f"the owner of {_some([group])} in etcd was written by hand "
                      f"({one_line(repr(owner.value.decode('utf-8', 'replace')))[:60]}); the key "
                      f"is deleted, and the group free")

    def _take(self, groups: Iterable[str], lease: int) -> None:
        taken = {}
        for group in groups:
            is_ours, _, revision = self._etcd.txn(
                [absent(self._owner_key(group)), created(self._own_key(), self._key_revision)],
                [putting(self._owner_key(group), self.name.encode(), lease)])
            if is_ours:
                taken[group] = revision
        if taken:
            with self._lock:
                if self._lease.id == lease:
                    self._mine.update((group, fence) for group, fence in taken.items()
                                      if self._removed.get(group, fence) <= fence)
            self._say(f"watching {_some(taken)} from now on")
            self.on_change()

    def _drop(self, groups: Iterable[str]) -> None:
        with self._lock:
            gone = [group for group in groups if self._mine.pop(group, None) is not None]
        if gone:
            self.on_change()

    # -- keys

    def _own_key(self) -> str:
        return self._etcd.key("instances", self.name)

    def _owner_key(self, group: str) -> str:
        return self._etcd.key("owners", group)


def _is_ready(value: bytes) -> bool:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("ready") is True


def _some(groups: Iterable[str]) -> str:
    names = list(groups)
    shown = ", ".join(one_line(name)[:60] for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
