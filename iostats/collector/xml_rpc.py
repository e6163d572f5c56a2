"""
XML-RPC: the bytes of a call in, the bytes of an answer or a fault out.

    call   = <methodCall><methodName>getTraps</methodName><params><param>VALUE</param>..</params>..
    VALUE  = <value> (<int>|<i4>|<i8>|<boolean>|<double>|<string>|text)

Every call of ours has scalars alone, so that is all that is read, from the events of expat (which
xmlrpc.client uses, too), and nothing is built in between.  Before the parser gets to do anything
costly the call is refused: at the first `<!DOCTYPE`, without which there are no entities; beyond
a depth, a number of elements, and of digits.  Its length is bounded by who receives it.

Not defusedxml, whose last release is of 2021: of what it does, to refuse a DTD is what applies to a
parser that builds no tree; and it bounds neither depth nor digits.

An <int> has 32 bits.  A number that needs more is sent as a <double>, which is exact up to 2^53 and
which every client can send back: <i8> is no part of the specification, and xmlrpc.client refuses
to send an integer that needs more.  So a time stamp is a <double> from 2038 on.

Source: http://xmlrpc.com/spec.md; the codes of faults are those of JSON-RPC, by
"Specification for Fault Code Interoperability" (xmlrpc-epi, 2001).
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from iostats.base.errors import WireError, sanitize
from iostats.wire.protocol import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR


class Call(NamedTuple):
    """The request of a client."""

    method: str                 # a name of up to 80 characters
    params: tuple[Any, ...]     # (int, float, bool or str), one for each <param>


_DEEPEST, _MOST_ELEMENTS, _MOST_DIGITS, _LONGEST_NAME = 16, 200, 20, 80
_LARGEST_INT = (1 << 31) - 1
_MAY_CONTAIN = {
    "": {"methodCall"}, "methodCall": {"methodName", "params"}, "params": {"param"},
    "param": {"value"}, "value": {"int", "i4", "i8", "boolean", "double", "string"}}
_OTHER_TYPES = ("struct", "array", "base64", "dateTime.iso8601", "nil")
_WHOLE = re.compile(r"[+-]?[0-9]{1,%d}" % _MOST_DIGITS)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,%d}(?:\.[0-9]{0,%d})?|\.[0-9]{1,%d})"
                      % ((_MOST_DIGITS,) * 3))
_INT_BITS = {"int": 32, "i4": 32, "i8": 64}


def parse_call(body: bytes) -> Call:
    """The Call in `body`; WireError with -32700 (no XML), -32600 (no call) or -32602 (params)."""
    reader = _Reader()
    try:
        reader.parser.Parse(body, True)
    except expat.ExpatError as error:
        raise WireError(PARSE_ERROR, f"expected XML: line {error.lineno}: "
                                     f"{expat.ErrorString(error.code)}") from None
    except (LookupError, ValueError):                  # an encoding that Python does not have
        raise WireError(PARSE_ERROR, "expected XML in UTF-8") from None
    if reader.method is None:
        raise WireError(INVALID_REQUEST, "expected <methodName> in <methodCall>")
    return Call(reader.method, tuple(reader.params))


def answer(result: object) -> bytes:
    """The bytes of an answer; `result`: of str, int, float, bool, list, tuple and dict."""
    return (f"{_HEAD}<params><param>{value(result)}</param></params></methodResponse>\n").encode()


def encode_fault(code: int, text: str) -> bytes:
    """The bytes of a fault."""
    members = {"faultCode": code, "faultString": text}
    return f"{_HEAD}<fault>{value(members)}</fault></methodResponse>\n".encode()


_HEAD = "<?xml version=\"1.0\"?>\n<methodResponse>"


class CachedList(list):  # type: ignore[type-arg]       # of Any
    """A list that is sent repeatedly: the XML of each item is made once."""

    __slots__ = ("xml",)
    xml: str


def value(content: object) -> str:
    """One <value>; members of a dict that are None are omitted: XML-RPC has no null."""
    if isinstance(content, str):
        return f"<value><string>{escape(sanitize(content))}</string></value>"
    if isinstance(content, bool):
        return f"<value><boolean>{int(content)}</boolean></value>"
    if isinstance(content, int):
        if -_LARGEST_INT <= content <= _LARGEST_INT:
            return f"<value><int>{content}</int></value>"
        return f"<value><double>{content}.0</double></value>"
    if isinstance(content, float):
        # Without an exponent, which the specification does not have.
        return f"<value><double>{content:.6f}</double></value>"
    if isinstance(content, dict):
        members = "".join(f"<member><name>{escape(sanitize(name))}</name>{value(member)}</member>"
                          for name, member in content.items() if member is not None)
        return f"<value><struct>{members}</struct></value>"
    if isinstance(content, CachedList):
        try:
            return content.xml
        except AttributeError:
            content.xml = _format_array(content)
            return content.xml
    return _format_array(content)


def _format_array(items: Any) -> str:
    inside = "".join([value(item) for item in items])
    return f"<value><array><data>{inside}</data></array></value>"


class _Reader:
    """
    Parses one call.

    Attributes:
        parser: expat's, which calls the methods below.
        method: the name, once it was there.
        params: the values until now.
    """

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.method: str | None = None
        self.params: list[int | float | bool | str] = []
        self._path: list[str] = [""]
        self._text = ""
        self._typed = False                            # the <value> has had its type
        self._elements = 0

    def _refuse(self, *_: Any) -> None:
        raise WireError(INVALID_REQUEST, "expected a call without <!DOCTYPE")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > _MOST_ELEMENTS or len(self._path) > _DEEPEST:
            raise WireError(INVALID_REQUEST, f"expected at most {_MOST_ELEMENTS} elements, "
                                             f"{_DEEPEST} deep")
        inside = self._path[-1]
        if inside == "value" and name in _OTHER_TYPES:
            raise WireError(INVALID_PARAMS, f"expected an int or a string, got <{name}>")
        if name not in _MAY_CONTAIN.get(inside, ()):
            raise WireError(INVALID_REQUEST, f"expected no <{_format_value(name)}> in "
                                             f"<{inside or 'the call'}>")
        if (name == "methodName" and (self.method is not None or self.params)) or (
                name == "value" and self._typed) or (inside == "value" and self._typed):
            raise WireError(INVALID_REQUEST, f"expected one <{name}>, got two")
        if name == "param":
            self._typed = False
        if inside == "value":
            if self._text.strip():
                raise WireError(INVALID_REQUEST, f"expected no text before <{name}>")
            self._typed = True
        self._path.append(name)
        self._text = ""

    def _add_text(self, text: str) -> None:
        if self._path[-1] in ("methodName", "value") or self._path[-2] == "value":
            self._text += text
        elif text.strip():
            raise WireError(INVALID_REQUEST, f"expected no text in <{self._path[-1]}>")

    def _end(self, name: str) -> None:
        self._path.pop()
        text, self._text = self._text, ""
        if name == "methodName":
            self.method = text.strip()
            if not 0 < len(self.method) <= _LONGEST_NAME:
                raise WireError(INVALID_REQUEST, f"expected a method's name of 1 to "
                                                 f"{_LONGEST_NAME} characters")
        elif self._path[-1] == "value":
            self.params.append(_parse_scalar(name, text))
        elif name == "value":
            if not self._typed:
                self.params.append(text)               # a string has no type beside it
                self._typed = True
            elif text.strip():
                raise WireError(INVALID_REQUEST, "expected no text behind a value's type")
        elif name == "param" and not self._typed:
            raise WireError(INVALID_REQUEST, "expected a <value> in <param>")


def _parse_scalar(kind: str, text: str) -> int | float | bool | str:
    if kind == "string":
        return text
    text = text.strip()
    if kind == "boolean" and text in ("0", "1"):
        return text == "1"
    if kind == "double" and _DECIMAL.fullmatch(text):
        number = float(text)
        if math.isfinite(number):
            return number
    if kind in _INT_BITS and _WHOLE.fullmatch(text):
        whole = int(text)
        if -(1 << _INT_BITS[kind] - 1) <= whole < 1 << _INT_BITS[kind] - 1:
            return whole
    raise WireError(INVALID_PARAMS, f"expected <{kind}>, got {_format_value(text)!r}")


def _format_value(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
