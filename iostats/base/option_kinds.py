"""
The kinds of keys in site.cfg: how a section declares a key, and the checks of its text.

    class ServerSection(Section):
        port = number_option(1, 65535, 23, "Where it listens.")     an int for type checkers
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    Value = TypeVar("Value")


class Option:
    """
    One key of site.cfg: an attribute of its section; the default is checked when it is first read.
    """

    __slots__ = ("_key", "check", "default", "expected", "help")

    def __init__(self, default: str, check: Callable[[str], object], expected: str,
                 help: str) -> None:
        self.default = default      # as it would stand in site.cfg
        self.check = check          # text -> value, raising ValueError
        self.expected = expected    # what is allowed, for the error message
        self.help = help            # for site.cfg and the documentation

    def __set_name__(self, section: type, key: str) -> None:
        self._key = key

    def __get__(self, section: object, of_class: type) -> object:
        value = section.__dict__[self._key] = self.check(self.default)
        return value


def option(default: str, check: Callable[[str], Value], expected: str, help: str) -> Value:
    """Declare a key; type checkers see the type of its value, as with dataclasses.field."""
    # Option.__get__ returns the value.
    return Option(default, check, expected, help)  # type: ignore[return-value]


class Section:
    """A section of site.cfg: a subclass declares the keys, its instance has the values."""


def list_options(section: type[Section]) -> dict[str, Option]:
    """Return {key: Option} of a section, in the order of site.cfg."""
    return {key: option for key, option in vars(section).items() if isinstance(option, Option)}


def check_printable(value: str) -> str:
    """Check: any text in one line of printable characters."""
    if not value.isprintable():
        raise ValueError
    return value


def split_host_port(text: str) -> tuple[str, int | None]:
    """
    Return (host, port or None) of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; ValueError for others.

    >>> split_host_port("mgmt1:19990"), split_host_port("[fd00::5]")
    (('mgmt1', 19990), ('fd00::5', None))
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest[1:] if rest[:1] == ":" else rest
        host = host if bracket else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError
    return host, int(port) if port else None


def is_ip_address(host: str) -> bool:
    """
    True for an IP address, IPv6 also with a zone; False for a name.

    >>> is_ip_address("10.0.0.23"), is_ip_address("fe80::1%eth0"), is_ip_address("node23")
    (True, True, False)
    """
    import socket  # callers have it; options.py does not need it, nor ipaddress (1 ms)
    is_ipv6 = ":" in host
    address, percent, zone = host.partition("%") if is_ipv6 else (host, "", "")
    try:
        socket.inet_pton(socket.AF_INET6 if is_ipv6 else socket.AF_INET, address)
    except (OSError, ValueError):
        return False
    return not percent or (zone != "" and "%" not in zone)


def check_servers(value: str) -> str:
    """Check: servers separated by commas or spaces."""
    for word in check_printable(value).replace(",", " ").split():
        split_host_port(word)
    return value


def check_store(value: str) -> str:
    """Check: an absolute path, or a URL of PostgreSQL."""
    return (check_printable if value.startswith("postgresql://") else check_absolute)(value)


def split_words(value: str) -> list[str]:
    """Check: words separated by spaces; a comma is refused, as it would be part of a word."""
    if "," in value:
        raise ValueError
    return value.split()


def check_absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError
    return check_printable(value)


def check_absolute_or_empty(value: str) -> str:
    return check_absolute(value) if value else value


def check_header_name(value: str) -> str:
    if value and not (value.isascii() and value.replace("-", "").isalnum()):
        raise ValueError
    return value


def check_path_prefix(value: str) -> str:
    parts = value.rstrip("/").split("/")
    if value and (parts[0] or not all(part.isascii() and part.replace("-", "").replace(
            "_", "").replace(".", "").isalnum() for part in parts[1:])):
        raise ValueError
    return value.rstrip("/")


def check_address(value: str) -> str:
    if (value and not value.startswith(("http://", "https://", "/"))) or " " in value:
        raise ValueError
    return check_printable(value)


def _make_integer_check(low: int, high: int) -> Callable[[str], int]:
    def check(value: str) -> int:
        if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
            raise ValueError
        return int(value)
    return check


def _parse_seconds(value: str) -> float:
    seconds = float(value)
    if not 0 <= seconds <= 1e7:
        raise ValueError
    return seconds


def make_words_check(*choices: str) -> Callable[[str], list[str]]:
    def check(value: str) -> list[str]:
        if not set(value.split()) <= set(choices):
            raise ValueError
        return value.split()
    return check


def split_methods(value: str) -> list[str]:
    words = value.split()
    if not words or len(set(words)) < len(words) or not set(words) <= {"secret", "munge"}:
        raise ValueError
    return words


def split_days(value: str) -> list[int]:
    days = [_make_integer_check(0, 36500)(word) for word in value.split()]
    if not 1 <= len(days) <= 4 or days != sorted(days):
        raise ValueError
    return days


def choice_option(default: str, choices: Sequence[str], help: str) -> str:
    """Declare a key that has one of these values."""
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError
        return value
    return option(default, check, f"{', '.join(choices[:-1])} or {choices[-1]}", help)


def number_option(low: int, high: int, default: int, help: str) -> int:
    """Declare a key that is an integer."""
    return option(str(default), _make_integer_check(low, high), f"a number from {low} to {high}",
                  help)


def duration_option(default: float, help: str) -> float:
    """Declare a key that is a time in seconds."""
    return option(str(default), _parse_seconds, "seconds, from 0 to 10000000", help)


def path_option(default: str, description: str, help: str) -> str:
    """
    Declare a key that is a path of a service or a hook: absolute, since their working directory
    is undefined.
    """
    return option(default, check_absolute, f"{description} whose path begins with /", help)
