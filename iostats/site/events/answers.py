"""
The site server's answers to `events` and `events_status`, and who gets which; docs/events.md,
docs/security.md.
"""

from __future__ import annotations

from iostats.base.errors import StateError, WireError
from iostats.site.events.job_parts import runs_of
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Optional

    from iostats.site.all_jobs import AllJobs
    from iostats.site.events.intake import SiteEvents
    from iostats.site.events.questions import EventsParams, EventsStatusParams, JobPart
    from iostats.site.harvest_intake import Harvest
    from iostats.site.store import Store

    _Answer = Generator[None, None, dict[str, Any]]


class EventAnswers:
    """Answers questions about `events` of users; who may see all is asked as None."""

    def __init__(self, events: SiteEvents, store: Store, all_jobs: AllJobs,
                 harvest: Harvest) -> None:
        self._events, self._store = events, store
        self._all_jobs, self._harvest = all_jobs, harvest

    def events(self, ask: EventsParams, user: Optional[str]) -> _Answer:
        """The answer to EventsParams, in steps; `user`: an ordinary one, None for all others."""
        try:
            parts = self._parts(ask.job, user) if ask.job else None
            return (yield from self._events.ask(ask, user is None, parts))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _parts(self, job: str, user: Optional[str]) -> list[JobPart]:
        """Of the runs of a job; of those of `user` alone, if given."""
        runs = [run for run in runs_of(job, self._store, self._all_jobs, self._harvest)
                if user is None or run.user == user]
        if not runs:
            raise WireError(protocol.REFUSED, (
                f"no job {job[:80]} of {user} is known here" if user is not None else
                f"no job {job[:80]} is known here") + "; ask for its nodes and its time")
        return [self._events.part_of(run.nodes, run.file_systems, run.since,
                                     self._events.now() if run.until is None else run.until)
                for run in runs]

    def status(self, ask: EventsStatusParams, user: Optional[str]) -> _Answer:
        """The answer to EventsStatusParams, in steps; `user` as in `events`."""
        if user is not None:
            raise WireError(protocol.REFUSED, (
                f"expected root or one of [site] readers, got user {user}: who is connected is of "
                f"all nodes; what happened to a job of yours: iostats events --job JOB"))
        try:
            return (yield from self._events.status(ask))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
