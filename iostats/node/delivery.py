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
from iostats.base.private_files import read_text
from iostats.node import job_files, lost_starts, start_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config

_LAST_AUTH = "auth"                # the file with which of [server] auth worked, if not the first
_OF_MUNGED = 0.3                   # of the time that is left: a dead munged must leave some
MOST_WAITING, MOST_REFUSED = 10_000, 1000
_AGAIN_S, _AGAIN_AT_ONCE = 86400.0, 10    # reports that were refused: the server may be fixed
_AROUND = 1000                     # bytes of a message beside its report
# The codes of wire/protocol: REFUSED, INVALID_PARAMS, PARSE_ERROR, INVALID_REQUEST.
NOT_NOW = (-32004, -32602, -32700, -32600)      # to send it again now does not help
_ITS_OWN = -32603                  # INTERNAL_ERROR: the server can't take this one, now


def deliver(config: Config, root: str, node: str, until: float, say: Callable[[str], None],
            now: Callable[[], float] = time.time, lost: list[str] | None = None) -> int:
    """
    Send all reports that wait on this node, the oldest first, until time.monotonic() is `until`.

    How many wait still; paths of those that were refused, removed unsent, or cannot be read or
    removed, are added to `lost`, and where the server refuses them all, that of the first.
    Starts whose epilog will not come any more are reported as well.
    """
    from iostats.base import strict_json
    directory, lost = config["node.hook_dir"], [] if lost is None else lost
    # What another user can put there would be sent by root.
    private_files.check_private(directory, start_files.BY_HOOK_DIR)
    lost_starts.reap(config, root, now, say)
    waiting = _waiting(directory)
    for path in waiting[:-MOST_WAITING]:
        say(f"{path}: removed unsent: more than {MOST_WAITING} reports wait here")
        private_files.forget(path)
        lost.append(path)
    waiting, left_here = waiting[-MOST_WAITING:], 0
    again = _refused_before(directory, now())
    if not waiting and not again:
        return 0
    try:
        site = SiteConnection(config, say, until - time.monotonic())
    except IostatsError as error:
        say(f"{error}; {waiting_text(len(waiting))} in {directory}")
        return len(waiting)
    for number, path in enumerate(waiting + again):
        still = max(0, len(waiting) - number) + left_here
        left_s = until - time.monotonic()
        if left_s <= 0:
            if still:
                say(f"no time is left to send reports; {still} wait in {directory} ([node] "
                    f"hook_timeout)")
            return still
        try:
            text = read_text(path)
            report = strict_json.loads(text.encode("latin-1"))
            if len(text) + _AROUND > config["server.max_message_bytes"]:
                raise ValueError("it is larger than a message may be (site.cfg: [server] "
                                 "max_message_bytes)")
            if (not isinstance(report, dict) or not isinstance(report.get("node"), str)
                    or not is_node_name(report["node"])):
                raise ValueError("it is not of the form of a report")
        except FileNotFoundError:                           # another epilog is faster
            continue
        except OSError as error:
            say(f"{path}: cannot be read: {error.strerror}")
            lost += {path}.difference(again)
            left_here += path not in again
            continue
        except (ValueError, RecursionError) as error:
            _put_aside(path, f"cannot be sent: {error}", say)
            lost += {path}.difference(again)
            continue
        try:
            over = site.send(report, left_s)
        except NotDelivered as error:
            code = getattr(error, "code", None)
            if code in NOT_NOW:
                _put_aside(path, str(error), say)
                lost += {path}.difference(again)
                continue
            if still:
                say(f"{error}; {waiting_text(still)} in {directory}")
            if code != _ITS_OWN:
                from iostats.wire import client
                if (isinstance(error, (client.Refused, client.OtherServer))
                        and not isinstance(error, client.SilentServer)):
                    lost.append(path)
                return still
            left_here += path not in again      # those behind it need not wait for it
            continue
        try:
            private_files.forget(path)
        except OSError as error:                     # the server knows it when it comes again
            say(f"{path}: was sent, and cannot be removed: {private_files.why(error)}")
            lost += {path}.difference(again)
            left_here += path not in again
        if over:
            lost_starts.give_up_some(config, root, directory, report["node"], over, say)
    return left_here


class SiteConnection:
    """The site's server, the first of them that answers; NotDelivered or StateError where none can
    be asked."""

    def __init__(self, config: Config, say: Callable[[str], None], within_s: float) -> None:
        from iostats.wire import auth, protocol
        from iostats.wire.site_servers import site_servers
        self._servers = site_servers(config)
        self._last_path = os.path.join(config["node.hook_dir"], _LAST_AUTH)
        self._last = _text_of(self._last_path)
        order = sorted(config["server.auth"], key=lambda word: word != self._last)
        self._signs = auth.with_timeout(within_s, "credentials", lambda: auth.client_credentials(
            {**config, "server.auth": order}, protocol.SITE, config["site.secret"], say,
            munged_within_s=within_s * _OF_MUNGED))
        first = "secret" if isinstance(self._signs[0], auth.Secret) else "munge"
        self._worked = "" if first == config["server.auth"][0] else first

    def send(self, report: dict[str, Any], within_s: float) -> list[Any]:
        """Send one report, in one try; which starts on its node are over, by the answer."""
        from iostats.wire import auth
        answer = auth.with_timeout(
            within_s, f"answer of {self._servers.name}", lambda: self._servers.call(
                self._signs, report["node"], "report", report, within_s))
        if self._worked != self._last:                      # an epilog has no time to find out
            self._last = self._worked
            try:
                if self._worked:
                    private_files.write_whole(self._last_path, self._worked.encode())
                else:
                    private_files.forget(self._last_path)
            except OSError:
                pass
        over = answer.get("over") if isinstance(answer, dict) else None
        return over if isinstance(over, list) else []


def _text_of(path: str) -> str:
    try:
        return read_text(path)
    except OSError:
        return ""


def _put_aside(path: str, why: str, say: Callable[[str], None]) -> None:
    """A report that was refused waits for a day; that it was refused again is not said."""
    try:
        os.utime(path)
        if not path.endswith(".refused"):
            say(f"{path}: {why}; the report is put aside, and tried again once a day: "
                f"{path}.refused")
            os.replace(path, path + ".refused")
    except FileNotFoundError:
        pass
    except OSError as error:                                # those behind it need not wait for it
        say(f"{path}: cannot be put aside: {error.strerror}")


def _by_age(directory: str, ending: str) -> list[tuple[float, str]]:
    """[(when it was last changed, path)] of the files with this ending, the oldest first."""
    found = []
    for name in job_files.file_names(directory):
        if name.endswith(ending):
            path = os.path.join(directory, name)
            try:
                found.append((os.lstat(path).st_mtime, path))
            except OSError:
                continue
    return sorted(found)


def waiting_text(number: int) -> str:
    """
    >>> waiting_text(0), waiting_text(1), waiting_text(23)
    ('no reports wait', '1 report waits', '23 reports wait')
    """
    return "1 report waits" if number == 1 else f"{number or 'no'} reports wait"


def _waiting(directory: str) -> list[str]:
    """Paths of the reports that wait, the oldest first."""
    return [path for _, path in _by_age(directory, ".delta")]


def _refused_before(directory: str, now: float) -> list[str]:
    """Paths of some reports that were refused a day ago or more; the oldest of too many go."""
    found = _by_age(directory, ".refused")
    for _, path in found[:-MOST_REFUSED]:
        try:
            private_files.forget(path)
        except OSError:
            continue
    # A clock that was set back is as good as a day.
    return [path for at, path in found[-MOST_REFUSED:]
            if abs(now - at) >= _AGAIN_S][:_AGAIN_AT_ONCE]
