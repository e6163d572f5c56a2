"""
Membership of an instance of `iostats ldms run`: its lease in etcd, and the groups it owns.

    /PREFIX/instances/ID    {"host", "pid", "since", "version", "ready"}   under our lease
    /PREFIX/owners/GROUP    ID                                             under our lease

Each group of daemons has one owner.  If an instance ends or loses etcd, its keys disappear with the
lease, and other instances take its groups.  The instance stops sending commands some time before.

Three threads: one renews the lease, whatever the others wait for; one watches owners/; one reads
both directories each second, and after changes in owners/: it claims free groups by
balance.share_groups and releases excess ones.  A group is released in two steps: commands stop
first, and its key is deleted in the next pass.

A key may be deleted by hand.  An owner key: the group is no longer ours once the watch reports it,
and any instance may claim it.  Our instance key: it is written again under the same lease, and the
groups stay ours.

Writes for a group are conditional on its owner key being the one we created.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING

from iostats import __version__
from iostats.base.errors import IostatsError, sanitize
from iostats.etcd.client import (
    Changes,
    EtcdAway,
    Stop,
    compare_absent,
    compare_created,
    make_delete,
    make_get,
    make_put,
)
from iostats_ldms.balance import share_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iostats.etcd.answers import KeyValue
    from iostats.etcd.client import Etcd
    from iostats.etcd.follow import News

ACTS_FOR = 0.7                  # part of a lease during which we may send commands after a renewal
RENEWALS = 5                    # per lease


def compute_boot_time() -> float:
    """Return seconds of a clock that is never set and continues in suspend (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """
    A lease in etcd as seen by our own clock; one thread renews it, others ask whether it is held.

    etcd counts the lease from the moment it handled the last renewal.  We count from the moment we
    sent it, so our deadline is earlier, however long the answer took or this process was stopped.

    The deadline is ACTS_FOR of the lease, for two reasons.  A command sent just before it has time
    to arrive.  And a leader of etcd renews leases without asking the other members
    (EtcdServer.LeaseRenew): a leader that is cut off keeps doing so for up to two election timeouts
    (2 s by default), while its successor, elected after one timeout at the earliest, counts a whole
    lease from its election (lessor.Promote).

    Attributes:
        id: in etcd; None without a lease.
        ttl_s: as granted by etcd.
    """

    def __init__(self, now: Callable[[], float] = compute_boot_time) -> None:
        self._now, self._lock = now, threading.Lock()
        self.id: int | None = None
        self.ttl_s = 0.0
        self._until = 0.0

    def set_granted(self, lease: int, ttl_s: float, sent: float) -> None:
        """Store a new lease, granted in answer to a request sent at `sent`."""
        with self._lock:
            self.id, self.ttl_s, self._until = lease, ttl_s, sent + ACTS_FOR * ttl_s

    def set_renewed(self, lease: int, ttl_s: float, sent: float) -> None:
        """Extend the lease after a renewal sent at `sent`."""
        with self._lock:
            if lease == self.id:
                self._until = max(self._until, sent + ACTS_FOR * min(ttl_s, self.ttl_s))

    def mark_lost(self) -> None:
        """Mark the lease as lost."""
        with self._lock:
            self.id, self._until = None, 0.0

    @property
    def left_s(self) -> float:
        """Seconds during which we may still send commands; 0 or less: none."""
        with self._lock:
            return self._until - self._now() if self.id is not None else 0.0

    def is_held(self, lease: int | None = None) -> bool:
        """True if we may send commands now; if `lease` is given, only under that lease."""
        with self._lock:
            return (self.id is not None and lease in (None, self.id)
                    and self._now() < self._until)


CHECK_EVERY_S = 1.0
STUCK_LEASES = 3                # leases without a heartbeat after which the lease is not renewed
_RELEASE_DELAY_S = 0.3            # commands sent before have arrived by then
_RETRY_S = 0.3                  # after a failure
_LONGEST_NAME = 255


def make_instance_name() -> str:
    """Return the ID of this process, such as "mgmt1.4711"."""
    return f"{socket.gethostname().partition('.')[0]}.{os.getpid()}"[:_LONGEST_NAME]


class Membership:
    """
    This instance among the others; start() begins.

    Attributes:
        name: its ID.
        etcd_error: why etcd does not answer, one line; "" if it does.
        on_change: called, from one of our threads, after the owned groups may have changed.
    """

    def __init__(self, etcd: Etcd, lease_s: int, emit: Callable[[str], object],
                 name: str | None = None, now: Callable[[], float] = compute_boot_time) -> None:
        self._etcd, self._lease_s, self._log, self._now = etcd, lease_s, emit, now
        self.name = make_instance_name() if name is None else name
        self.etcd_error = ""
        self.on_change: Callable[[], object] = lambda: None
        self._lease = Lease(now)
        self._lock = threading.Lock()               # guards _mine, _removed, _giving, _wanted
        self._owned: dict[str, int] = {}
        self._removed: dict[str, int] = {}          # {group: revision at which its key was deleted}
        self._giving: dict[str, int] = {}
        self._desired: dict[str, int] | None = None
        self._is_marked_ready = False
        self._key_revision = 0                      # create_revision of instances/ID
        self._missing_key_lease: int | None = None  # the lease without its instances/ID
        self._since = time.time()
        self._beat = self._renewed_at = now()
        self._was_held = False
        self._ended, self._woken = Stop(), threading.Event()
        self._leases: set[int] = set()              # our leases that may not have expired
        self._threads = [
            threading.Thread(target=self._run_loop, args=(work, woken), daemon=True, name=name)
            for name, work, woken in (("lease", self._renew_lease, self._ended),
                                      ("groups", self._reconcile_groups, self._woken))]
        self._threads.append(threading.Thread(target=self._watch_owners, daemon=True,
                                              name="owners"))

    # -- for the service

    def groups_owned(self) -> dict[str, int]:
        """Return {group: fence} of our groups; the fence is the owner key's create_revision."""
        with self._lock:
            return dict(self._owned) if self._lease.is_held() else {}

    def may_command(self, group: str) -> bool:
        """True if a command may be sent to a daemon of `group` now."""
        return group in self._owned and self._lease.is_held()

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Set the groups of the valid description: {group: number of daemons}."""
        with self._lock:
            if self._desired == dict(groups):
                return
            self._desired = dict(groups)
        self._woken.set()

    def record_heartbeat(self) -> None:
        """Record that the service is running; without heartbeats the lease is given up."""
        self._beat = self._now()

    @property
    def left_s(self) -> float:
        """Seconds during which we may send commands if etcd stops answering."""
        return max(0.0, self._lease.left_s)

    # -- writes for a group

    def write(self, group: str, values: Iterable[tuple[str, bytes | None]]) -> bool:
        """
        Put each (key, value) in one transaction; a value of None deletes the key.

        False if the group is not ours, or not ours any more.  Raises EtcdAway, EtcdRefused.
        """
        fence = self.groups_owned().get(group)
        if fence is None:
            return False
        operations = [make_delete(key) if value is None else make_put(key, value)
                      for key, value in values]
        is_ours, _, _ = self._etcd.txn([compare_created(self._make_owner_key(group), fence)],
                                               operations,
                                               again=True)
        if not is_ours:
            self._release_groups([group])
        return is_ours

    # -- lifecycle

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Release all groups and revoke the lease; other instances take the groups at once."""
        self._ended.set()
        self._woken.set()
        lease = self._lease.id
        self._lease.mark_lost()
        self._release_groups(list(self._owned))
        if lease is not None:
            try:
                self._etcd.revoke(lease)
            except IostatsError:
                pass                                # it expires by itself
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(0.5)

    def _run_loop(self, work: Callable[[], float], woken: threading.Event) -> None:
        """Call `work` repeatedly; it returns the pause in seconds, which `woken` cuts short."""
        while not self._ended.is_set():
            try:
                pause_s = work()
            except IostatsError as error:
                self._report_etcd_failure(str(error))
                pause_s = _RETRY_S
            except Exception as error:              # a bug: the lease may expire
                self._log(f"internal error; please report: {error!r}; retrying")
                pause_s = CHECK_EVERY_S
            self._notify_lease_change()
            if woken.wait(pause_s) and not self._ended.is_set():
                woken.clear()

    def _watch_owners(self) -> None:
        """Wake the groups thread whenever an owner key changes."""
        for news in self._etcd.follow(self._etcd.below("owners"), self._ended):
            self._handle_deletions(news)
            self._woken.set()

    def _handle_deletions(self, news: News) -> None:
        """Drop the groups whose owner key was deleted, by whomever."""
        if not isinstance(news, Changes):
            return
        removed = {self._etcd.last_part(key): revision
                   for key, value, revision in news.changes if value is None}
        with self._lock:
            self._removed.update(removed)
            lost = [group for group, revision in removed.items()
                    if self._owned.get(group, revision) < revision]
        self._release_groups(lost)

    def _report_etcd_failure(self, why: str) -> None:
        """Log the first of several failures of etcd."""
        if not self.etcd_error:
            self._log(f"{why}; LDMS' daemons are left as they are until etcd answers")
        self.etcd_error = why

    def _notify_lease_change(self) -> None:
        """Notify the service if our lease expired or is held again."""
        is_held = self._lease.is_held()
        if is_held != self._was_held:
            self._was_held = is_held
            self.on_change()

    # -- the lease

    def _renew_lease(self) -> float:
        """Renew the lease, or acquire one; return the pause until the next renewal."""
        lease, sent = self._lease.id, self._now()
        paused, self._renewed_at = sent - self._renewed_at, sent
        if sent - self._beat > STUCK_LEASES * self._lease_s:
            if lease is not None:
                self._log((f"this process, or its host, was stopped for {paused:.0f} s"
                           if paused > 2 * self._lease_s else
                           f"the service did not run for {sent - self._beat:.0f} s (the host "
                           f"is overloaded, or an internal error)")
                          + "; other instances take its groups")
                self._give_up_lease()
            return CHECK_EVERY_S
        if lease is None:
            self._acquire_lease()
        else:
            left = self._etcd.keep_alive(lease)
            if left > 0:
                self._lease.set_renewed(lease, left, sent)
                if self._missing_key_lease == lease:
                    self._restore_own_key(lease)
            else:
                self._log("our lease in etcd expired; other instances may own our groups")
                self._give_up_lease()
                return 0.0
        return self._lease_s / RENEWALS

    def _give_up_lease(self) -> None:
        """Drop the lease and all groups."""
        self._lease.mark_lost()
        self._release_groups(list(self._owned))

    def _acquire_lease(self) -> None:
        """Get a lease and create our instance key under it; EtcdAway if the name is taken."""
        sent = self._now()
        lease = self._etcd.grant(self._lease_s)
        self._leases.add(lease)
        is_new, _, revision = self._etcd.txn(
            [compare_absent(self._make_instance_key())],
            [make_put(self._make_instance_key(), self._describe_instance(False), lease)])
        if not is_new:
            there = self._etcd.get(self._make_instance_key())
            if there is None or there.lease in self._leases:
                self._etcd.revoke(there.lease
                                          if there else lease)      # our own earlier one
            else:                                   # for example an instance in another container
                self.name = f"{make_instance_name()[:_LONGEST_NAME - 9]}-{os.urandom(4).hex()}"
            raise EtcdAway("etcd: this instance's name was taken")
        self._leases = {lease}
        self._key_revision, self._is_marked_ready = revision, False
        self._lease.set_granted(lease, float(self._lease_s), sent)
        self._woken.set()

    def _restore_own_key(self, lease: int) -> None:
        """Write our instance key again after it was deleted by hand while the lease was valid."""
        self._missing_key_lease = None
        is_new, there, revision = self._etcd.txn(
            [compare_absent(self._make_instance_key())],
            [make_put(self._make_instance_key(), self._describe_instance(self._is_marked_ready),
                      lease)],
            [make_get(self._make_instance_key())])
        result = there[0]
        if is_new:
            self._key_revision = revision
            self._log("our key in etcd was deleted; it was written again")
        elif isinstance(result, list) and result and result[0].lease == lease:
            self._key_revision = result[0].create_revision       # of an attempt without an answer
        else:                                       # _acquire_lease chooses a new name
            self._log("our key in etcd belongs to another instance; others may take our groups")
            self._give_up_lease()
            self._ended.wait(_RELEASE_DELAY_S)
            self._etcd.revoke(lease)

    def _describe_instance(self, is_ready: bool) -> bytes:
        """Return the value of our instance key."""
        return json.dumps({"host": socket.gethostname(), "pid": os.getpid(),
                           "since": round(self._since, 3), "version": __version__,
                           "ready": is_ready}).encode()

    # -- the groups

    def _reconcile_groups(self) -> float:
        """Read instances and owners, claim or release groups; return the pause in seconds."""
        lease = self._lease.id
        if lease is None or self._desired is None:
            return CHECK_EVERY_S
        if not self._is_marked_ready:
            self._is_marked_ready = self._etcd.txn(
                [compare_created(self._make_instance_key(), self._key_revision)],
                [make_put(self._make_instance_key(), self._describe_instance(True), lease)],
                again=True)[0]
        instances, owners = (
            {self._etcd.last_part(item.key): item
             for item in self._etcd.range(self._etcd.below(directory))[0]}
            for directory in ("instances", "owners"))
        if self.etcd_error:
            self.etcd_error = ""
            self._log("etcd answers again")
        self._update_owned({group: item.create_revision for group, item in owners.items()
                            if item.lease == lease}, lease)
        own = instances.get(self.name)
        if own is None or own.create_revision != self._key_revision:
            self._missing_key_lease = lease                  # restored by the lease thread
            return CHECK_EVERY_S
        for group, owner in [*owners.items()]:
            if not owner.lease:
                self._delete_manual_owner(group, owner)
                del owners[group]
        with self._lock:
            desired, giving = dict(self._desired), dict(self._giving)
        for group, fence in giving.items():         # of the previous pass
            self._etcd.txn([compare_created(self._make_owner_key(group), fence)],
                                   [make_delete(self._make_owner_key(group))], again=True)
            with self._lock:
                del self._giving[group]
            del owners[group]
        share = share_groups(self.name, desired, [name for name, item in instances.items()
                                                  if _is_ready(item.value)],
                             {group: item.value.decode("utf-8", "replace")
                              for group, item in owners.items()})
        self._claim_groups(share.take, lease)
        with self._lock:
            self._giving = {group: self._owned.pop(group) for group in share.give
                            if group in self._owned}
        if share.give:
            self._log(f"releasing {_format_groups(share.give)} to other instances")
            self.on_change()
            return _RELEASE_DELAY_S
        return CHECK_EVERY_S

    def _update_owned(self, result: Mapping[str, int], lease: int) -> None:
        """Replace the owned groups by those that etcd shows as ours."""
        with self._lock:
            before = self._owned
            # Ignore reads that are older than a deletion reported by the watch.
            self._removed = {group: revision for group, revision in self._removed.items()
                             if result.get(group, revision) < revision}
            self._giving = {group: fence for group, fence in self._giving.items()
                            if result.get(group) == fence}
            self._owned = {group: fence for group, fence in result.items()
                           if group not in self._giving and group not in self._removed
                           } if self._lease.id == lease else {}
            is_changed = self._owned != before
        if is_changed:
            self.on_change()

    def _delete_manual_owner(self, group: str, owner: KeyValue) -> None:
        """Delete an owner key without a lease: it was written by hand, and would never expire."""
        key = self._make_owner_key(group)
        if self._etcd.txn([compare_created(key, owner.create_revision)], [make_delete(key)],
                                  again=True)[0]:
            self._log(f"the owner of {_format_groups([group])} in etcd was written by hand "
                      f"({sanitize(repr(owner.value.decode('utf-8', 'replace')))[:60]}); the key "
                      f"was deleted, and the group is free")

    def _claim_groups(self, groups: Iterable[str], lease: int) -> None:
        """Create the owner keys of free groups."""
        claimed = {}
        for group in groups:
            is_ours, _, revision = self._etcd.txn(
                [compare_absent(self._make_owner_key(group)),
                 compare_created(self._make_instance_key(), self._key_revision)],
                [make_put(self._make_owner_key(group), self.name.encode(), lease)])
            if is_ours:
                claimed[group] = revision
        if claimed:
            with self._lock:
                if self._lease.id == lease:
                    self._owned.update((group, fence) for group, fence in claimed.items()
                                       if self._removed.get(group, fence) <= fence)
            self._log(f"now watching {_format_groups(claimed)}")
            self.on_change()

    def _release_groups(self, groups: Iterable[str]) -> None:
        """Remove groups from the owned ones."""
        with self._lock:
            lost = [group for group in groups if self._owned.pop(group, None) is not None]
        if lost:
            self.on_change()

    # -- keys

    def _make_instance_key(self) -> str:
        return self._etcd.key("instances", self.name)

    def _make_owner_key(self, group: str) -> str:
        return self._etcd.key("owners", group)


def _is_ready(value: bytes) -> bool:
    """True if the value of an instance key has "ready": true."""
    try:
        result = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return isinstance(result, dict) and result.get("ready") is True


def _format_groups(groups: Iterable[str]) -> str:
    """Format up to five group names for a message."""
    names = list(groups)
    shown = ", ".join(sanitize(name)[:60] for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
