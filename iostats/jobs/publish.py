"""
Shows a record to the job's user: in the job's output, in the user's home, as an accounting comment.

[site] show lists the places.  A failure to write is logged; `iostats report` has the record in any
case.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from iostats import schedulers
from iostats.base.errors import IostatsError
from iostats.jobs.write_as_user import WriteError, Writer
from iostats.report import accounting_comment, header, job_tables

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from iostats.base.config import Config
    from iostats.base.job_facts import Facts
    from iostats.jobs.open_jobs import AboutJob
    from iostats.store.record_store import Key, Store
    from iostats.totals.record import Record

log = logging.getLogger(__name__)

_COMMENT_AFTER_S = (2, 3, 5, 15, 60)  # slurmdbd gets array tasks some seconds late
_COMMENTS_AT_ONCE = 4
_SHOWN_AT_ONCE = 20             # the file system of a job's output may hang
_NUMBERS = ("|", "DATA", "note:")       # lines of a report with its numbers begin so


class Publisher:
    """
    Shows records, in one event loop.

    Attributes:
        writer: the write_as_user.Writer that writes into users' files.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self._store, self._config, self.writer = store, config, Writer()
        self._showing: dict[Key, asyncio.Future[None]] = {}
        self._commenting: dict[Key, asyncio.Future[None]] = {}
        # Created by `begin`: up to Python 3.9 it belongs to one loop.
        self._may_comment: asyncio.Semaphore

    async def begin(self) -> None:
        """Start the process that writes as users, while little else is in memory."""
        self._may_comment = asyncio.Semaphore(_COMMENTS_AT_ONCE)
        if {"home", "output"} & set(self._config.site.show):
            try:
                await self.writer.begin()
            except WriteError as error:
                log.error("%s", error)

    def close(self) -> None:
        """End the process that writes as users."""
        self.writer.close()

    async def show(self, key: Key, about: AboutJob, facts: Facts | None,
                   record: Record) -> None:
        """
        Begin to show a job's record in all places of [site] show.

        Waits while _SHOWN_AT_ONCE others are being shown, or an earlier record of this job: so a
        user's
        file system that hangs does not delay other records.
        """
        while len(self._showing) >= _SHOWN_AT_ONCE or key in self._showing:
            await asyncio.wait(self._showing.values(), return_when=asyncio.FIRST_COMPLETED)
        if self._config.site.show:
            self._showing[key] = asyncio.ensure_future(self._show(key, about, facts, record))

    async def _show(self, key: Key, about: AboutJob, facts: Facts | None,
                    record: Record) -> None:
        try:
            await self._write_everywhere(key, about, facts, record)
        except IostatsError as error:
            log.warning("job %s: %s", key.job, error, extra={"job": key.job})
        except Exception:
            log.exception("internal error; please report: job %s was not shown", key.job,
                          extra={"job": key.job})
        finally:
            del self._showing[key]

    async def _write_everywhere(self, key: Key, about: AboutJob, facts: Facts | None,
                                record: Record) -> None:
        places = self._config.site.show
        user, job = record.job.user, record.job.id
        text = job_tables.format_report(job_tables.add_labels(record, self._config), self._config,
                                        self._config.report.format, has_page=True,
                                        measured="the whole job, from prolog to epilog")
        # The short form has no bounds.
        if "comment" in places and facts is not None and not header.is_known_by_node_only(record):
            commenting = asyncio.ensure_future(self._write_comments(about.scheduler, facts,
                                                                    key.attempt, record))
            if key in self._commenting:
                self._commenting[key].cancel()               # an older record
            self._commenting[key] = commenting
            commenting.add_done_callback(lambda finished: self._commenting.pop(key)
                                         if self._commenting.get(key) is finished else None)
        if not user:
            return
        if "home" in places:
            await _log_failure(self.writer.write_in_home(user, job, text))
        output = (facts.output if facts else "") or about.output
        # Appended once: a later record is in the other places only.
        if "output" in places and output and "%" not in output and self._store.show_once(key):
            # The user's own `iostats report` may have written the same.
            await _log_failure(self.writer.append(user, output, "\n" + text, f"Job {job}", [
                line for line in text.splitlines() if line.startswith(_NUMBERS)]))

    async def _write_comments(self, scheduler: str, facts: Facts, attempt: int,
                              record: Record) -> None:
        """
        Write the short form into accounting, in several tries: the accounting may have the job
        late.
        """
        why: object = "its fields have other texts, or the accounting does not know it"
        for pause_s in _COMMENT_AFTER_S:
            await asyncio.sleep(pause_s)
            try:
                async with self._may_comment:
                    if await asyncio.to_thread(
                            _write_comment, scheduler, facts, attempt,
                            accounting_comment.encode(record),
                            self._config.site.comment_fields):
                        return
            except IostatsError as error:
                why = error
            except Exception:
                log.exception("internal error; please report: no comment for %s", facts.job,
                              extra={"job": facts.job})
                return
        log.warning("job %s: no comment: %s", facts.job, why, extra={"job": facts.job})


async def _log_failure(writing: Awaitable[None]) -> None:
    try:
        await writing
    except (WriteError, OSError) as error:
        log.info("%s", error)


def _write_comment(scheduler: str, facts: Facts, attempt: int, text: str,
                   fields: Sequence[str]) -> bool:
    """
    Write a comment into accounting; False if it could not be written yet.

    True also if none is to be written: the batch system has no comments, or the job was started
    again.
    """
    system = schedulers.find_scheduler(scheduler)
    if not hasattr(system, "write_comment") or facts.restarts != attempt:
        return True
    return system.write_comment(facts, text, tuple(fields), accounting_comment.MARK) is not None
