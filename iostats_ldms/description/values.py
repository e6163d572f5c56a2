"""
Values of a description: a node -> a number, a text, ..., or a problem with its place.

An invalid value is a problem in `findings`, and is then None or empty: reading continues, so that a
user sees all problems at once.  Regular expressions are POSIX' extended ones, as in ldmsd, matched
anywhere in a text.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection, Iterable
from functools import lru_cache

from iostats_ldms.description.document import YamlNode
from iostats_ldms.description.problems import Findings, quote

_NAMES_A_REGEX = 40                # names in one expression; ldmsd compiles them
# POSIX classes, which Python does not support.
_CLASSES = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
            "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
            "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "a-fA-F0-9"}
FAULTS = (re.error, RecursionError, OverflowError)      # of compile_regex()


def escape_regex(text: str) -> str:
    r"""
    Escape a text for use in a regular expression.

    >>> escape_regex("node-23/lo.0")
    'node-23/lo\\.0'
    """
    return re.sub(r"([.\[\]{}()*+?|^$\\])", r"\\\1", text)


def make_regexes(names: Collection[str]) -> tuple[str, ...]:
    """Return expressions that match exactly these names."""
    every = [escape_regex(name) for name in names]
    return tuple(f"^({'|'.join(every[at:at + _NAMES_A_REGEX])})$"
                 for at in range(0, len(every), _NAMES_A_REGEX))


@lru_cache(1000)
def compile_regex(expression: str) -> re.Pattern[str]:
    """Compile a POSIX expression for Python; raises one of FAULTS."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")             # about future changes of sets
        return re.compile(re.sub(r"\[:(\w+):\]", lambda result: _CLASSES.get(result[1], ""),
                                 expression))


def select_matching(expression: str, names: Iterable[str]) -> list[str]:
    """Select the names an expression matches; [] if Python cannot compile it."""
    if expression in ("", ".*"):
        return list(names)
    try:
        result = compile_regex(expression)
    except FAULTS:
        return []
    return [name for name in names if result.search(name)]


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
    """A value of the file with its path."""
    __slots__ = ("findings", "node", "path")

    def __init__(self, node: YamlNode, path: str, findings: Findings) -> None:
        self.node, self.path, self.findings = node, path, findings

    def problem(self, text: str) -> None:
        """Report that the value is invalid."""
        self.findings.problem(self.node.line, self.node.column, self.path, text)

    def warning(self, text: str) -> None:
        """Report that the value may be a mistake."""
        self.findings.warning(self.node.line, self.node.column, self.path, text)

    def got(self) -> str:
        """Describe the value for a message."""
        if self.node.kind != "scalar":
            return f"a {self.node.kind}"
        return "nothing" if self.node.text is None else quote(self.node.text)

    @property
    def is_null(self) -> bool:
        """True if the value is empty or null."""
        return self.node.kind == "scalar" and self.node.text is None

    def items(self, of: str) -> list[Value]:
        """
        Return the items of a list; another kind is a problem.  `of`: their kind, for messages.
        """
        if self.node.kind != "list":
            if not self.is_null:
                self.problem(f"expected a list of {of} (each begins with -), got {self.got()}")
            return []
        return [Value(item, f"{self.path}[{index}]", self.findings)
                for index, item in enumerate(self.node.items)]

    def pairs(self, of: str) -> dict[str, Value]:
        """Return {key: value} of a mapping; a repeated key is a problem."""
        if self.node.kind != "mapping":
            if not self.is_null:
                self.problem(f"expected a mapping with {of}, got {self.got()}")
            return {}
        result: dict[str, Value] = {}
        for key, node in self.node.pairs:
            at = Value(key, self.path, self.findings)
            if key.kind != "scalar" or key.text is None:
                at.problem(f"expected a key, got {at.got()}")
                continue
            name = key.text if len(key.text) <= 80 else key.text[:77] + "..."
            path = f"{self.path}.{name}" if self.path else name
            if key.text in result:
                first = result[key.text].node
                self.findings.problem(key.line, key.column, path,
                                      f"duplicate key; the first is in line {first.line}")
                continue
            result[key.text] = Value(node, path, self.findings)
        return result

    def fields(self, required: Iterable[str], optional: Iterable[str],
               takes_others: bool = False) -> dict[str, Value]:
        """
        Return {key: value} of a mapping without nulls.

        A missing or empty key of `required` is a problem; other keys are left out, with a warning
        unless `takes_others`.
        """
        required = tuple(required)
        keys = (*required, *optional)
        pairs = self.pairs(", ".join(required or keys))
        for key, value in pairs.items():
            if key not in keys and not takes_others:
                value.warn_unknown(key, keys)
        if self.node.kind == "mapping":
            for key in required:
                if key not in pairs:
                    self.problem(f"{key} is missing{suggest_present(key, pairs, keys)}")
                elif pairs[key].is_null or pairs[key].node.text == "":
                    pairs[key].problem("has no value")
        return {key: value for key, value in pairs.items() if key in keys and not value.is_null
                and not (key in required and value.node.text == "")}

    def warn_unknown(self, key: str, words: Iterable[str]) -> None:
        """Warn about a key that is ignored."""
        self.warning(f"unknown key, which is ignored{suggest(key, words)}")


def _find_nearest(key: str, words: Iterable[str], least: float = 0.7) -> list[str]:
    return difflib.get_close_matches(key[:80], list(words), 1, least)


def suggest(key: str, words: Iterable[str], least: float = 0.7) -> str:
    """Return "; did you mean X?" for a similar key, or ""; `least`: the required similarity."""
    near = _find_nearest(key, words, least)
    return f"; did you mean {near[0]}?" if near else ""


def suggest_present(key: str, there: Iterable[str], words: Iterable[str]) -> str:
    """Return "; found X" for an unknown key similar to a missing one, or ""."""
    near = [name for name in _find_nearest(key, there) if name not in words]
    return f"; found {quote(near[0])}" if near else ""


def parse_text(value: Value | None, *, may_have_blanks: bool = False) -> str:
    """
    Parse a text in one line; "" if not set.

    ldmsd ends a value at a blank (tokenize(), lib/src/ovis_util/util.c), and has no quotes.
    """
    if value is None or value.is_null:
        return ""
    result = value.node.text
    if result is None:
        value.problem(f"expected a text, got {value.got()}")
        return ""
    if len(result) > _LONGEST_TEXT:
        value.problem(f"expected at most {_LONGEST_TEXT} characters, got {len(result)}")
        return ""
    bad = next((c for c in result if (c.isspace() and not (may_have_blanks and c == " "))
                or not (c.isprintable() or c.isspace())), None)
    if bad is not None:
        expected = "a text in one line" if may_have_blanks else (
            "a text without blanks, where ldmsd ends a value")
        value.problem(f"expected {expected}, got {value.got()}")
        return ""
    return result


def parse_choice(value: Value | None, choices: Iterable[str], default: str = "") -> str:
    """Parse one of several words."""
    if value is None:
        return default
    result = parse_text(value)
    if result and result not in choices:
        *leading, last = choices
        value.problem(f"expected {', '.join(leading)} or {last}, got {value.got()}"
                      + suggest(result, choices))
        return default
    return result or default


def parse_boolean(value: Value | None) -> bool | None:
    """Parse true or false, or YAML's other words for them; None if not set."""
    if value is None or value.is_null:
        return None
    result = _BOOLEANS.get((value.node.text or "").lower())
    if result is None:
        value.problem(f"expected true or false, got {value.got()}")
    return result


def parse_integer(value: Value | None, low: int, high: int) -> int | None:
    """Parse a whole number; None if not set."""
    if value is None or value.is_null:
        return None
    result = value.node.text or ""
    if not _NUMBER.fullmatch(result) or not low <= int(result) <= high:
        value.problem(f"expected a number from {low} to {high}, got {value.got()}")
        return None
    return int(result)


def parse_number(value: Value | None, limit: float) -> float | None:
    """Parse a number above 0; None if not set."""
    if value is None or value.is_null:
        return None
    try:
        result = float(value.node.text or "")
    except ValueError:
        result = 0.0
    if not 0 < result <= limit:
        value.problem(f"expected a number above 0, such as 0.5 or 2, got {value.got()}")
        return None
    return result


def parse_interval(value: Value | None, low: int = 1) -> int | None:
    """
    Parse an interval to microseconds; None if not set.

    A number with one of us, ms, s, m, h, d; without a unit it is microseconds (check_intrvl_str()
    in ldmsd's parser_util.py).
    """
    if value is None or value.is_null:
        return None
    result = value.node.text or ""
    if result.startswith("$"):
        value.problem(f"expected an interval such as 20s, got the variable {quote(result)}; "
                      "the balance needs its value")
        return None
    form = _INTERVAL.fullmatch(result)
    if form is None or (not form.group(2) and "." in form.group(1)):
        value.problem(f"expected an interval such as 20s, got {value.got()}")
        return None
    unit = (form.group(2) or "us").lower()
    microseconds = _to_microseconds(form.group(1), _UNITS_US[unit])
    if microseconds is None:
        value.problem(f"expected whole microseconds, got {value.got()}")
        return None
    if not max(low, -_LONGEST_INTERVAL_US) <= microseconds <= _LONGEST_INTERVAL_US:
        least = "more than 0" if low == 1 else "0 or more" if low == 0 else "at least -1 year"
        value.problem(f"expected an interval of {least} and at most a year, got {value.got()}")
        return None
    if not form.group(2) and 0 < abs(microseconds) < 1000:
        value.warning(f"{result} without a unit is microseconds; write {result}s for seconds")
    return microseconds


def parse_offset(value: Value | None, interval_us: int | None) -> int | None:
    """Parse an offset to microseconds; ldmsd accepts up to half of the interval."""
    offset_us = parse_interval(value, low=-(1 << 62))
    if value is not None and offset_us is not None and interval_us is not None \
            and 2 * abs(offset_us) > interval_us:
        value.problem(f"expected up to half of the interval, got {value.got()}")
    return offset_us


def _to_microseconds(digits: str, unit_us: int) -> int | None:
    """Return digits x unit exactly, or None if that is not a whole number. 1.1s is 1,100,000."""
    whole, _, part = digits.partition(".")
    part = part.rstrip("0")
    scale: int = 10 ** len(part)
    scaled = int(f"{whole.lstrip('+-') or '0'}{part}") * unit_us
    if scaled % scale:
        return None
    return (-1 if whole.startswith("-") else 1) * (scaled // scale)


def format_interval(microseconds: int, between: str = "") -> str:
    """
    Format an interval in the largest unit of us, ms, s that makes it whole.

    >>> format_interval(20_000_000), format_interval(250_000), format_interval(37, " ")
    ('20s', '250ms', '37 us')
    """
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if microseconds % size == 0:
            return f"{microseconds // size}{between}{unit}"
    return f"{microseconds}{between}us"


def parse_permissions(value: Value | None) -> str:
    """Parse permissions such as 644, 0644, 0o644 or rw-r--r-- to ldmsd's form "0644"."""
    result = parse_text(value)
    if value is None or not result:
        return ""
    octal = to_octal(result)
    if not octal:
        value.problem(f"expected permissions such as 0644 or rw-r--r--, got {value.got()}")
    return octal


def to_octal(mode: str) -> str:
    """
    Convert permissions to octal with a leading 0; "" if they have neither form.

    >>> to_octal("rw-r-----"), to_octal("0o777"), to_octal("rwxr-xr-x")
    ('0640', '0777', '')
    """
    form = _OCTAL.fullmatch(mode)
    if form:
        return f"0{int(form.group(1), 8):o}"
    letters = _LETTERS.fullmatch(mode)
    if not letters:
        return ""
    bits = (0o400, 0o200, 0o40, 0o20, 0o4, 0o2)
    return f"0{sum(bit for bit, c in zip(bits, letters.groups()) if c != '-'):o}"


def parse_regex(value: Value | None) -> str:
    """Parse a regular expression; warn if Python cannot compile it."""
    result = parse_text(value)
    if value is not None and result:
        check_regex(value, result)
    return result


def check_regex(value: Value, regex: str) -> None:
    """Warn if `regex` is probably not a regular expression."""
    try:
        compile_regex(regex)
    except FAULTS as error:
        value.warning(f"probably not a regular expression: {error}")
