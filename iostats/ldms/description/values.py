"""
The values of a description: text -> number, or a problem with its place.

What is off is a problem in `findings`, and the value is then None or empty: the reading goes on, so
that a user sees all problems at once.
"""

from __future__ import annotations

import difflib
import re

from iostats.ldms.description.document import YamlNode
from iostats.ldms.description.problems import Findings, shown
from iostats.ldms.description.regexes import FAULTS, compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_TEXT = 1 << 16
_LONGEST_INTERVAL_US = 366 * 86_400_000_000
_UNITS_US = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000,
             "d": 86_400_000_000}
_INTERVAL = re.compile(r"\s*([+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18}))\s*"
                       r"(us|ms|s|m|h|d)?\s*", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_OCTAL = re.compile(r"(?:0o|0)?([0-7]{1,3})", re.ASCII)
_LETTERS = re.compile(r"([r-])([w-])-([r-])([w-])-([r-])([w-])-")
# YAML 1.1's words; LDMS takes those that PyYAML makes a boolean of.
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Value:
    """A value of the file with its path; `text` is None where it is null, or no scalar."""
    __slots__ = ("findings", "node", "path")

    def __init__(self, node: YamlNode, path: str, findings: Findings) -> None:
        self.node, self.path, self.findings = node, path, findings

    def problem(self, text: str) -> None:
        """It is wrong."""
        self.findings.problem(self.node.line, self.node.column, self.path, text)

    def warning(self, text: str) -> None:
        """It may be meant otherwise."""
        self.findings.warning(self.node.line, self.node.column, self.path, text)

    def got(self) -> str:
        """What is there, for a message."""
        if self.node.kind != "scalar":
            return f"a {self.node.kind}"
        return "nothing" if self.node.text is None else shown(self.node.text)

    @property
    def is_null(self) -> bool:
        """Nothing is written, or null."""
        return self.node.kind == "scalar" and self.node.text is None

    def items(self, of: str) -> list[Value]:
        """The items of a list; a problem where it is none.  `of`: what it has, for the message."""
        if self.node.kind != "list":
            if not self.is_null:
                self.problem(f"expected a list of {of} (each begins with -), got {self.got()}")
            return []
        return [Value(item, f"{self.path}[{index}]", self.findings)
                for index, item in enumerate(self.node.items)]

    def pairs(self, of: str) -> dict[str, Value]:
        """The values of a mapping by their keys, each of which may be there once."""
        if self.node.kind != "mapping":
            if not self.is_null:
                self.problem(f"expected a mapping with {of}, got {self.got()}")
            return {}
        found: dict[str, Value] = {}
        for key, node in self.node.pairs:
            at = Value(key, self.path, self.findings)
            if key.kind != "scalar" or key.text is None:
                at.problem(f"expected a key, got {at.got()}")
                continue
            name = key.text if len(key.text) <= 80 else key.text[:77] + "..."
            path = f"{self.path}.{name}" if self.path else name
            if key.text in found:
                first = found[key.text].node
                self.findings.problem(key.line, key.column, path,
                                      f"is there twice; the first is in line {first.line}")
                continue
            found[key.text] = Value(node, path, self.findings)
        return found

    def fields(self, required: Iterable[str], optional: Iterable[str],
               takes_others: bool = False) -> dict[str, Value]:
        """
        The values of a mapping that are not null, by their keys.  Those of `required` have to be
        there, and have a value; others than these are warned of, unless `takes_others`, and left
        out.
        """
        required = tuple(required)
        known = (*required, *optional)
        pairs = self.pairs(", ".join(required or known))
        for key, value in pairs.items():
            if key not in known and not takes_others:
                value.unknown(key, known)
        if self.node.kind == "mapping":
            for key in required:
                if key not in pairs:
                    self.problem(f"{key} is missing{instead(key, pairs, known)}")
                elif pairs[key].is_null or pairs[key].node.text == "":
                    pairs[key].problem("has no value")
        return {key: value for key, value in pairs.items() if key in known and not value.is_null
                and not (key in required and value.node.text == "")}

    def unknown(self, key: str, known: Iterable[str]) -> None:
        """Warn of this key, which nothing reads."""
        self.warning(f"unknown key, which is ignored{nearest(key, known)}")


def _nearest(key: str, known: Iterable[str], least: float = 0.7) -> list[str]:
    return difflib.get_close_matches(key[:80], list(known), 1, least)


def nearest(key: str, known: Iterable[str], least: float = 0.7) -> str:
    """; did you mean X?  Or "", where nothing is near; `least`: how much alike they have to be."""
    near = _nearest(key, known, least)
    return f"; did you mean {near[0]}?" if near else ""


def instead(key: str, there: Iterable[str], known: Iterable[str]) -> str:
    """; X is there.  Or "", where no key that is not known is near the missing one."""
    near = [other for other in _nearest(key, there) if other not in known]
    return f"; {shown(near[0])} is there" if near else ""


def text(value: Value | None, *, may_have_blanks: bool = False) -> str:
    """
    A text in one line; "" where there is no value.

    ldmsd takes blanks as the end of a value (tokenize(), lib/src/ovis_util/util.c), and knows no
    quotes.
    """
    if value is None or value.is_null:
        return ""
    found = value.node.text
    if found is None:
        value.problem(f"expected a text, got {value.got()}")
        return ""
    if len(found) > _LONGEST_TEXT:
        value.problem(f"expected at most {_LONGEST_TEXT} characters, got {len(found)}")
        return ""
    bad = next((c for c in found if (c.isspace() and not (may_have_blanks and c == " "))
                or not (c.isprintable() or c.isspace())), None)
    if bad is not None:
        what = "a text in one line" if may_have_blanks else (
            "a text without blanks, where ldmsd ends a value")
        value.problem(f"expected {what}, got {value.got()}")
        return ""
    return found


def word_of(value: Value | None, choices: Iterable[str], default: str = "") -> str:
    """One of these words."""
    if value is None:
        return default
    found = text(value)
    if found and found not in choices:
        *most, last = choices
        value.problem(f"expected {', '.join(most)} or {last}, got {value.got()}"
                      + nearest(found, choices))
        return default
    return found or default


def boolean(value: Value | None) -> bool | None:
    """true or false, or another of YAML's words for them; None where there is no value."""
    if value is None or value.is_null:
        return None
    found = _BOOLEANS.get((value.node.text or "").lower())
    if found is None:
        value.problem(f"expected true or false, got {value.got()}")
    return found


def integer(value: Value | None, low: int, high: int) -> int | None:
    """A whole number; None where there is no value."""
    if value is None or value.is_null:
        return None
    found = value.node.text or ""
    if not _NUMBER.fullmatch(found) or not low <= int(found) <= high:
        value.problem(f"expected a number from {low} to {high}, got {value.got()}")
        return None
    return int(found)


def number(value: Value | None, most: float) -> float | None:
    """A number above 0; None where there is no value."""
    if value is None or value.is_null:
        return None
    try:
        found = float(value.node.text or "")
    except ValueError:
        found = 0.0
    if not 0 < found <= most:
        value.problem(f"expected a number above 0, such as 0.5 or 2, got {value.got()}")
        return None
    return found


def interval_us(value: Value | None, low: int = 1) -> int | None:
    """
    Microseconds; None where there is no value.  A number with one of us, ms, s, m, h, d; without a
    unit it is microseconds (check_intrvl_str() in ldmsd's parser_util.py).
    """
    if value is None or value.is_null:
        return None
    found = value.node.text or ""
    if found.startswith("$"):
        value.problem(f"expected an interval such as 20s, got the variable {shown(found)}; "
                      "the balance needs its value")
        return None
    form = _INTERVAL.fullmatch(found)
    if form is None or (not form.group(2) and "." in form.group(1)):
        value.problem(f"expected an interval such as 20s, got {value.got()}")
        return None
    unit = (form.group(2) or "us").lower()
    microseconds = _in_us(form.group(1), _UNITS_US[unit])
    if microseconds is None:
        value.problem(f"expected whole microseconds, got {value.got()}")
        return None
    if not max(low, -_LONGEST_INTERVAL_US) <= microseconds <= _LONGEST_INTERVAL_US:
        least = "more than 0" if low == 1 else "0 or more" if low == 0 else "at least -1 year"
        value.problem(f"expected an interval of {least} and at most a year, got {value.got()}")
        return None
    if not form.group(2) and 0 < abs(microseconds) < 1000:
        value.warning(f"{found} without a unit is microseconds; write {found}s for seconds")
    return microseconds


def offset_us(value: Value | None, interval: int | None) -> int | None:
    """Microseconds; ldmsd takes up to half of the interval, and starts nothing with more."""
    offset = interval_us(value, low=-(1 << 62))
    if value is not None and offset is not None and interval is not None \
            and 2 * abs(offset) > interval:
        value.problem(f"expected up to half of the interval, got {value.got()}")
    return offset


def _in_us(digits: str, unit_us: int) -> int | None:
    """digits x unit exactly, as a whole number; None where it is not one.  1.1s is 1,100,000."""
    whole, _, part = digits.partition(".")
    part = part.rstrip("0")
    scale: int = 10 ** len(part)
    scaled = int(f"{whole.lstrip('+-') or '0'}{part}") * unit_us
    if scaled % scale:
        return None
    return (-1 if whole.startswith("-") else 1) * (scaled // scale)


def interval_text(microseconds: int, between: str = "") -> str:
    """
    As `interval_us` reads it, in the largest unit of us, ms, s that makes it whole.

    >>> interval_text(20_000_000), interval_text(250_000), interval_text(37, " ")
    ('20s', '250ms', '37 us')
    """
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if microseconds % size == 0:
            return f"{microseconds // size}{between}{unit}"
    return f"{microseconds}{between}us"


def perm(value: Value | None) -> str:
    """Permissions as ldmsd takes them, such as "0644": from 644, 0644, 0o644 or rw-r--r--."""
    found = text(value)
    if value is None or not found:
        return ""
    octal = permissions(found)
    if not octal:
        value.problem(f"expected permissions such as 0644 or rw-r--r--, got {value.got()}")
    return octal


def permissions(found: str) -> str:
    """
    The octal form, with its leading 0; "" where it is neither form.

    >>> permissions("rw-r-----"), permissions("0o777"), permissions("rwxr-xr-x")
    ('0640', '0777', '')
    """
    form = _OCTAL.fullmatch(found)
    if form:
        return f"0{int(form.group(1), 8):o}"
    letters = _LETTERS.fullmatch(found)
    if not letters:
        return ""
    bits = (0o400, 0o200, 0o40, 0o20, 0o4, 0o2)
    return f"0{sum(bit for bit, c in zip(bits, letters.groups()) if c != '-'):o}"


def regex(value: Value | None) -> str:
    """A regular expression; what Python cannot compile is warned of, since ldmsd's differ."""
    found = text(value)
    if value is not None and found:
        check_regex(value, found)
    return found


def check_regex(value: Value, found: str) -> None:
    """Warn where `found` is hardly a regular expression."""
    try:
        compiled(found)
    except FAULTS as error:
        value.warning(f"is hardly a regular expression: {error}")
