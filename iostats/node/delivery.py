"""
Reports that wait on a node for the site's server, and their way there.

    DIRECTORY/KEY%20NODE.SEQ.delta      a report that the site's server does not have yet
    DIRECTORY/...SEQ.delta.refused      ... and has refused: it is tried again once a day

DIRECTORY is site.cfg's [node] hook_dir.
"""

from __future__ import annotations

import os
import time

from iostats.base import private_files
from iostats.base.errors import IostatsError, NotDelivered
from iostats.base.job_id import is_node_name
from iostats.base.private_files import read_if_readable, read_text
from iostats.node import job_files, lost_starts, start_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.totals.received_report import OtherRun, SentReport

_LAST_AUTH = "auth"                # the file with which of [server] auth worked, if not the first
_OF_MUNGED = 0.3                   # of the time that is left: a dead munged must leave some
MOST_WAITING, MOST_REFUSED = 10_000, 1000
_AGAIN_S, _AGAIN_AT_ONCE = 86400.0, 10    # reports that were refused: the server may be fixed
_AROUND = 1000                     # bytes of a message beside its report
# The codes of wire/protocol: REFUSED, INVALID_PARAMS, PARSE_ERROR, INVALID_REQUEST.
NOT_NOW = (-32004, -32602, -32700, -32600)      # to send it again now does not help
_ITS_OWN = -32603                  # INTERNAL_ERROR: the server can't take this one, now


def deliver(config: Config, root: str, node: str, until: float, emit: Callable[[str], None],
            now: Callable[[], float] = time.time, lost: list[str] | None = None) -> int:
    """
    Send all reports that wait on this node, the oldest first, until time.monotonic() is `until`.

    How many wait still; paths of those that were refused, removed unsent, or cannot be read or
    removed, are added to `lost`, and where the server refuses them all, that of the first.
    Starts whose epilog will not come any more are reported as well.
    """
    from iostats.base import strict_json
    directory, lost = config.node.hook_dir, [] if lost is None else lost
    # What another user can put there would be sent by root.
    private_files.check_private_directory(directory, start_files.BY_HOOK_DIR)
    lost_starts.reap(config, root, now, emit)
    waiting = _list_waiting(directory)
    for path in waiting[:-MOST_WAITING]:
        emit(f"{path}: removed unsent: more than {MOST_WAITING} reports wait here")
        private_files.remove_if_present(path)
        lost.append(path)
    waiting, left_here = waiting[-MOST_WAITING:], 0
    again = _list_old_refused(directory, now())
    if not waiting and not again:
        return 0
    try:
        site = SiteConnection(config, emit, until - time.monotonic())
    except IostatsError as error:
        emit(f"{error}; {count_waiting(len(waiting))} in {directory}")
        return len(waiting)
    for number, path in enumerate(waiting + again):
        still = max(0, len(waiting) - number) + left_here
        left_s = until - time.monotonic()
        if left_s <= 0:
            if still:
                emit(f"no time is left to send reports; {still} wait in {directory} ([node] "
                     f"hook_timeout)")
            return still
        try:
            text = read_text(path)
            report: SentReport = strict_json.loads(text.encode("latin-1"))
            if len(text) + _AROUND > config.server.max_message_bytes:
                raise ValueError("it is larger than a message may be (site.cfg: [server] "
                                 "max_message_bytes)")
            if (not isinstance(report, dict) or not isinstance(report.get("node"), str)
                    or not is_node_name(report["node"])):
                raise ValueError("it does not have the format of a report")
        except FileNotFoundError:                           # another epilog is faster
            continue
        except OSError as error:
            emit(f"{path}: cannot be read: {error.strerror}")
            lost += {path}.difference(again)
            left_here += path not in again
            continue
        except (ValueError, RecursionError) as error:
            _put_aside(path, f"cannot be sent: {error}", emit)
            lost += {path}.difference(again)
            continue
        try:
            over = site.send(report, left_s)
        except NotDelivered as error:
            code = getattr(error, "code", None)
            if code in NOT_NOW:
                _put_aside(path, str(error), emit)
                lost += {path}.difference(again)
                continue
            if still:
                emit(f"{error}; {count_waiting(still)} in {directory}")
            if code != _ITS_OWN:
                from iostats.wire import client
                if (isinstance(error, (client.Refused, client.OtherServer))
                        and not isinstance(error, client.SilentServer)):
                    lost.append(path)
                return still
            left_here += path not in again      # those behind it need not wait for it
            continue
        try:
            private_files.remove_if_present(path)
        except OSError as error:                     # the server knows it when it comes again
            emit(f"{path}: was sent, and cannot be removed: {private_files.explain_error(error)}")
            lost += {path}.difference(again)
            left_here += path not in again
        if over:
            lost_starts.drop_ended_starts(config, root, directory, report["node"], over, emit)
    return left_here


class SiteConnection:
    """The site's server, the first of them that answers; NotDelivered or StateError where none can
    be asked."""

    def __init__(self, config: Config, emit: Callable[[str], None], within_s: float) -> None:
        from iostats.wire import auth, client, protocol
        from iostats.wire.site_servers import make_site_servers
        self._servers = make_site_servers(config, client.UNATTENDED_REACH_WITHIN_S)
        self._last_path = os.path.join(config.node.hook_dir, _LAST_AUTH)
        self._last = read_if_readable(self._last_path)
        order = sorted(config.server.auth, key=lambda word: word != self._last)
        self._signs = auth.call_with_timeout(within_s, "credentials",
                                             lambda: auth.load_client_credentials(
            config, protocol.SITE, config.site.secret, emit,
            munged_within_s=within_s * _OF_MUNGED, methods=order))
        first = "secret" if isinstance(self._signs[0], auth.Secret) else "munge"
        self._worked = "" if first == config.server.auth[0] else first

    def send(self, report: SentReport, within_s: float) -> list[OtherRun]:
        """
        Send one report, in one try, and return the starts on its node that are over, by the answer.
        """
        from iostats.wire import auth, protocol
        answer: protocol.Receipt = auth.call_with_timeout(
            within_s, f"answer of {self._servers.name}", lambda: self._servers.call(
                self._signs, report["node"], protocol.REPORT, report, within_s))
        if self._worked != self._last:                      # an epilog has no time to find out
            self._last = self._worked
            try:
                if self._worked:
                    private_files.write_atomically(self._last_path, self._worked.encode())
                else:
                    private_files.remove_if_present(self._last_path)
            except OSError:
                pass
        over = answer.get("over") if isinstance(answer, dict) else None
        return over if isinstance(over, list) else []


def _put_aside(path: str, why: str, emit: Callable[[str], None]) -> None:
    """Put a refused report aside for a day; a second refusal is not logged."""
    try:
        os.utime(path)
        if not path.endswith(".refused"):
            emit(f"{path}: {why}; the report is put aside, and tried again once a day: "
                 f"{path}.refused")
            os.replace(path, path + ".refused")
    except FileNotFoundError:
        pass
    except OSError as error:                                # those behind it need not wait for it
        emit(f"{path}: cannot be put aside: {error.strerror}")


def _list_by_age(directory: str, ending: str) -> list[tuple[float, str]]:
    """Return [(when it was last changed, path)] of the files with this ending, the oldest first."""
    paths_by_time = []
    for name in job_files.list_file_names(directory):
        if name.endswith(ending):
            path = os.path.join(directory, name)
            try:
                paths_by_time.append((os.lstat(path).st_mtime, path))
            except OSError:
                continue
    return sorted(paths_by_time)


def count_waiting(number: int) -> str:
    """
    Count the waiting reports in words.

    >>> count_waiting(0), count_waiting(1), count_waiting(23)
    ('no reports wait', '1 report waits', '23 reports wait')
    """
    return "1 report waits" if number == 1 else f"{number or 'no'} reports wait"


def _list_waiting(directory: str) -> list[str]:
    """Paths of the reports that wait, the oldest first."""
    return [path for _, path in _list_by_age(directory, ".delta")]


def _list_old_refused(directory: str, now: float) -> list[str]:
    """
    Paths of reports that were refused a day ago or more; the oldest ones beyond a limit are
    removed.
    """
    refused = _list_by_age(directory, ".refused")
    for _, path in refused[:-MOST_REFUSED]:
        try:
            private_files.remove_if_present(path)
        except OSError:
            continue
    # A clock that was set back is as good as a day.
    return [path for at, path in refused[-MOST_REFUSED:]
            if abs(now - at) >= _AGAIN_S][:_AGAIN_AT_ONCE]
