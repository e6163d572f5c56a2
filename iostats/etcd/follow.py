"""
Following keys: what is there, then all that changes, by whichever member serves it.

A watch is a request whose answer does not end: a line of JSON for each revision (atomic: what one
transaction changed is in one line).  It is asked for with HTTP/1.0, so lines come as they are.

    lost, or its member is silent    the next member, from the revision behind the last one seen
    compacted                        all is loaded again
    etcd is another one now, or was  all is loaded again: its revisions are not those that were seen
    restored from a backup

Whether a silent member is there is asked on another connection (a read that needs the leader),
since etcd itself says nothing on a watch for ten minutes.  Its progress notifications are not
relied on: before 3.4.25 they may be ahead of changes that are still to come (etcd issue 15220).
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import contextmanager
from typing import NamedTuple

from iostats.etcd import answers
from iostats.etcd.answers import EtcdAway, EtcdRefused, NotEtcds
from iostats.etcd.members import MemberFailed, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Optional, Union

    from iostats.etcd.answers import KeyValue
    from iostats.etcd.members import Members, Url

_AGAIN_S = 0.1
_LONGEST_LINE = 256 << 20


class Loaded(NamedTuple):
    """All current values: {key: bytes}, at this revision."""

    values: dict[str, bytes]
    revision: int


class Changes(NamedTuple):
    """Changes in their order: [(key, its value or None if it was removed, mod_revision), ...]."""

    changes: list[tuple[str, bytes | None, int]]
    revision: int


class Away(NamedTuple):
    """No member answers, for the reason in the text; the values received so far may be outdated."""

    why: str


class Back(NamedTuple):
    """A member answers again; the changes since then follow."""


if TYPE_CHECKING:
    News = Union[Loaded, Changes, Away, Back]


class Stop(threading.Event):
    """Ends a following: set() wakes it at once, in whichever thread it waits.

    It is for the end alone: what was ended does not go on after clear().
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._waits: list[socket.socket] = []

    def set(self) -> None:
        super().set()
        with self._guard:
            for connection in self._waits:
                _close_connection(connection)

    @contextmanager
    def ends(self, connection: socket.socket) -> Iterator[None]:
        """A context within which set() closes this connection, which wakes its reader."""
        with self._guard:
            self._waits.append(connection)
            if self.is_set():
                _close_connection(connection)
        try:
            yield
        finally:
            with self._guard:
                self._waits.remove(connection)


def _close_connection(connection: socket.socket) -> None:
    try:
        # Not SSLSocket's own, which is for the thread that reads alone.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        pass                            # it has ended


class _LoadAgain(Exception):
    """The changes since the last revision are no longer available: all keys have to be read again.
    """


def follow(members: Members, name: str, stop: Stop,
           load: Callable[[str], tuple[list[KeyValue], int]],
           ask_every_s: float) -> Iterator[News]:
    """Follow keys as described at client.Etcd.follow; `load`: its range."""
    state: Optional[_State] = None
    is_away = False
    while not stop.is_set():
        try:
            now, loaded = _query_state(members, name), None
            if state is None or _is_another(state, now):
                pairs, revision = load(name)
                now = _State(revision, now.cluster)
                loaded = Loaded({pair.key: pair.value for pair in pairs}, revision)
            else:
                now = state
            stream = _open(members, name, now.revision + 1)
            try:
                if is_away:
                    is_away = False
                    yield Back()
                state = now
                if loaded:
                    yield loaded
                with stop.ends(stream.socket):
                    for changes in _watch_changes(members, name, stream, state, stop, ask_every_s):
                        state = _State(changes.revision, state.cluster)
                        yield changes
            finally:
                stream.close()
        except _LoadAgain:
            state = None
        except MemberFailed:
            stop.wait(_AGAIN_S)
        except (EtcdAway, EtcdRefused) as error:
            if not is_away:
                is_away = True
                yield Away(str(error))
            stop.wait(members.timeout_s / 4)


class _State(NamedTuple):
    revision: int
    cluster: str


def _query_state(members: Members, name: str, url: Optional[Url] = None) -> _State:
    """Read the _State with a query that the leader answers; `url`: of this member."""
    body = {**answers.make_key_range(name), "count_only": True}
    answer = members.ask(url, "kv/range", body) if url else members.call("kv/range", body)
    return _State(answers.parse_revision(answer),
                  str(answers.get_object(answer, "header").get("cluster_id", "")))


def _is_another(before: _State, now: _State) -> bool:
    """Whether this is another etcd than before, or one that lost data."""
    return bool(now.revision < before.revision or now.cluster != before.cluster)


def _watch_changes(members: Members, name: str, stream: _Stream, state: _State,
                   stop: Stop, ask_every_s: float) -> Iterator[Changes]:
    """Yield the changes that arrive on `stream`; MemberFailed at its end, _LoadAgain."""
    while not stop.is_set():
        line = stream.line(ask_every_s)
        if line is None:
            try:
                now = _query_state(members, name, stream.url)
            except MemberFailed:
                members.pass_by(stream.url)
                raise
            if _is_another(state, now):
                raise _LoadAgain
            continue
        result = _parse_watch_line(line)
        if result.get("canceled"):
            raise _explain_canceled(result)
        news = [change for change in _parse_changes(result) if change[2] > state.revision]
        if news:
            state = _State(news[-1][2], state.cluster)
            yield Changes(news, state.revision)


def _open(members: Members, name: str, first_revision: int) -> _Stream:
    """Open a watch; EtcdAway, EtcdRefused, _LoadAgain."""
    failed: dict[Url, MemberFailed] = {}
    for url in members.sort_by_answer():
        for _ in range(2):
            try:
                stream = _Stream(members, url, {**answers.make_key_range(name),
                                                "start_revision": str(first_revision)})
                members.note_answer(url, failed)
                return stream
            except MemberFailed as failure:
                failed[url] = failure
                if not failure.may_soon:
                    break
                try:
                    _query_state(members, name, url)              # which gets a new token
                except MemberFailed:
                    break
    raise members.make_error(failed)


class _Stream:
    """
    The answer of a watch, as lines.  MemberFailed, EtcdRefused, _LoadAgain when it cannot begin.

    Attributes:
        url: of its member.
        socket: of its connection.
    """

    def __init__(self, members: Members, url: Url, create: dict[str, object]) -> None:
        self.url, self._within_s = url, members.timeout_s
        self._read = b""
        headers = {"Host": url.text.partition("//")[2], **members.headers(members.token(url))}
        body = json.dumps({"create_request": create}).encode("ascii")
        self._connection = members.connect(url)
        try:
            self.socket: socket.socket = self._connection.sock
            _notice_dead_peers(self.socket, members.timeout_s)
            head = "".join(f"{field}: {value}\r\n" for field, value in headers.items())
            self._send(f"POST /v3/watch HTTP/1.0\r\n{head}Content-Length: {len(body)}\r\n\r\n"
                       .encode("latin-1") + body)
            self._begin()
        except BaseException:
            self.close()
            raise

    def _send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise MemberFailed(f"no watch: {error.strerror or error}") from None

    def _begin(self) -> None:
        ends = time.monotonic() + self._within_s
        while b"\r\n\r\n" not in self._read:
            self._receive_more(ends)
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        match = re.match(rb"HTTP/1\.[01] ([0-9]{3}) ", head)
        if not match:
            raise MemberFailed(f"expected an answer of HTTP, got {head[:60]!r}")
        while b"\n" not in self._read and match[1] == b"200":
            self._receive_more(ends)
        line = self.line(0.001)
        if match[1] != b"200":
            raise MemberFailed(f"no watch: HTTP status {match[1].decode()}")
        result = _parse_watch_line(line or b"")
        if result.get("canceled"):
            raise _explain_canceled(result)

    def _receive_more(self, ends: float) -> None:
        if time.monotonic() > ends or not self._receive(self._within_s):
            raise MemberFailed(f"no watch within {self._within_s:g} s")

    def line(self, within_s: float) -> Optional[bytes]:
        """The next line, or None where there is none within `within_s`; MemberFailed."""
        while b"\n" not in self._read:
            if not self._receive(within_s):
                return None
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _receive(self, within_s: float) -> bool:
        try:
            self.socket.settimeout(within_s)
            data = self.socket.recv(1 << 20)
        except socket.timeout:
            return False
        except OSError as error:
            raise MemberFailed(f"the watch ended: {error.strerror or error}") from None
        if not data:
            raise MemberFailed("the watch ended")
        if len(self._read) + len(data) > _LONGEST_LINE:
            raise MemberFailed(f"a line of more than {_LONGEST_LINE} bytes")
        self._read += data
        return True

    def close(self) -> None:
        self._connection.close()


def _parse_watch_line(line: bytes) -> dict[str, object]:
    """Return `result` of a line of a watch; MemberFailed, EtcdRefused."""
    try:
        answer = answers.parse_answer(line)
        if "error" in answer:
            code, text = answers.parse_error(answer)
            refuse(code, text)
            raise MemberFailed(text or "the watch ended", may_soon=True)
        return answers.get_object(answer, "result")
    except NotEtcds as error:
        raise MemberFailed(str(error)) from None


def _parse_changes(result: dict[str, object]) -> list[tuple[str, bytes | None, int]]:
    try:
        return answers.parse_changes(result)
    except NotEtcds as error:
        raise MemberFailed(str(error)) from None


def _explain_canceled(result: dict[str, object]) -> Exception:
    if result.get("compact_revision"):
        return _LoadAgain()
    return MemberFailed(f"no watch: {str(result.get('cancel_reason') or 'it was cancelled')[:200]}",
                        may_soon=True)


def _notice_dead_peers(connection: socket.socket, within_s: float) -> None:
    """The kernel ends a connection whose peer no longer answers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name),
                                  max(value, int(within_s * value / 2)))
