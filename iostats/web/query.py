"""
What the address of a page asks for: parameters, checked, and links to the same page with others.

Each parameter stands for one option of a command, by the same name and in the same form.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

from iostats.base.errors import UsageError
from iostats.base.sacct_time import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iostats.report.listing import Field

_MOST_PARAMETERS = 64
_LONGEST_VALUE = 20_000
_LONGEST_NAME = 128


class PageQuery:
    """
    The parameters of an address; UsageError where they are not of their form.

    Attributes:
        values: {name: text}, those that are not empty.
    """

    def __init__(self, query_string: str) -> None:
        try:
            pairs = parse_qsl(query_string, encoding="utf-8", errors="strict",
                              max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise UsageError(f"the address: expected up to {_MOST_PARAMETERS} parameters in "
                             f"UTF-8") from None
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            found.setdefault(name, []).append(value.strip())
        self.values = {name: text for name, values in found.items()
                       if (text := ",".join(filter(None, values)))}
        for name, text in self.values.items():
            if len(text) > _LONGEST_VALUE or not text.isprintable():
                raise UsageError(f"{name[:40]}: expected up to {_LONGEST_VALUE:,} printable "
                                 f"characters")

    def text(self, name: str, default: str = "", longest: int = _LONGEST_NAME) -> str:
        """A text of up to `longest` characters."""
        value = self.values.get(name, default)
        if len(value) > longest:
            raise UsageError(f"{name}: expected up to {longest} characters, got {value[:40]!r}")
        return value

    def flag(self, name: str) -> bool:
        """Whether a box is checked."""
        return self.values.get(name, "") not in ("", "0", "no", "off", "false")

    def words(self, name: str, most: int, longest: int = _LONGEST_NAME) -> list[str]:
        """[word] of "a,b c", each once."""
        return self._few(self.values.get(name, "").replace(",", " ").split(), name, most, longest)

    def listed(self, name: str, most: int, longest: int = _LONGEST_NAME) -> list[str]:
        """[text] of "a b,c", each once: where blanks are a part of names."""
        found = [one.strip() for one in self.values.get(name, "").split(",")]
        return self._few([one for one in found if one], name, most, longest)

    @staticmethod
    def _few(words: list[str], name: str, most: int, longest: int) -> list[str]:
        found = list(dict.fromkeys(words))
        if len(found) > most:
            raise UsageError(f"{name}: expected up to {most}, got {len(found)}")
        for word in found:
            if len(word) > longest:
                raise UsageError(f"{name}: expected up to {longest} characters, got {word[:40]!r}")
        return found

    def number(self, name: str, default: int, most: int, least: int = 1) -> int:
        """A whole number."""
        text = self.values.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16
                and least <= int(text) <= most):
            raise UsageError(f"{name}: expected a number from {least} to {most}, got {text[:40]!r}")
        return int(text)

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """One of some words."""
        text = self.values.get(name, default)
        if text not in choices:
            raise UsageError(f"{name}: expected one of {', '.join(dict.fromkeys(choices))}, got "
                             f"{text[:40]!r}")
        return text

    def moments(self, now: float, default: str | None) -> tuple[float | None, float | None]:
        """(since, until) in seconds since 1970, None for no limit; as -S and -E of the commands."""
        since_text = self.values.get("since", default)
        since = None if since_text is None else moment(since_text, now, "since")
        until_text = self.values.get("until")
        until = None if until_text is None else moment(until_text, now, "until")
        if since is not None and until is not None and since > until:
            raise UsageError(f"expected since before until, got {(since_text or '')[:40]!r} and "
                             f"{(until_text or '')[:40]!r}")
        return since, until

    def link(self, **changes: object) -> str:
        """ "?a=1&b=2": these parameters with `changes`; None takes one away."""
        left = dict(self.values)
        left.update({name: str(value) for name, value in changes.items() if value is not None})
        for name, value in changes.items():
            if value is None:
                left.pop(name, None)
        return address("", **left)

    def sort_link(self, field: Field, sort: str, descending: bool,
                  begins_descending: bool) -> tuple[str, str]:
        """
        (a link to the same sorted by a field, or by it the other way round; "ascending",
        "descending" or "": how it is sorted by it now).  `sort`, `descending`: the order now.
        """
        is_sorted = field.name == sort
        down = not descending if is_sorted else begins_descending
        return (self.link(sort=f"-{field.column}" if down else field.column, after=None),
                ("descending" if descending else "ascending") if is_sorted else "")


def address(path: str, **values: object) -> str:
    """A path with parameters, those that are not None or ""; "?" alone for none without a path."""
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    if not given:
        return path or "?"
    return f"{path}?{urlencode(given, quote_via=quote)}"


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="") if text not in (".", "..") else text.replace(".", "%2E")
