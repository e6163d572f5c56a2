"""
The parameters of a page's address, checked, and links to the same page with other ones.

Each parameter stands for an option of a command, with the same name and format.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl, quote, urlencode

from iostats.base.errors import UsageError
from iostats.base.sacct_time import parse_time
from iostats.report.listing import Field

_MAX_PARAMETERS = 64
_MAX_VALUE = 20_000
_MAX_NAME = 128


class PageQuery:
    """
    The parameters of an address; UsageError for an unexpected format.

    Attributes:
        values: {name: text}, those that are not empty.
    """

    def __init__(self, query_string: str) -> None:
        try:
            pairs = parse_qsl(query_string, encoding="utf-8", errors="strict",
                              max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            raise UsageError(f"the address: expected up to {_MAX_PARAMETERS} parameters in "
                             f"UTF-8") from None
        texts: dict[str, list[str]] = {}
        for name, value in pairs:
            texts.setdefault(name, []).append(value.strip())
        self.values = {name: text for name, values in texts.items()
                       if (text := ",".join(filter(None, values)))}
        for name, text in self.values.items():
            if len(text) > _MAX_VALUE or not text.isprintable():
                raise UsageError(f"{name[:40]}: expected up to {_MAX_VALUE:,} printable "
                                 f"characters")

    def text(self, name: str, default: str = "", max_length: int = _MAX_NAME) -> str:
        """A text of up to `max_length` characters."""
        value = self.values.get(name, default)
        if len(value) > max_length:
            raise UsageError(f"{name}: expected up to {max_length} characters, got {value[:40]!r}")
        return value

    def flag(self, name: str) -> bool:
        """Whether a box is checked."""
        return self.values.get(name, "") not in ("", "0", "no", "off", "false")

    def split_words(self, name: str, max_count: int, max_length: int = _MAX_NAME) -> list[str]:
        """Return [word] of "a,b c", each once."""
        return self._limit(self.values.get(name, "").replace(",", " ").split(), name, max_count,
                           max_length)

    def split_by_commas(self, name: str, max_count: int, max_length: int = _MAX_NAME) -> list[str]:
        """Return [text] of "a b,c", each once: for names with blanks."""
        texts = [text.strip() for text in self.values.get(name, "").split(",")]
        return self._limit([text for text in texts if text], name, max_count, max_length)

    @staticmethod
    def _limit(words: list[str], name: str, max_count: int, max_length: int) -> list[str]:
        unique = list(dict.fromkeys(words))
        if len(unique) > max_count:
            raise UsageError(f"{name}: expected up to {max_count}, got {len(unique)}")
        for word in unique:
            if len(word) > max_length:
                raise UsageError(f"{name}: expected up to {max_length} characters, got "
                                 f"{word[:40]!r}")
        return unique

    def number(self, name: str, default: int, maximum: int, minimum: int = 1) -> int:
        """Return a parameter that is a whole number within limits."""
        text = self.values.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16
                and minimum <= int(text) <= maximum):
            raise UsageError(f"{name}: expected a number from {minimum} to {maximum}, got "
                             f"{text[:40]!r}")
        return int(text)

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """Return a parameter that is one of these words."""
        text = self.values.get(name, default)
        if text not in choices:
            raise UsageError(f"{name}: expected one of {', '.join(dict.fromkeys(choices))}, got "
                             f"{text[:40]!r}")
        return text

    def moments(self, now: float, default: str | None) -> tuple[float | None, float | None]:
        """(since, until) in seconds since 1970, None for no limit; as -S and -E of the commands."""
        since_text = self.values.get("since", default)
        since = None if since_text is None else parse_time(since_text, now, "since")
        until_text = self.values.get("until")
        until = None if until_text is None else parse_time(until_text, now, "until")
        if since is not None and until is not None and since > until:
            raise UsageError(f"expected since before until, got {(since_text or '')[:40]!r} and "
                             f"{(until_text or '')[:40]!r}")
        return since, until

    def link(self, **changes: object) -> str:
        """Return "?a=1&b=2": these parameters with `changes`; None removes one."""
        left = dict(self.values)
        left.update({name: str(value) for name, value in changes.items() if value is not None})
        for name, value in changes.items():
            if value is None:
                left.pop(name, None)
        return make_address("", **left)

    def sort_link(self, field: Field, sort: str, descending: bool,
                  begins_descending: bool) -> tuple[str, str]:
        """
        Return (a link that sorts by a field, or reverses the order if it is sorted by it;
        "ascending", "descending" or "": its present order). `sort`, `descending`: the present
        order.
        """
        is_sorted = field.name == sort
        down = not descending if is_sorted else begins_descending
        return (self.link(sort=f"-{field.column}" if down else field.column, after=None),
                ("descending" if descending else "ascending") if is_sorted else "")


def make_address(path: str, **values: object) -> str:
    """A path with parameters, without those that are None or ""; "?" for an empty one."""
    parameters = {name: value for name, value in values.items() if value is not None
                  and value != ""}
    if not parameters:
        return path or "?"
    return f"{path}?{urlencode(parameters, quote_via=quote)}"


def quote_segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="") if text not in (".", "..") else text.replace(".", "%2E")
