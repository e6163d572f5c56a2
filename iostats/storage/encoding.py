"""
A storage server's sweeps as messages: what changed since the one before.

    job_stats -> pieces -> changed? -> parse -> blocks -> messages of at most 1 MB

A file is read through a buffer, whatever its size, and only what changed since the sweep before is
parsed.  A run is a chain of messages that begins with a full sweep.  When a link is lost (a full
disk, a damaged file, a new installation of the server), or a target is added, the next sweep is
full again, in a new run: numbers of two runs are never added up.
"""

from __future__ import annotations

import errno
import gc
import os

from iostats.base.errors import JobStatsSyntaxError
from iostats.lustre import job_stats
from iostats.lustre.job_stats_rows import Rows
from iostats.node import identity as this_node
from iostats.storage.fingerprints import Fingerprints
from iostats.storage.targets import (
    find_boot_time_ns,
    open_job_stats,
    read_chunks,
    read_file_chunks,
    read_instance,
)
from iostats.wire.messages import clients_encoder
from iostats.wire.messages.sweep_encoder import (
    LONGEST_WHY,
    MAGIC,
    BlockEncoder,
    SweepMessages,
    compute_json_length,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.storage.clients import Clients
    from iostats.storage.schedule import Pace, SweepClock
    from iostats.storage.targets import LocalTarget


class SweepEncoder:
    """
    Makes the messages of one agent, sweep after sweep.

    `longest`: bytes of a message before it is compressed; `emit`: gets a line, and what it is about
    where the line has numbers.

    Attributes:
        run: the chain of messages, 16 hex digits; "" before the first one.
        is_broken: the next sweep begins another chain.
        began: the place in its chain of the first message of this sweep.
    """

    def __init__(self, node: str, longest: int, clock: SweepClock, pace: Pace,
                 emit: Callable[..., None]) -> None:
        self._node, self._longest, self._clock, self._pace = node, longest, clock, pace
        self._emit = emit
        self._boot_id, self._rows = this_node.read_boot_id(), Rows(find_boot_time_ns())
        self._prints: dict[tuple[str, str], Fingerprints] = {}
        self.run, self.is_broken, self.began, self._seq = "", True, 1, 0

    def note_lost_message(self, run: str) -> None:
        """Note that a message of the chain `run` will not reach the server."""
        if run == self.run:
            self.is_broken = True

    def sweep(self, targets: Sequence[LocalTarget], slot: int, every_s: int, ahead_s: float | None,
              keep: Callable[[str, int, bytes, bool], None],
              clients: Clients | None = None) -> None:
        """
        Read the targets `found`; each message goes to `keep(run, seq, message, is it of a full
        sweep)`, whose exceptions end the sweep and its chain.

        `ahead_s`: our clock less the server's; None if unknown.  `clients`: their
        counters are read as well, and follow in messages of their own.
        """
        keys = {(target.file_system, target.name) for target in targets}
        for key in self._prints.keys() - keys:
            del self._prints[key]              # has moved; sent in full if it returns
        if self.is_broken or keys - self._prints.keys():
            self.run, self._seq = os.urandom(8).hex(), 0
            self._prints = {key: Fingerprints() for key in keys}
            self.is_broken = False
        self.began = self._seq + 1
        is_full = self.began == 1

        def messages(magic: bytes) -> SweepMessages:
            return SweepMessages(
                lambda message: keep(self.run, self._seq, message, is_full),
                lambda: self._make_head(full=is_full, slot=slot, every=every_s,
                                        read_ahead_s=ahead_s),
                self._longest, magic)
        parts = messages(MAGIC)
        gc.disable()                        # rows are no cycles: scanning them finds no garbage
        try:
            for target in targets:
                self._add(target, parts)
            if clients is not None:            # before the last message of the jobs is stored
                clients.read(targets)
            parts.end(last=clients is None)
            if clients is not None:
                parts = messages(clients_encoder.MAGIC)
                clients.send(parts, is_full)
                parts.end()
        except BaseException:
            self.is_broken = True
            raise
        finally:
            gc.enable()

    def _make_head(self, **more: Any) -> dict[str, Any]:
        """Make the head of the next message of this sweep."""
        self._seq += 1
        return {"node": self._node, "boot_id": self._boot_id, "run": self.run, "seq": self._seq,
                **more}

    def _add(self, target: LocalTarget, parts: SweepMessages) -> None:
        """Add the job_stats of one target to the messages."""
        name = f"{target.file_system}-{target.name}"
        prints = self._prints[target.file_system, target.name]
        read_at, entries, bad, why = self._clock.now(), 0, 0, ""
        since_boot_s, instance = round(self._clock.steady(), 6), read_instance(target)
        head = {"file_system": target.file_system, "target": target.name,
                "read_at": round(read_at, 6), "cleanup_s": target.cleanup_s,
                "since_boot_s": since_boot_s, "full": prints.is_new,
                "instance": int(instance) if instance else None}
        block = BlockEncoder(head)
        try:
            handle, path = open_job_stats(target)
            try:
                for piece in prints.quotes.split_entries(
                        read_chunks(handle, path, self._pace.pause),
                        lambda: read_file_chunks(path, self._pace.pause)):
                    entries += 1
                    if not prints.is_changed(piece):
                        continue
                    try:
                        form, row = self._rows.read(piece, path, prints.quotes.is_printed_by_kernel)
                    except JobStatsSyntaxError as error:
                        prints.refuse(piece)
                        block.refuse(error)
                        bad += 1
                        why = why or str(error)
                        continue
                    if not (block.has_place_for(form, row) and parts.has_place_for(block)):
                        parts.add(block, ended=False)
                        block = BlockEncoder(head)
                    block.add(form, row)
            finally:
                os.close(handle)
            if read_instance(target) != instance:
                raise OSError(errno.EAGAIN, "the target was started again in between", path)
        except OSError as error:
            # What has been read is valid.  Which entries were removed is unknown.
            prints.abandon()
            what = (error.strerror or str(error))[:LONGEST_WHY]
            self._emit(f"{name}: {error.filename or target.directories[0]}: cannot be read: {what}")
            if len(block):
                parts.add(block, ended=False)
                block = BlockEncoder(head)
            parts.add(block, ended=True, unreadable=what)
            return
        if bad:
            self._emit(f"{name}: {bad} of {entries} entries could not be understood, the first: "
                       f"{why}", (name, "bad"))
        self.is_broken |= prints.quotes.were_misread
        removed = [job_id for job_id in dict.fromkeys(prints.finish())
                   if len(job_id) <= job_stats.LONGEST_ID]
        if compute_json_length(removed) > self._longest:
            # A full sweep has no need to name them, and may have any number of messages.
            removed, self.is_broken = [], True
        parts.add(block, ended=True, entries=entries, removed=removed)
