"""
Requests to etcd and its answers, as JSON of its gateway (etcd 3.4, rpc.proto and kv.proto).

Keys and values are bytes in base64, numbers of 64 bits are texts, and what is 0, false or empty is
left out.  A key that ends in "/" stands for all keys below it: so /orion/ never touches /orion2.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import NamedTuple

from iostats.base.errors import NOT_REACHED, IostatsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Union

UNAVAILABLE, UNAUTHENTICATED, NOT_FOUND, INVALID, EXHAUSTED, OUT_OF_RANGE, PRECONDITION = (
    14, 16, 5, 3, 8, 11, 9)                 # of google.golang.org/grpc/codes


class EtcdAway(IostatsError):
    """No member answers, or those that do have no quorum; the text names each, and why."""

    exit_status = NOT_REACHED


class OutcomeUnknown(EtcdAway):
    """A transaction was sent, and no answer arrived: it may have been executed, or may still be."""


class EtcdRefused(IostatsError):
    """etcd refused a request: password, TLS, permission, size.

    Attributes:
        code: of gRPC; 0 where it is not etcd that refused.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class NotEtcds(ValueError):
    """An answer that does not have the format of etcd's gateway."""


class KeyValue(NamedTuple):
    """A key with its value."""

    key: str
    value: bytes
    # when it was put where there was none; a key that was deleted and put again has another
    create_revision: int
    mod_revision: int   # when it was put last
    lease: int          # with which it goes away, or 0


class Compare(NamedTuple):
    """A condition of a transaction: created, absent, modified or value_is."""

    key: str
    target: str
    field: str
    value: Union[str, int]


class Operation(NamedTuple):
    """One operation of a transaction: put, delete or get."""

    kind: str
    key: str
    value: bytes
    lease: int


def compare_created(key: str, revision: int) -> Compare:
    """The condition that `key` exists and was created at `revision`: its owner is the same."""
    return Compare(key, "CREATE", "create_revision", str(revision))


def compare_absent(key: str) -> Compare:
    """The condition that `key` does not exist."""
    return compare_created(key, 0)


def compare_modified(key: str, revision: int) -> Compare:
    """The condition that `key` was put last at `revision`; 0: that it does not exist."""
    return Compare(key, "MOD", "mod_revision", str(revision))


def value_is(key: str, value: bytes) -> Compare:
    """The condition that `key` has this value."""
    return Compare(key, "VALUE", "value", _as_text(value))


def make_put(key: str, value: bytes, lease: int = 0) -> Operation:
    """The operation that puts `key`; with a `lease`, until that expires."""
    return Operation("put", key, value, lease)


def make_delete(key: str) -> Operation:
    """The operation that deletes `key`, or all keys below it."""
    return Operation("delete_range", key, b"", 0)


def make_get(key: str) -> Operation:
    """The operation that reads `key`, or all keys below it."""
    return Operation("range", key, b"", 0)


def make_key_range(name: str) -> dict[str, str]:
    """The fields key and, where `name` ends in "/", range_end, of a request."""
    key = name.encode("utf-8", "surrogateescape")
    if not name.endswith("/"):
        return {"key": _as_text(key)}
    return {"key": _as_text(key), "range_end": _as_text(key[:-1] + b"0")}       # "0" is behind "/"


def put_request(key: str, value: bytes, lease: int = 0) -> dict[str, str]:
    """The body of kv/put."""
    body = {**make_key_range(key), "value": _as_text(value)}
    if "range_end" in body:
        raise ValueError(f"a key that is put cannot end in '/', got {key!r}")
    if lease:
        body["lease"] = str(lease)
    return body


def make_txn_request(compares: Iterable[Compare], then: Iterable[Operation],
                     otherwise: Iterable[Operation] = ()) -> dict[str, object]:
    """The body of kv/txn, of Compares and Operations."""
    return {"compare": [{**make_key_range(operation.key), "result": "EQUAL",
                         "target": operation.target,
                         operation.field: operation.value} for operation in compares],
            "success": [_encode_operation(operation) for operation in then],
            "failure": [_encode_operation(operation) for operation in otherwise]}


def _encode_operation(operation: Operation) -> dict[str, object]:
    body: dict[str, str] = (put_request(operation.key, operation.value, operation.lease)
                            if operation.kind == "put"
                            else make_key_range(operation.key))
    return {f"request_{operation.kind}": body}


def _as_text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


# -- answers: all of this comes from the network -----------------------------------------------

def parse_answer(data: bytes) -> dict[str, object]:
    """The JSON object of an answer; NotEtcds."""
    try:
        answer: object = json.loads(data)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise NotEtcds(f"expected a JSON object, got {data[:60]!r}")
    return answer


def get_number(answer: dict[str, object], field: str) -> int:
    """A number of an answer; 0 where it is left out."""
    value = answer.get(field, 0)
    try:
        if isinstance(value, (str, int)) and len(str(value)) <= 20:
            return int(value)
    except ValueError:
        pass
    raise NotEtcds(f"{field}: expected a number, got {str(value)[:40]!r}")


def get_object(answer: dict[str, object], field: str) -> dict[str, object]:
    """An object in an answer; {} where it is left out."""
    value = answer.get(field, {})
    if not isinstance(value, dict):
        raise NotEtcds(f"{field}: expected an object, got {str(value)[:40]!r}")
    return value


def get_objects(answer: dict[str, object], field: str) -> list[dict[str, object]]:
    """A list of objects in an answer; [] where it is left out."""
    value = answer.get(field, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise NotEtcds(f"{field}: expected a list of objects, got {str(value)[:40]!r}")
    return value


def parse_revision(answer: dict[str, object]) -> int:
    """The revision of etcd's store when it answered."""
    return get_number(get_object(answer, "header"), "revision")


def parse_key_values(answer: dict[str, object]) -> list[KeyValue]:
    """The KeyValues of a range's answer."""
    return [parse_key_value(item) for item in get_objects(answer, "kvs")]


def parse_key_value(item: dict[str, object]) -> KeyValue:
    """A KeyValue of its JSON."""
    return KeyValue(_decode_bytes(item, "key").decode("utf-8", "surrogateescape"),
                    _decode_bytes(item, "value"),
                    get_number(item, "create_revision"), get_number(item, "mod_revision"),
                    get_number(item, "lease"))


def parse_operation_answer(operation: dict[str, object]) -> Union[list[KeyValue], int, None]:
    """Decode the answer to one operation: the KeyValues of a get, the count of a delete, None."""
    if "response_range" in operation:
        return parse_key_values(get_object(operation, "response_range"))
    if "response_delete_range" in operation:
        return get_number(get_object(operation, "response_delete_range"), "deleted")
    return None


def parse_changes(answer: dict[str, object]) -> list[tuple[str, bytes | None, int]]:
    """Return [(key, value or None for a deleted key, mod_revision), ...] of a watch's answer."""
    changed = []
    for event in get_objects(answer, "events"):
        pair = parse_key_value(get_object(event, "kv"))
        changed.append((pair.key, None if event.get("type") == "DELETE" else pair.value,
                        pair.mod_revision))
    return changed


def parse_error(answer: dict[str, object]) -> tuple[int, str]:
    """Return (code, text) of an answer that is an error; `message` is in the stream's form."""
    inner = answer.get("error")
    if isinstance(inner, dict):
        return get_number(inner, "grpc_code"), str(inner.get("message", ""))[:500]
    return get_number(answer, "code"), str(answer.get("message", inner or ""))[:500]


def _decode_bytes(item: dict[str, object], field: str) -> bytes:
    value = item.get(field, "")
    try:
        if isinstance(value, str):
            return b64decode(value, validate=True)
    except ValueError:
        pass
    raise NotEtcds(f"{field}: expected base64, got {str(value)[:40]!r}")
