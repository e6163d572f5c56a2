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
from collections import namedtuple
from contextlib import contextmanager

from iostats.etcd import answers
from iostats.etcd.answers import EtcdAway, EtcdRefused, NotEtcds
from iostats.etcd.members import MemberFailed, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Optional, Union

    from iostats.etcd.answers import KeyValue
    from iostats.etcd.members import Members, Url

_AGAIN_S = 0.1
_LONGEST_LINE = 256 << 20

Loaded = namedtuple("Loaded", "values revision")
Loaded.__doc__ = "All that is there: {key: bytes}, at this revision."
Changes = namedtuple("Changes", "changes revision")
Changes.__doc__ = "[(key, its value or None where it is gone, mod_revision), ...] in their order."
Away = namedtuple("Away", "why")
Away.__doc__ = "No member serves it, as the text says; what was told may be old from now on."
Back = namedtuple("Back", "")
Back.__doc__ = "A member serves it again; changes since then follow."

if TYPE_CHECKING:
    News = Union[Loaded, Changes, Away, Back]


class Stop(threading.Event):
    """
    Ends a following: set() wakes it at once, whichever thread waits for what comes.

    It is for the end alone: what was ended does not go on after clear().
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._waits: list[socket.socket] = []

    def set(self) -> None:
        super().set()
        with self._guard:
            for one in self._waits:
                _end(one)

    @contextmanager
    def ends(self, one: socket.socket) -> Iterator[None]:
        """Within it, set() ends the connection `one`: who reads from it is woken."""
        with self._guard:
            self._waits.append(one)
            if self.is_set():
                _end(one)
        try:
            yield
        finally:
            with self._guard:
                self._waits.remove(one)


def _end(one: socket.socket) -> None:
    try:
        # Not SSLSocket's own, which is for the thread that reads alone.
        socket.socket.shutdown(one, socket.SHUT_RDWR)
    except OSError:
        pass                            # it has ended


class _LoadAgain(Exception):
    """The changes since the last revision are not to be had."""


def follow(members: Members, name: str, stop: Stop,
           load: Callable[[str], tuple[list[KeyValue], int]],
           ask_every_s: float) -> Iterator[News]:
    """See client.Etcd.follow; `load`: its range."""
    seen: Optional[_State] = None
    is_away = False
    while not stop.is_set():
        try:
            now, loaded = _state(members, name), None
            if seen is None or _is_another(seen, now):
                found, revision = load(name)
                now = _State(revision, now.cluster)
                loaded = Loaded({one.key: one.value for one in found}, revision)
            else:
                now = seen
            stream = _open(members, name, now.revision + 1)
            try:
                if is_away:
                    is_away = False
                    yield Back()
                seen = now
                if loaded:
                    yield loaded
                with stop.ends(stream.socket):
                    for changes in _changes(members, name, stream, seen, stop, ask_every_s):
                        seen = _State(changes.revision, seen.cluster)
                        yield changes
            finally:
                stream.close()
        except _LoadAgain:
            seen = None
        except MemberFailed:
            stop.wait(_AGAIN_S)
        except (EtcdAway, EtcdRefused) as error:
            if not is_away:
                is_away = True
                yield Away(str(error))
            stop.wait(members.timeout_s / 4)


_State = namedtuple("_State", "revision cluster")


def _state(members: Members, name: str, url: Optional[Url] = None) -> _State:
    """The _State by a read that needs the leader; `url`: of this member."""
    body = {**answers.key_range(name), "count_only": True}
    answer = members.ask(url, "kv/range", body) if url else members.call("kv/range", body)
    return _State(answers.revision_of(answer),
                  str(answers.member(answer, "header").get("cluster_id", "")))


def _is_another(seen: _State, now: _State) -> bool:
    """Whether this is not the etcd that was seen, or one that forgot what was seen."""
    return bool(now.revision < seen.revision or now.cluster != seen.cluster)


def _changes(members: Members, name: str, stream: _Stream, seen: _State,
             stop: Stop, ask_every_s: float) -> Iterator[Changes]:
    """What comes on `stream`; MemberFailed when it is over, _LoadAgain."""
    while not stop.is_set():
        line = stream.line(ask_every_s)
        if line is None:
            try:
                now = _state(members, name, stream.url)
            except MemberFailed:
                members.pass_by(stream.url)
                raise
            if _is_another(seen, now):
                raise _LoadAgain
            continue
        result = _result(line)
        if result.get("canceled"):
            raise _canceled(result)
        found = [one for one in _understood_changes(result) if one[2] > seen.revision]
        if found:
            seen = _State(found[-1][2], seen.cluster)
            yield Changes(found, seen.revision)


def _open(members: Members, name: str, first_revision: int) -> _Stream:
    """A watch that has begun; EtcdAway, EtcdRefused, _LoadAgain."""
    failed: dict[Url, MemberFailed] = {}
    for url in members.in_order():
        for _ in range(2):
            try:
                stream = _Stream(members, url, {**answers.key_range(name),
                                                "start_revision": str(first_revision)})
                members.answered(url, failed)
                return stream
            except MemberFailed as failure:
                failed[url] = failure
                if not failure.may_soon:
                    break
                try:
                    _state(members, name, url)              # which gets a new token
                except MemberFailed:
                    break
    raise members.away(failed)


class _Stream:
    """
    The answer of a watch, as lines.  MemberFailed, EtcdRefused, _LoadAgain when it cannot begin.

    Attributes:
        url: of its member.
        socket: of its connection.
    """

    def __init__(self, members: Members, url: Url, create: dict[str, Any]) -> None:
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
            self._more(ends)
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1\.[01] ([0-9]{3}) ", head)
        if not found:
            raise MemberFailed(f"expected an answer of HTTP, got {head[:60]!r}")
        while b"\n" not in self._read and found[1] == b"200":
            self._more(ends)
        line = self.line(0.001)
        if found[1] != b"200":
            raise MemberFailed(f"no watch: HTTP status {found[1].decode()}")
        result = _result(line or b"")
        if result.get("canceled"):
            raise _canceled(result)

    def _more(self, ends: float) -> None:
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


def _result(line: bytes) -> dict[str, Any]:
    """`result` of a line of a watch; MemberFailed, EtcdRefused."""
    try:
        answer = answers.decoded(line)
        if "error" in answer:
            code, text = answers.error_of(answer)
            refuse(code, text)
            raise MemberFailed(text or "the watch ended", may_soon=True)
        return answers.member(answer, "result")
    except NotEtcds as error:
        raise MemberFailed(str(error)) from None


def _understood_changes(result: dict[str, Any]) -> list[tuple[str, bytes | None, int]]:
    try:
        return answers.changes(result)
    except NotEtcds as error:
        raise MemberFailed(str(error)) from None


def _canceled(result: dict[str, Any]) -> Exception:
    if result.get("compact_revision"):
        return _LoadAgain()
    return MemberFailed(f"no watch: {str(result.get('cancel_reason') or 'it was cancelled')[:200]}",
                        may_soon=True)


def _notice_dead_peers(one: socket.socket, within_s: float) -> None:
    """The kernel ends a connection whose other side is gone without a word."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name),
                           max(value, int(within_s * value / 2)))
