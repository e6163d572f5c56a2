"""
What etcd is asked and what it answers, as JSON of its gateway (etcd 3.4, rpc.proto and kv.proto).

Keys and values are bytes in base64, numbers of 64 bits are texts, and what is 0, false or empty is
left out.  A key that ends in "/" stands for all keys below it: so /orion/ never touches /orion2.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import namedtuple

from iostats.base.errors import NOT_REACHED, IostatsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

UNAVAILABLE, UNAUTHENTICATED, NOT_FOUND, INVALID, EXHAUSTED, OUT_OF_RANGE, PRECONDITION = (
    14, 16, 5, 3, 8, 11, 9)                 # of google.golang.org/grpc/codes


class EtcdAway(IostatsError):
    """No member answers, or those that do have no quorum; the text names each, and why."""

    exit_status = NOT_REACHED


class OutcomeUnknown(EtcdAway):
    """A transaction was sent, and no answer came: it may have been done, or may yet be done."""


class EtcdRefused(IostatsError):
    """
    etcd does not do it: password, TLS, permission, too large.

    Attributes:
        code: of gRPC; 0 where it is not etcd that refused.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class NotEtcds(ValueError):
    """An answer that is not of the gateway's form."""


KeyValue = namedtuple("KeyValue", "key value create_revision mod_revision lease")
KeyValue.__doc__ = """
A key as it is.

Attributes:
    value: bytes.
    create_revision: when it was put where there was none; a key that was deleted and put again has
        another.
    mod_revision: when it was put last.
    lease: with which it goes away, or 0.
"""

Compare = namedtuple("Compare", "key target field value")
Compare.__doc__ = "A condition of a transaction: created, absent, modified or value_is."
Operation = namedtuple("Operation", "kind key value lease")
Operation.__doc__ = "What a transaction does: putting, deleting or getting."


def created(key: str, revision: int) -> Compare:
    """That `key` is there, and was created at `revision`: its owner is who it was."""
    return Compare(key, "CREATE", "create_revision", str(revision))


def absent(key: str) -> Compare:
    """That there is no `key`."""
    return created(key, 0)


def modified(key: str, revision: int) -> Compare:
    """That `key` was put last at `revision`; 0: that there is none."""
    return Compare(key, "MOD", "mod_revision", str(revision))


def value_is(key: str, value: bytes) -> Compare:
    """That `key` has this value."""
    return Compare(key, "VALUE", "value", _as_text(value))


def putting(key: str, value: bytes, lease: int = 0) -> Operation:
    """Put `key`; with `lease` it goes when that does."""
    return Operation("put", key, value, lease)


def deleting(key: str) -> Operation:
    """Delete `key`, or all below it."""
    return Operation("delete_range", key, b"", 0)


def getting(key: str) -> Operation:
    """Get `key`, or all below it."""
    return Operation("range", key, b"", 0)


def key_range(name: str) -> dict[str, str]:
    """The fields key and, where `name` ends in "/", range_end, of a request."""
    key = name.encode("utf-8", "surrogateescape")
    if not name.endswith("/"):
        return {"key": _as_text(key)}
    return {"key": _as_text(key), "range_end": _as_text(key[:-1] + b"0")}       # "0" is behind "/"


def put_request(key: str, value: bytes, lease: int = 0) -> dict[str, str]:
    """The body of kv/put."""
    body = {**key_range(key), "value": _as_text(value)}
    if "range_end" in body:
        raise ValueError(f"a key that is put cannot end in '/', got {key!r}")
    if lease:
        body["lease"] = str(lease)
    return body


def txn_request(compares: Any, then: Any, otherwise: Any = ()) -> dict[str, Any]:
    """The body of kv/txn, of Compares and Operations."""
    return {"compare": [{**key_range(one.key), "result": "EQUAL", "target": one.target,
                         one.field: one.value} for one in compares],
            "success": [_operation(one) for one in then],
            "failure": [_operation(one) for one in otherwise]}


def _operation(one: Operation) -> dict[str, Any]:
    body: dict[str, str] = (put_request(one.key, one.value, one.lease) if one.kind == "put"
                            else key_range(one.key))
    return {f"request_{one.kind}": body}


def _as_text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


# -- answers: all of this comes from the network -----------------------------------------------

def decoded(data: bytes) -> dict[str, Any]:
    """The JSON object of an answer; NotEtcds."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NotEtcds(f"expected a JSON object, got {data[:60]!r}")
    return found


def number(answer: dict[str, Any], field: str) -> int:
    """A number of an answer; 0 where it is left out."""
    value = answer.get(field, 0)
    try:
        if isinstance(value, (str, int)) and len(str(value)) <= 20:
            return int(value)
    except ValueError:
        pass
    raise NotEtcds(f"{field}: expected a number, got {str(value)[:40]!r}")


def member(answer: dict[str, Any], field: str) -> dict[str, Any]:
    """An object in an answer; {} where it is left out."""
    value = answer.get(field, {})
    if not isinstance(value, dict):
        raise NotEtcds(f"{field}: expected an object, got {str(value)[:40]!r}")
    return value


def members(answer: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """A list of objects in an answer; [] where it is left out."""
    value = answer.get(field, [])
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise NotEtcds(f"{field}: expected a list of objects, got {str(value)[:40]!r}")
    return value


def revision_of(answer: dict[str, Any]) -> int:
    """The revision of etcd's store when it answered."""
    return number(member(answer, "header"), "revision")


def key_values(answer: dict[str, Any]) -> list[KeyValue]:
    """The KeyValues of a range's answer."""
    return [key_value(one) for one in members(answer, "kvs")]


def key_value(one: dict[str, Any]) -> KeyValue:
    """A KeyValue of its JSON."""
    return KeyValue(_bytes(one, "key").decode("utf-8", "surrogateescape"), _bytes(one, "value"),
                    number(one, "create_revision"), number(one, "mod_revision"),
                    number(one, "lease"))


def response(one: dict[str, Any]) -> Union[list[KeyValue], int, None]:
    """Of an operation of a transaction: KeyValues of getting, a count of deleting, None."""
    if "response_range" in one:
        return key_values(member(one, "response_range"))
    if "response_delete_range" in one:
        return number(member(one, "response_delete_range"), "deleted")
    return None


def changes(answer: dict[str, Any]) -> list[tuple[str, bytes | None, int]]:
    """[(key, value or None where it is gone, mod_revision), ...] of an answer of a watch."""
    found = []
    for event in members(answer, "events"):
        one = key_value(member(event, "kv"))
        found.append((one.key, None if event.get("type") == "DELETE" else one.value,
                      one.mod_revision))
    return found


def error_of(answer: dict[str, Any]) -> tuple[int, str]:
    """(code, text) of an answer that is an error; `message` is in the stream's form."""
    inner = answer.get("error")
    if isinstance(inner, dict):
        return number(inner, "grpc_code"), str(inner.get("message", ""))[:500]
    return number(answer, "code"), str(answer.get("message", inner or ""))[:500]


def _bytes(one: dict[str, Any], field: str) -> bytes:
    value = one.get(field, "")
    try:
        return b64decode(value, validate=True)
    except (ValueError, TypeError):
        raise NotEtcds(f"{field}: expected base64, got {str(value)[:40]!r}") from None
