"""
The authentication of messages between node and server; docs/reference/wire.md is its specification.

A request is an HTTP POST of JSON-RPC 2.0 with one header more:

    Authorization: IOSTATS-1 node=NODE, time=SECONDS, nonce=HEX, mac=HEX

    key = HMAC-SHA256(secret, "iostats-1 job " + job)
    mac = HMAC-SHA256(key, "request" LF node LF time LF nonce LF sha256(body) in hex)

The answer to an authenticated request carries

    IOSTATS-MAC: HMAC-SHA256(key, "answer" LF nonce LF sha256(body) in hex)

so that the node knows that the server has the secret too.  `time` is by the server's clock, in
whole seconds: a node learns the difference from the answer to its `hello`.

Where both have munge, instead:

    Authorization: MUNGE credential of "iostats-1 request" LF node LF job LF nonce LF sha256(body)
    IOSTATS-MUNGE: credential of "iostats-1 answer" LF nonce LF sha256(body)

`job` names the server that the message is for: a job's id, or "(site)" for the site's server.
"""

from __future__ import annotations

import hashlib
import hmac

from iostats.base.errors import WireError
from iostats.wire.method_name import MethodName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from iostats.totals.received_report import OtherRun

    class Hello(TypedDict, total=False):
        """The answer to `hello`; a server that is not ours may have other values."""

        job: str
        time: float
        trouble: str

    class Receipt(TypedDict, total=False):
        """The answer to a report, and to the totals of many nodes."""

        counted: bool
        why: str                # why not, or why for the second time
        over: list[OtherRun]    # of the starts on the node, those of jobs that have ended

    class EventsPart(TypedDict, total=False):
        """The answer to `events`; its events are as of events.event.as_json()."""

        events: list[dict[str, Any]]
        next: int
        more: bool
        time: float
        places: str
        of_user: str
        dropped: int

PROTOCOL = 1
SCHEME, MAC_HEADER = "IOSTATS-1", "IOSTATS-MAC"
MUNGE_SCHEME, MUNGE_HEADER = "MUNGE", "IOSTATS-MUNGE"
SITE = "(site)"
HELLO: MethodName[Hello] = MethodName("hello")
REPORT: MethodName[Receipt] = MethodName("report")
TOTALS: MethodName[Receipt] = MethodName("totals")
# Of the site's server; others that commands and pages call are in report/site_methods.py.
EVENTS: MethodName[EventsPart] = MethodName("events")
LNETS: MethodName[dict[str, dict[str, object]]] = MethodName("lnets")       # by file system
# Of a server that relays to another site's: "IOSTATS-RELAY-1 node=ITS NAME, ..." as above, with a
# secret of these two servers alone, and "(relay NAME)" for `job`.
RELAY_SCHEME = "IOSTATS-RELAY-1"

# JSON-RPC 2.0, section 5.1
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
# ours
NOT_AUTHENTICATED, STALE, REPLAYED, REFUSED = -32001, -32002, -32003, -32004


def check_protocol(protocol: int, machines: str) -> None:
    """WireError for another protocol; `machines`: those that must have the same release."""
    if protocol != PROTOCOL:
        raise WireError(REFUSED, f"expected protocol {PROTOCOL}, got {protocol}; "
                                 f"use one release on {machines}")


def derive_key(secret: bytes, job: str) -> bytes:
    """The key of `job`'s messages; `secret` and the key are bytes."""
    return hmac.digest(secret, b"iostats-1 job " + job.encode("utf-8", "surrogateescape"),
                       "sha256")


def request_mac(key: bytes, node: str, time_s: int | str, nonce: str, body: bytes) -> str:
    """The mac of a request, hex; `time_s` and `nonce` as they stand in the header."""
    text = f"request\n{node}\n{time_s}\n{nonce}\n{hashlib.sha256(body).hexdigest()}"
    return hmac.digest(key, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def answer_mac(key: bytes, nonce: str, body: bytes) -> str:
    """The mac of an answer, hex."""
    text = f"answer\n{nonce}\n{hashlib.sha256(body).hexdigest()}"
    return hmac.digest(key, text.encode("utf-8", "surrogateescape"), "sha256").hex()


def authorization(key: bytes, node: str, time_s: int | str, nonce: str, body: bytes,
                  scheme: str = SCHEME) -> str:
    """The value of the Authorization header."""
    mac = request_mac(key, node, time_s, nonce, body)
    return f"{scheme} node={node}, time={time_s}, nonce={nonce}, mac={mac}"


def parse_fields(header: str, scheme: str = SCHEME) -> dict[str, str] | None:
    """Return {name: text} of an Authorization header, or None for an unexpected format."""
    found_scheme, _, rest = header.partition(" ")
    parts = rest.split(",")
    # Four of them: a field that comes twice could be read in two ways.
    if found_scheme != scheme or len(parts) != 4:
        return None
    fields = {name: text for name, _, text in [part.strip().partition("=") for part in parts]}
    return fields if fields.keys() == {"node", "time", "nonce", "mac"} else None


def is_same_mac(a: str, b: str) -> bool:
    """Compare two macs in constant time."""
    return hmac.compare_digest(a.encode("utf-8", "replace"), b.encode("utf-8", "replace"))


def make_munge_request(node: str, job: str, nonce: str, body: bytes) -> bytes:
    """The content of a request's munge credential, bytes."""
    text = f"iostats-1 request\n{node}\n{job}\n{nonce}\n{hashlib.sha256(body).hexdigest()}"
    return text.encode("utf-8", "surrogateescape")


def make_munge_answer(nonce: str, body: bytes) -> bytes:
    """The content of an answer's munge credential, bytes."""
    return f"iostats-1 answer\n{nonce}\n{hashlib.sha256(body).hexdigest()}".encode()


def parse_munge_request(payload: bytes, body: bytes) -> tuple[str, str, str] | None:
    """Return (node, job, nonce) of make_munge_request for exactly this `body`; None otherwise."""
    parts = payload.decode("utf-8", "surrogateescape").split("\n")
    if len(parts) != 5:
        return None
    _, node, job, nonce, _ = parts
    return (node, job, nonce) if payload == make_munge_request(node, job, nonce, body) else None


def make_relay_job(name: str) -> str:
    """The text in place of `job` from which the key of relay `name` is derived."""
    return f"(relay {name})"


def name_server(name: str) -> str:
    """The name in messages for the server `name`: a job's id, or SITE."""
    return "the site's server" if name == SITE else f"the server of job {name}"
