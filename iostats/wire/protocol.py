"""
The authentication of messages between node and server; docs/wire.md is its specification.

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

PROTOCOL = 1
SCHEME, MAC_HEADER = "IOSTATS-1", "IOSTATS-MAC"
MUNGE_SCHEME, MUNGE_HEADER = "MUNGE", "IOSTATS-MUNGE"
SITE = "(site)"
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


def key_of(secret: bytes, job: str) -> bytes:
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


def fields_of(header: str, scheme: str = SCHEME) -> dict[str, str] | None:
    """{name: text} of an Authorization header, or None when it is not of this form."""
    its_scheme, _, rest = header.partition(" ")
    parts = rest.split(",")
    # Four of them: a field that comes twice could be read in two ways.
    if its_scheme != scheme or len(parts) != 4:
        return None
    fields = {name: text for name, _, text in [part.strip().partition("=") for part in parts]}
    return fields if fields.keys() == {"node", "time", "nonce", "mac"} else None


def same(a: str, b: str) -> bool:
    """Compare two macs in constant time."""
    return hmac.compare_digest(a.encode("utf-8", "replace"), b.encode("utf-8", "replace"))


def munge_request(node: str, job: str, nonce: str, body: bytes) -> bytes:
    """What the munge credential of a request holds, bytes."""
    text = f"iostats-1 request\n{node}\n{job}\n{nonce}\n{hashlib.sha256(body).hexdigest()}"
    return text.encode("utf-8", "surrogateescape")


def munge_answer(nonce: str, body: bytes) -> bytes:
    """What the munge credential of an answer holds, bytes."""
    return f"iostats-1 answer\n{nonce}\n{hashlib.sha256(body).hexdigest()}".encode()


def munge_fields(payload: bytes, body: bytes) -> tuple[str, str, str] | None:
    """(node, job, nonce) of a munge_request for this very `body`; None for anything else."""
    parts = payload.decode("utf-8", "surrogateescape").split("\n")
    if len(parts) != 5:
        return None
    _, node, job, nonce, _ = parts
    return (node, job, nonce) if payload == munge_request(node, job, nonce, body) else None


def relay(name: str) -> str:
    """What stands for `job` in the key of the relay `name`."""
    return f"(relay {name})"


def server_of(name: str) -> str:
    """How messages call the server `name`: a job's id, or SITE."""
    return "the site's server" if name == SITE else f"the server of job {name}"
