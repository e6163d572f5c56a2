"""What all targets need: the errors that may be, JSON that is off somewhere, and limits."""
from __future__ import annotations

import contextlib
import json
import logging
import signal
from collections import namedtuple
from pathlib import Path

from iostats.base.errors import IostatsError

CORPUS = Path(__file__).parent.parent / "corpus"
CPU_S = 20.0                       # of one input; what takes so long is called a hang
_LONGEST_ERROR = 4000

Target = namedtuple("Target", "run seeds most_bytes")
Target.__doc__ = """
One way in.

Attributes:
    run: bytes -> None; raises for a finding.
    seeds: function without arguments: [bytes] that are as they should be.
    most_bytes: longer inputs say nothing more.
"""

TARGETS = {}


def target(seeds=lambda: [b""], most_bytes=4096):
    """Decorator: this function is a target, by its name."""
    def registered(function):
        TARGETS[function.__name__] = Target(function, seeds, most_bytes)
        return function
    return registered


@contextlib.contextmanager
def allowed(*kinds):
    """These errors of ours may come; each is one line that a terminal can show."""
    try:
        yield
    except kinds as error:
        if isinstance(error, IostatsError):
            checked_line(str(error))


def checked_line(text):
    """`text`, which is one line, and short enough to be read."""
    assert text and text.isprintable(), f"not one line: {text[:200]!r}"
    assert len(text) <= _LONGEST_ERROR, f"an error of {len(text)} characters: {text[:200]!r}"
    return text


class TooSlow(BaseException):
    """An input has taken CPU_S of CPU."""


@contextlib.contextmanager
def within(seconds=CPU_S):
    """TooSlow, when it takes more CPU than that: other processes here make no difference."""
    def end(*_):
        raise TooSlow(f"more than {seconds:g} s of CPU")
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Bug(Exception):
    """The log has "internal error; please report": what a user would be asked to report."""


class _Raising(logging.Handler):
    def __init__(self):
        super().__init__()
        self.found = None

    def emit(self, record):
        if "internal error; please report" in str(record.msg):
            error = record.exc_info[1] if record.exc_info else None
            self.found = self.found or (record.getMessage(), error)


@contextlib.contextmanager
def no_bug_logged():
    """Raise Bug where the block has logged one; other lines of the log go nowhere."""
    log, handler = logging.getLogger("iostats"), _Raising()
    kept = log.handlers, log.propagate
    log.handlers, log.propagate = [handler], False
    try:
        yield
    finally:
        log.handlers, log.propagate = kept
    if handler.found:
        raise Bug(handler.found[0]) from handler.found[1]


class Draw:
    """Decisions, taken from bytes: 0 when there are no more."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def __bool__(self):
        return self.at < len(self.data)

    def number(self, below):
        """0 <= number < below."""
        size = 1 if below <= 256 else 2 if below <= 65536 else 4
        part = self.data[self.at:self.at + size]
        self.at += size
        return int.from_bytes(part, "big") % below

    def choice(self, some):
        return some[self.number(len(some))]

    def take(self, most):
        """Some bytes, at most so many."""
        part = self.data[self.at:self.at + most]
        self.at += most
        return part

    def rest(self):
        return self.take(len(self.data))

    def parts(self, data):
        """`data` in pieces: [bytes]."""
        found = []
        while data and len(found) < 64:
            size = self.number(256) * (self.number(16) + 1) + 1 if self else len(data)
            found.append(data[:size])
            data = data[size:]
        return [*found, data] if data else found


# -- JSON that is off somewhere ----------------------------------------------------------------

# As they stand in the text, so that what no encoder writes is there, too.
ODD = [
    "null", "true", "0", "-1", "1", "-0", "0.5", "1e0", "1e308", "-1e308", "1e400", "-1e-400",
    "NaN", "Infinity", "-Infinity", "2147483648", "4294967296", "9007199254740993",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
    "-9223372036854775809", "9" * 400, "9" * 5000, "1" + "0" * 310, '""', '"0"', '"-"', '"\\u0000"',
    '"\\ud800"', '"\\udfff\\ud800"', '"\\u001b[2J"', '"a\\nb"', '"\\u202e\\u200b"', '"../../etc"',
    '"=1+1"', '"@SUM(1)"', '"<script>"', '"a,b=c d"', '"a|b\\"c"', '"\u00e9\u4e00\U0001f600"',
    '"' + "x" * 300 + '"', '"' + "y" * 5000 + '"', "[]", "{}", "[[]]", '[{}]', '{"":0}',
    "[" * 600 + "]" * 600, '{"a":' * 600 + "0" + "}" * 600, "[" * 50_000, "[0" + ",0" * 3000 + "]",
    '{"\\ud800":1}', '{"a":1,"a":2}', "1.", "01", "'a'", "",
]


def _tree(value):
    if isinstance(value, dict):
        return ["{", [[json.dumps(key), _tree(one)] for key, one in value.items()]]
    if isinstance(value, list):
        return ["[", [[None, _tree(one)] for one in value]]
    return json.dumps(value)


def _text(tree, parts):
    if isinstance(tree, str):
        parts.append(tree)
        return
    kind, members = tree
    parts.append(kind)
    for place, (key, one) in enumerate(members):
        parts.append("," if place else "")
        if key is not None:
            parts.append(key + ":")
        _text(one, parts)
    parts.append("}" if kind == "{" else "]")


def bent(document, draw, most=6):
    """`document` as the text of JSON, with some edits that `draw` decides."""
    root = [None, _tree(document)]
    while draw and most:
        most -= 1
        at = root
        while not isinstance(at[1], str) and at[1][1] and (at is root or draw.number(4)):
            inside, at = at, draw.choice(at[1][1])
        how = draw.number(8)
        if at is root or how < 4:
            at[1] = draw.choice(ODD)
        elif how == 4:
            inside[1][1].remove(at)
        elif how == 5:
            inside[1][1].append([at[0], at[1]])             # twice: a name, or an element
        elif how == 6:
            if at[0] is not None:
                at[0] = json.dumps(draw.take(draw.number(12)).decode("latin-1"))
        else:
            at[1] = json.dumps(draw.take(draw.number(40)).decode("utf-8", "replace"))
    parts = []
    _text(root[1], parts)
    return "".join(parts)


# -- bytes that are off somewhere --------------------------------------------------------------

_TOKENS = [b"\0", b"\n", b"\r\n", b"\xff", b"\x1b[2J", b" ", b"-", b"0", b"9" * 25, b"[", b"]",
           b"{", b"}", b":", b",", b"%", b"\\", b'"', b"9223372036854775808", b"\xc3\xa9",
           b"nan", b"1e999", b"\xed\xa0\x80", b"2" * 5000, b"[" * 5000]


def mutated(seed, data):
    """`seed` with the edits that `data` decides: for inputs that no coverage leads to."""
    draw, found = Draw(data), bytearray(seed)
    while draw and len(found) < 1 << 17:
        at = draw.number(len(found) + 1)
        how = draw.number(7)
        if how == 0:
            found[at:at + 1] = bytes([draw.number(256)])
        elif how == 1:
            found[at:at] = draw.choice(_TOKENS)
        elif how == 2:
            del found[at:at + draw.number(64)]
        elif how == 3:
            end = at + draw.number(256)
            found[at:at] = found[at:end]
        elif how == 4:
            other = draw.number(len(found) + 1)
            found[at:at + 16] = found[other:other + draw.number(64)]
        elif how == 5:
            del found[at:]
        else:
            found[at:at] = draw.take(draw.number(16))
    return bytes(found)


def corpus(name):
    """[bytes] that some fuzzer has found to lead elsewhere than all others, or to a bug."""
    directory = CORPUS / name
    return [path.read_bytes() for path in sorted(directory.iterdir())] if directory.is_dir() else []
