"""
JSON-RPC 2.0: the bytes of a request (or a batch) in, the bytes of the answer out.

One request object in the body of a POST, as python-jsonrpc sends it; batches and notifications as
in the specification.  Not pjrpc, whose dispatcher takes eight times as long for a `hello` and twice
as long for a `report` (benchmarks/README.md): all nodes of a job report in the same second.

Source: https://www.jsonrpc.org/specification, sections 4 to 7.
"""

import json
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import lru_cache
from types import GeneratorType
from typing import Any, Optional, TypeVar, Union

import msgspec

from iostats.base.cooperative import run_to_end
from iostats.base.errors import WireError
from iostats.wire.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)

_Params = TypeVar("_Params")
_Context = TypeVar("_Context")


class Method:
    """
    A method that can be called.

    Attributes:
        function: (params, context) -> a result that msgspec can encode, or a generator that returns
            it (base/cooperative.py) where it takes long; may raise WireError.
        params: the type that the params are decoded to: a msgspec.Struct (by name, or by position
            in the order of its fields), or any other type; None for a method without params.
        fast_decode: the bytes of the params -> the decoded params, or None to decode them as usual;
            for what is called often.  Checks by itself what `keys_once` is about.
        keys_once: a message in which a key stands twice in one object, and so could be read in two
            ways, is refused; this check takes up to twice as long as the decoding.
    """

    __slots__ = ("fast_decode", "function", "keys_once", "params")

    def __init__(self, function: Callable[[_Params, _Context], object],
                 params: Optional[type[_Params]],
                 fast_decode: Optional[Callable[[bytes], Optional[_Params]]] = None,
                 keys_once: bool = False) -> None:
        self.function: Callable[..., object] = function
        self.params: Optional[type[object]] = params
        self.fast_decode: Optional[Callable[[bytes], object]] = fast_decode
        self.keys_once = keys_once



_MESSAGES = {
    PARSE_ERROR: "Parse error", INVALID_REQUEST: "Invalid Request",
    METHOD_NOT_FOUND: "Method not found", INVALID_PARAMS: "Invalid params",
    INTERNAL_ERROR: "Internal error",
}
_TYPES = {"float": "a number", "int": "an integer", "str": "a string", "array": "a list",
          "object": "an object", "bool": "true or false"}
_MOST_IN_BATCH = 1000
_MOST_ANSWERED = 16 << 20        # bytes of answers, after which the rest of a batch is refused


class _Request(msgspec.Struct):
    jsonrpc: str
    method: str
    params: msgspec.Raw = msgspec.Raw(b"")
    id: Union[int, str, float, msgspec.UnsetType, None] = msgspec.UNSET


_request_of = msgspec.json.Decoder(_Request).decode

@lru_cache
def _make_prefix_decoder(limit: int) -> Callable[[bytes], tuple[msgspec.Raw, ...]]:
    """
    Make a decoder for the first `limit` elements of a JSON array.

    The rest is skipped, and takes no memory: as a list it would take 30 bytes for each byte of
    "[0,0,0,...".
    """
    decode = msgspec.json.Decoder(msgspec.defstruct("_First", [
        (f"at_{number}", msgspec.Raw, msgspec.Raw(b"")) for number in range(limit)],
        array_like=True)).decode
    return lambda body: tuple(filter(bytes, msgspec.structs.astuple(decode(body))))


_encode = msgspec.json.encode


def dispatch(body: bytes, methods: Mapping[str, Method], context: object = None,
             on_bug: Callable[[Exception], object] = lambda error: None) -> Optional[bytes]:
    """
    Answer the message `body`; None if it has only notifications.

    `methods`: name -> Method.  A bug in a method is answered with -32603 and given to `on_bug`.
    """
    return run_to_end(answering(body, methods, context, on_bug))


def answering(body: bytes, methods: Mapping[str, Method], context: object,
              on_bug: Callable[[Exception], object]) -> Generator[None, None, Optional[bytes]]:
    """Answer a message as dispatch() does, in several steps where the method has them."""
    if body.lstrip()[:1] != b"[":
        return (yield from _answer_single(body, methods, context, on_bug))
    try:
        requests = _make_prefix_decoder(_MOST_IN_BATCH + 1)(body)
    except (msgspec.DecodeError, RecursionError):
        return make_error_answer(PARSE_ERROR)
    if not requests or len(requests) > _MOST_IN_BATCH:
        return make_error_answer(INVALID_REQUEST, detail="" if not requests else
                                 f"at most {_MOST_IN_BATCH} requests in a batch")
    answers, size = [], 0
    for request in requests:
        if size > _MOST_ANSWERED:
            answers.append(make_error_answer(INVALID_REQUEST, detail=(
                f"the answers before it have more than {_MOST_ANSWERED >> 20} MiB; it was not "
                f"read")))
            break
        answer = yield from _answer_single(bytes(request), methods, context, on_bug)
        if answer is not None:
            answers.append(answer)
            size += len(answer)
    return b"[" + b",".join(answers) + b"]" if answers else None


def make_error_answer(code: int, id: object = None, detail: str = "") -> bytes:
    """The bytes of an answer that is an error."""
    message = _MESSAGES.get(code, "")
    message = f"{message}: {detail}" if message and detail else message or detail
    return _encode({"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": id})


def describe_error(error: Exception) -> str:
    """
    The text of a msgspec.ValidationError, in JSON's words.

    >>> describe_error(msgspec.ValidationError("Expected `int | float`, got `str` - at `$.time`"))
    'time: expected a number, got a string'
    """
    text = str(error)
    problem, _, place = text.partition(" - at `$")
    if not problem.startswith("Expected "):
        return text
    problem = re.sub("`([a-z| ]+)`", _format_types, f"e{problem[1:]}")
    place = place.rstrip("`").lstrip(".")
    return f"{place}: {problem}" if place else problem


def _format_types(match: "re.Match[str]") -> str:
    names = match[1].split(" | ")
    return " or ".join(_TYPES.get(name, name) for name in names
                       if name != "int" or "float" not in names)


def _answer_single(body: bytes, methods: Mapping[str, Method], context: object,
                   on_bug: Callable[[Exception], object]) -> Generator[None, None, Optional[bytes]]:
    try:
        request = _request_of(body)
    except msgspec.ValidationError:
        return make_error_answer(INVALID_REQUEST)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return make_error_answer(PARSE_ERROR)
    raw = bytes(request.params)
    if request.jsonrpc != "2.0" or raw[:1] not in (b"", b"[", b"{"):
        return make_error_answer(INVALID_REQUEST)
    notification = request.id is msgspec.UNSET
    id = None if notification else request.id
    try:
        method = methods.get(request.method)
        if method is None:
            raise WireError(METHOD_NOT_FOUND, "")
        if method.keys_once:                    # of the message around the params
            at = body.find(raw[:64])            # all of `raw` would take long to look for
            _check_keys(body[:at] + (b"0" if raw else b"") + body[at + len(raw):]
                        if body.startswith(raw, at) else body)
        params = method.fast_decode(raw) if method.fast_decode else None
        if params is None:
            if method.keys_once:
                _check_keys(raw)
            params = decode_params(raw, method.params)
        result = method.function(params, context)
        if isinstance(result, GeneratorType):
            result = yield from result
        answer = _encode({"jsonrpc": "2.0", "result": result, "id": id})
    except WireError as error:
        answer = make_error_answer(error.code, id, str(error))
    except Exception as error:      # the caller gets an answer, and we a report
        on_bug(error)
        answer = make_error_answer(INTERNAL_ERROR, id)
    return None if notification else answer


def _check_keys(raw: bytes) -> None:
    """WireError for a duplicate key in an object of `raw`, which is JSON."""
    # Of two equal keys one is lost in decoding: encoded again it has fewer colons.  Where one may
    # be written as an escape, the slower check decides.
    with suppress(ValueError, RecursionError):              # an integer of 5,000 digits, say
        if b"\\" not in raw and raw.count(b":") == _encode(
                msgspec.json.decode(raw or b"{}")).count(b":"):
            return
    try:
        json.loads(raw or b"{}", object_pairs_hook=_reject_duplicates, parse_int=len)
    except (ValueError, RecursionError):                   # the decoder will say what is wrong
        return


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise WireError(INVALID_PARAMS, f"expected each key once in an object, got {twice[:40]!a} "
                                        f"twice")


def decode_params(raw: bytes, kind: Optional[type[object]]) -> object:
    """The params as `kind`; WireError -32602 with the expected form otherwise."""
    try:
        if kind is None:
            if raw[1:-1].strip():
                raise WireError(INVALID_PARAMS, "expected none")
            return None
        if raw[:1] == b"[" and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            names: tuple[str, ...] = kind.__struct_encode_fields__
            values = _make_prefix_decoder(len(names) + 1)(raw)
            if len(values) > len(names):
                raise WireError(INVALID_PARAMS, f"expected at most {len(names)}, got more")
            raw = b"{" + b",".join(b'"%s":%s' % (name.encode(), bytes(value))
                                   for name, value in zip(names, values)) + b"}"
        return msgspec.json.decode(raw or b"{}", type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(INVALID_PARAMS, describe_error(error)) from None
