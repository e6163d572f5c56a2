"""
A server of JSON-RPC over HTTP: each message is authenticated, then given to its method.

The servers of a job and of the site are both of this kind, with methods of their own;
docs/reference/wire.md.
"""

import time
import zlib
from collections.abc import Callable, Container, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import msgspec

from iostats.base.cooperative import run_to_end
from iostats.base.errors import WireError
from iostats.base.logs import log_internal_error
from iostats.server.http_server import HttpLimits, HttpServer, TooLarge
from iostats.server.long_answers import NeededCall, TimedOut, Work
from iostats.wire import jsonrpc, protocol
from iostats.wire.auth import AuthenticationError, Munge, make_unauthorized_error
from iostats.wire.jsonrpc import Method

if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.wire.auth import Credentials

_MAX_UNAUTHENTICATED_BYTES = 65536  # of a body: enough for a hello
_REFUSED_AS = {protocol.NOT_AUTHENTICATED: "not authenticated", protocol.STALE: "stale",
               protocol.REPLAYED: "replayed"}


class Caller(NamedTuple):
    """The sender of an authenticated message."""

    node: str           # the sender's name for itself
    uid: Optional[int]  # its user, from munge; None if it was authenticated by the secret


class RelayCaller(Caller):
    """The server of another site, authenticated by a secret of its own; `node` is its name."""

    __slots__ = ()


# For an unauthenticated message: the reason; None without an Authorization header.
Sender = Union[Caller, AuthenticationError, None]


class Hello(msgspec.Struct):
    """The params of the method `hello`."""

    job: str = ""


class RpcServer(HttpServer):
    """
    Authenticates messages, and calls methods with the message and its sender.

    A method is called with (params, sender): a Caller, or for an unauthenticated message the
    AuthenticationError that says why, or None without Authorization; see `require_authenticated`.

    Attributes:
        name: a job's id, or protocol.SITE; what `hello` answers.
        methods: name -> Method; `hello` is there, and others are added by a subclass.
        public_methods: names of those that unauthenticated senders may call.
        trouble: why reports cannot be stored now, which `hello` reports; "".
    """

    def __init__(self, name: str, credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float] = time.time) -> None:
        """`credentials`: the accepted ones, as of auth.load_server_credentials."""
        super().__init__(HttpLimits.of(config))
        self.name, self.config, self.trouble = name, config, ""
        self.methods = {"hello": Method(self._answer_hello, Hello)}
        self.public_methods = {"hello"}
        self._for_unauthenticated: dict[str, Method] = {}
        self._now = now
        self._credentials = {scheme.SCHEME: scheme for scheme in credentials}

    # -- for subclasses ----------------------------------------------------------------------

    def before_answer(self, body: bytes, sender: Sender) -> None:
        """Hook: the message `body` was processed; its answer is sent after this."""

    def credentials_for(self, authorization: str) -> "Optional[Credentials]":
        """
        The credentials that check this header; None without authentication; AuthenticationError.
        """
        return self._credentials.get(authorization.partition(" ")[0])

    def require_authenticated(self, sender: Sender,
                              uids: Optional[Container[int]] = None) -> Caller:
        """
        The Caller that `sender` is; an unauthenticated message is refused with a WireError.

        `uids`: where munge names the user, it must be one of these.
        """
        if isinstance(sender, Caller):
            if uids is None or sender.uid is None or sender.uid in uids:
                return sender
            sender = make_unauthorized_error(sender.uid, self.name, sender.node)
        if sender is None:
            self.refuse("not authenticated")
            raise WireError(protocol.NOT_AUTHENTICATED,
                            "no Authorization header; see docs/reference/wire.md")
        self.refuse(_REFUSED_AS[sender.code], sender.claimed)
        # A new one: raising `sender` itself would make a reference cycle with this frame, and keep
        # the message in memory until the next garbage collection.
        raise AuthenticationError(sender.code, str(sender), sender.claimed, sender.nonce)

    # -- one request -------------------------------------------------------------------------

    def _answer_hello(self, hello: Hello, sender: Sender) -> dict[str, Any]:
        """The server's name, without authentication: so a node recognizes another job's server."""
        if (isinstance(sender, AuthenticationError) and hello.job == self.name
                and sender.code == protocol.NOT_AUTHENTICATED):
            self.refuse("not authenticated", sender.claimed)    # it names this job
        answer = {"job": self.name, "protocol": protocol.PROTOCOL, "time": self._now()}
        if self.trouble and isinstance(sender, Caller):
            answer["trouble"] = self.trouble
        return answer

    def answer(self, body: bytes, authorization: str,
               is_deflated: bool = False) -> tuple[Optional[bytes], str]:
        """
        The answer of `answering`, in one step; TooLarge for a body that is too long when inflated.
        """
        return run_to_end(self.answering(body, authorization, is_deflated))

    def answering(self, body: bytes, authorization: str, is_deflated: bool) -> Work:
        """
        Generator: the answer; in several steps if the method has them, or for munge; otherwise in
        one.
        """
        sender: Sender = None
        credentials, nonce = None, ""
        if authorization:
            try:
                credentials = self.credentials_for(authorization)
            except AuthenticationError as error:
                sender = error.with_traceback(None)
            else:
                sender, nonce = yield from self._authenticate(credentials, body, authorization)
        reply = None
        if is_deflated:
            body, reply = self._inflate(body, sender)
        if not isinstance(sender, Caller) and len(body) > _MAX_UNAUTHENTICATED_BYTES:
            reply = self._make_rejection(sender)
        if reply is None:
            reply = yield from jsonrpc.answering(body, self.methods_for(sender), sender,
                                                 log_internal_error)
            self.before_answer(body, sender)
        if reply is None or credentials is None or not nonce:
            return reply, ""
        try:
            header = (yield partial(credentials.answer_header, nonce, reply)) if isinstance(
                credentials, Munge) else credentials.answer_header(nonce, reply)
        except TimedOut:
            header = None
        return reply, f"{header[0]}: {header[1]}" if header else ""

    def methods_for(self, sender: Sender) -> dict[str, Method]:
        """
        Return {name: Method} for `sender`.

        For an unauthenticated sender all but `public_methods` refuse, and params are not even
        decoded.
        """
        if isinstance(sender, Caller):
            return self.methods
        if not self._for_unauthenticated:
            def refuse_call(params: msgspec.Raw, sender: Sender) -> object:
                return self.require_authenticated(sender)
            refuse = Method(refuse_call, msgspec.Raw)
            self._for_unauthenticated = {
                name: method if name in self.public_methods else refuse
                for name, method in self.methods.items()}
        return self._for_unauthenticated

    def _authenticate(self, credentials: "Optional[Credentials]", body: bytes,
                      header: str) -> Generator[
            NeededCall, Any, tuple[Union[Caller, AuthenticationError], str]]:
        """(Caller, nonce) of an authenticated request, else (AuthenticationError, nonce or "")."""
        try:
            if credentials is None:
                raise AuthenticationError(
                    protocol.NOT_AUTHENTICATED, f"expected Authorization: "
                    f"{' or '.join(self._credentials)} (site.cfg: [server] auth)", None)
            # Without the body, which would stay in memory until munged answers.
            if isinstance(credentials, Munge):
                decoded = yield partial(credentials.decode_credential, header)
                node, uid, nonce = credentials.check_decoded(decoded, body)
            else:
                node, uid, nonce = credentials.check(header, body)
        except TimedOut:
            return AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                f"munge: munged has not answered within "
                f"{self.long_answers.blocking_timeout_s:g} s", None), ""
        except AuthenticationError as error:
            return error.with_traceback(None), error.nonce     # its frames refer to the message
        return (RelayCaller if credentials.SCHEME == protocol.RELAY_SCHEME else Caller)(node,
                                                                                        uid), nonce

    def _make_rejection(self, sender: Sender) -> Optional[bytes]:
        """The error answer to an unauthenticated message; None for a Caller."""
        try:
            self.require_authenticated(sender)
        except WireError as error:
            return jsonrpc.make_error_answer(error.code, detail=str(error))
        return None

    def _inflate(self, body: bytes, sender: Sender) -> tuple[bytes, Optional[bytes]]:
        """Return (the inflated body, None), or (b"", the error answer)."""
        # Nothing is inflated for unauthenticated senders: a few bytes could become many.
        refused = self._make_rejection(sender)
        if refused is not None:
            return b"", refused
        max_bytes, whole = self.limits.message_bytes, zlib.decompressobj()
        try:
            body = whole.decompress(body, max_bytes + 1)
        except zlib.error as error:
            return b"", jsonrpc.make_error_answer(protocol.PARSE_ERROR, detail=f"deflate: {error}")
        if len(body) > max_bytes:
            raise TooLarge(self.limits.too_large())
        if not whole.eof or whole.unused_data:
            return b"", jsonrpc.make_error_answer(protocol.PARSE_ERROR,
                                                  detail="deflate: expected one whole stream")
        return body, None
