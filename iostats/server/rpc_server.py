"""
A server of JSON-RPC over HTTP: each message is authenticated, then given to its method.

The servers of a job and of the site are both of this kind, with methods of their own; docs/wire.md.
"""

import time
import zlib
from collections import namedtuple
from collections.abc import Callable, Container, Generator, Iterable
from functools import partial
from typing import Any, Optional, Union

import msgspec

from iostats.base.cooperative import finished
from iostats.base.errors import WireError
from iostats.base.logs import log_internal_error
from iostats.server.blocking_calls import TimedOut
from iostats.server.http import TooLarge
from iostats.server.http_server import HttpLimits, HttpServer
from iostats.server.long_answers import Work
from iostats.wire import jsonrpc, protocol
from iostats.wire.auth import AuthenticationError, Munge, user_not_allowed
from iostats.wire.jsonrpc import Method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.wire.auth import Credentials

_MAX_UNAUTHENTICATED_BYTES = 65536          # of a body: enough for a hello
_REFUSED_AS = {protocol.NOT_AUTHENTICATED: "not authenticated", protocol.STALE: "stale",
               protocol.REPLAYED: "replayed"}

Caller = namedtuple("Caller", "node uid")
Caller.__doc__ = """
Who sent an authenticated message.

Attributes:
    node: the name that it gives itself.
    uid: its user, as munge says; None where it was authenticated by the secret.
"""


class RelayCaller(Caller):
    """Another site's server, authenticated by a secret of its own; `node` is its name."""

    __slots__ = ()


# Of an unauthenticated message: why it is; None for one without Authorization.
Sender = Union[Caller, AuthenticationError, None]


class Hello(msgspec.Struct):
    """The params of the method `hello`."""

    job: str = ""


class RpcServer(HttpServer):
    """
    Authenticates messages, and gives them to methods, which learn who sent them.

    A method is called with (params, sender): a Caller, or for an unauthenticated message the
    AuthenticationError that says why, or None without Authorization; see `require_authenticated`.

    Attributes:
        name: a job's id, or protocol.SITE; what `hello` answers.
        methods: name -> Method; `hello` is there, and others are added by a subclass.
        public_methods: names of those that unauthenticated senders may call.
        trouble: why nothing can be kept just now, which `hello` tells; "".
    """

    def __init__(self, name: str, credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float] = time.time) -> None:
        """`credentials`: those that it takes, as of auth.server_credentials."""
        super().__init__(HttpLimits.of(config))
        self.name, self.config, self.trouble = name, config, ""
        self.methods = {"hello": Method(self._hello, Hello)}
        self.public_methods = {"hello"}
        self._for_unauthenticated: dict[str, Method] = {}
        self._now = now
        self._credentials = {one.SCHEME: one for one in credentials}

    # -- for subclasses ----------------------------------------------------------------------

    def before_answer(self, body: bytes, sender: Sender) -> None:
        """What `body` asks was done; its answer leaves after this."""

    def credentials_for(self, authorization: str) -> "Optional[Credentials]":
        """What checks this header; None where nothing does; AuthenticationError."""
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
            sender = user_not_allowed(sender.uid, self.name, sender.node)
        if sender is None:
            self.refuse("not authenticated")
            raise WireError(protocol.NOT_AUTHENTICATED,
                            "no Authorization header; see docs/wire.md")
        self.refuse(_REFUSED_AS[sender.code], sender.claimed)
        # A new one: raising `sender` itself would make a reference cycle with this frame, and keep
        # the message in memory until the next garbage collection.
        raise AuthenticationError(sender.code, str(sender), sender.claimed, sender.nonce)

    # -- one request -------------------------------------------------------------------------

    def _hello(self, hello: Hello, sender: Sender) -> dict[str, Any]:
        """The server's name, for anybody: so a node tells another job's server from its own."""
        if (isinstance(sender, AuthenticationError) and hello.job == self.name
                and sender.code == protocol.NOT_AUTHENTICATED):
            self.refuse("not authenticated", sender.claimed)    # it names this job
        found = {"job": self.name, "protocol": protocol.PROTOCOL, "time": self._now()}
        if self.trouble and isinstance(sender, Caller):
            found["trouble"] = self.trouble
        return found

    def answer(self, body: bytes, authorization: str,
               is_deflated: bool = False) -> tuple[Optional[bytes], str]:
        """What `answering` makes, in one step; TooLarge for a body that is, inflated."""
        return finished(self.answering(body, authorization, is_deflated))

    def answering(self, body: bytes, authorization: str, is_deflated: bool) -> Work:
        """In steps where a method takes them, or munge is asked; otherwise in one."""
        sender: Sender = None
        by, nonce = None, ""
        if authorization:
            try:
                by = self.credentials_for(authorization)
            except AuthenticationError as error:
                sender = error.with_traceback(None)
            else:
                sender, nonce = yield from self._authenticate(by, body, authorization)
        reply = None
        if is_deflated:
            body, reply = self._inflated(body, sender)
        if not isinstance(sender, Caller) and len(body) > _MAX_UNAUTHENTICATED_BYTES:
            reply = self._rejection(sender)
        if reply is None:
            reply = yield from jsonrpc.answering(body, self.methods_for(sender), sender,
                                                 log_internal_error)
            self.before_answer(body, sender)
        if reply is None or by is None or not nonce:
            return reply, ""
        try:
            header = (yield partial(by.answer_header, nonce, reply)) if isinstance(
                by, Munge) else by.answer_header(nonce, reply)
        except TimedOut:
            header = None
        return reply, f"{header[0]}: {header[1]}" if header else ""

    def methods_for(self, sender: Sender) -> dict[str, Method]:
        """
        {name: Method} as `sender` may call them.

        Unauthenticated, all but `public_methods` refuse, and params are not even decoded.
        """
        if isinstance(sender, Caller):
            return self.methods
        if not self._for_unauthenticated:
            refuse = Method(lambda params, sender: self.require_authenticated(sender), msgspec.Raw)
            self._for_unauthenticated = {
                name: method if name in self.public_methods else refuse
                for name, method in self.methods.items()}
        return self._for_unauthenticated

    def _authenticate(self, by: "Optional[Credentials]", body: bytes, header: str) -> Generator[
            Any, Any, tuple[Union[Caller, AuthenticationError], str]]:
        """(Caller, nonce) of an authenticated request, else (AuthenticationError, nonce or "")."""
        try:
            if by is None:
                raise AuthenticationError(
                    protocol.NOT_AUTHENTICATED, f"expected Authorization: "
                    f"{' or '.join(self._credentials)} (site.cfg: [server] auth)", None)
            if isinstance(by, Munge):          # not with the body, which would wait there as well
                decoded = yield partial(by.decoded, header)
                node, uid, nonce = by.check_decoded(decoded, body)
            else:
                node, uid, nonce = by.check(header, body)
        except TimedOut:
            return AuthenticationError(
                protocol.NOT_AUTHENTICATED,
                f"munge: munged has not answered within "
                f"{self.long_answers.blocking_timeout_s:g} s", None), ""
        except AuthenticationError as error:
            return error.with_traceback(None), error.nonce     # its frames have the message
        return (RelayCaller if by.SCHEME == protocol.RELAY_SCHEME else Caller)(node, uid), nonce

    def _rejection(self, sender: Sender) -> Optional[bytes]:
        """The answer to an unauthenticated message, whatever it asks; None for a Caller."""
        try:
            self.require_authenticated(sender)
        except WireError as error:
            return jsonrpc.error_answer(error.code, detail=str(error))
        return None

    def _inflated(self, body: bytes, sender: Sender) -> tuple[bytes, Optional[bytes]]:
        """
        (the body as it was before deflate, None), or (b"", the answer that is an error).

        Agents of release 0.1 send their sweeps so.
        """
        # Nothing is inflated for unauthenticated senders: a few bytes could become many.
        refused = self._rejection(sender)
        if refused is not None:
            return b"", refused
        most, whole = self.limits.message_bytes, zlib.decompressobj()
        try:
            body = whole.decompress(body, most + 1)
        except zlib.error as error:
            return b"", jsonrpc.error_answer(protocol.PARSE_ERROR, detail=f"deflate: {error}")
        if len(body) > most:
            raise TooLarge(self.limits.too_large())
        if not whole.eof or whole.unused_data:
            return b"", jsonrpc.error_answer(protocol.PARSE_ERROR,
                                             detail="deflate: expected one whole stream")
        return body, None
