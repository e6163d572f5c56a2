"""
The texts that ldmsd answers with -> what it has.

ldmsd prints JSON with printf, and escapes nothing: a regular expression `node\\.1` stands in it
with its single backslash.  So every backslash is one here.  Numbers stand in it as numbers or as
texts.

Source: the handlers of *_status in ldmsd_request.c, and __ldms_format_set_meta_as_json(), ldms.c,
of LDMS 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import json
import re
import reprlib

from iostats.ldms.control.errors import Nonsense
from iostats.ldms.control.observed import (
    CollectedSet,
    ListenSeen,
    PluginSeen,
    PolicySeen,
    ProducerSeen,
    SetInfo,
    UpdaterSeen,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MODES = {"Pull": "pull", "Push on Request": "push", "Push on Change": "onchange"}
_LONGEST_NUMBER = 20
_INT64 = 1 << 63


def config_counter(text: str, where: str = "") -> int:
    """The answer to cfg_cntr: a number."""
    counter = _number(text.strip())
    if counter is None:
        raise Nonsense(where, f"what it answers to cfg_cntr is not of its form: expected a "
                              f"number, got {text[:60]!r}")
    return counter


def daemon_state(text: str, where: str = "") -> str:
    """The answer to daemon_status: "ready"."""
    return _object(text, where, "daemon_status").text("state")


def release(text: str, dialect: str, where: str = "") -> str:
    """
    The answer to version: "4.5.3".  Before 4.5.2 there is only the version of the interface of
    plugins in it: then it is `dialect`.
    """
    if not text.startswith("{"):
        return dialect
    found = _object(text, where, "version").text("LDMSD Version")
    return found if re.fullmatch(r"[0-9A-Za-z.+~-]{1,40}", found) else dialect


def sets(text: str, where: str = "") -> list[SetInfo]:
    """A part of the directory."""
    return [_set_info(one) for one in
            _object(text, where, "the directory").objects("directory")]


def producers(text: str, where: str = "") -> dict[str, ProducerSeen]:
    """The answer to prdcr_status, by name."""
    return {one.text("name"): ProducerSeen(
        name=one.text("name"), kind=one.text("type"), host=one.text("host"),
        port=one.integer("port"), transport=one.text("transport"),
        reconnect_us=one.integer("reconnect_us"), state=one.text("state"),
        sets=tuple(CollectedSet(s.text("inst_name"), s.text("schema_name"), s.text("state"))
                   for s in one.objects("sets")))
        for one in _list(text, where, "prdcr_status")}


def updaters(status: str, matches: str = "", where: str = "") -> dict[str, UpdaterSeen]:
    """The answers to updtr_status and, for their rules, updtr_match_list, by name."""
    rules = {one.text("name"): tuple((rule.text("regex"), rule.text("selector"))
                                     for rule in one.objects("match"))
             for one in _list(matches, where, "updtr_match_list")}
    return {one.text("name"): UpdaterSeen(
        name=one.text("name"), interval_us=one.integer("interval"),
        offset_us=one.integer("offset"),
        mode=_MODES.get(one.text("mode"), one.text("mode").lower()),
        auto_interval=one.text("auto") == "true", state=one.text("state"),
        producers=tuple(p.text("name") for p in one.objects("producers")),
        matches=rules.get(one.text("name"), ()))
        for one in _list(status, where, "updtr_status")}


def plugins(status: str, made: str = "", where: str = "") -> dict[str, PluginSeen]:
    """
    The answers to plugn_status and, for their sets, plugn_sets, by the instance's name.

    4.4 tells a plugin's name for itself, which is another one for some ("csv" of store_csv); load,
    config and strgp_add know it by its library's.
    """
    own: dict[str, tuple[str, ...]] = {
        one.text("plugin"): one.texts("sets") for one in _list(made, where, "plugn_sets")}
    found = {}
    for one in _list(status, where, "plugn_status"):
        told, kind = one.text("name"), one.text("type").partition("[")[0]
        library = re.search(r"lib([^/]+)\.so$", one.text("libpath", ""))
        interval = one.integer("sample_interval_us", None)
        name = library[1] if library and not one.text("plugin", "") else told
        found[name] = PluginSeen(
            name=name, plugin=library[1] if library else one.text("plugin", name), kind=kind,
            interval_us=interval if kind == "sampler" else None,
            offset_us=one.integer("sample_offset_us", None)
            if kind == "sampler" and interval is not None else None,
            sets=own.get(told) or own.get(name, ()))
    return found


def policies(text: str, where: str = "") -> dict[str, PolicySeen]:
    """The answer to strgp_status, by name."""
    return {one.text("name"): PolicySeen(
        name=one.text("name"), plugin=one.text("plugin"), container=one.text("container"),
        schema=one.dashed("schema"), regex=one.dashed("regex"),
        decomposition=one.dashed("decomp"), flush_us=one.microseconds("flush"),
        state=one.text("state"), producers=one.texts("producers"))
        for one in _list(text, where, "strgp_status")}


def listens(text: str, where: str = "") -> dict[str, ListenSeen]:
    """The answer to prdcr_listen_status, by name."""
    return {one.text("name"): ListenSeen(
        name=one.text("name"), is_started=one.text("state") == "running",
        regex=one.dashed("regex"), ip=one.dashed("IP range"), producers=one.texts("producers"))
        for one in _list(text, where, "prdcr_listen_status")}


def _set_info(one: _Object) -> SetInfo:
    info = {pair.text("key"): pair.text("value") for pair in one.objects("info")}
    interval, _colon, offset = info.get("updt_hint_us", "").partition(":")
    hint = _number(interval)
    return SetInfo(
        instance=one.text("name"), schema=one.text("schema"),
        data_size_bytes=one.integer("data_size"), meta_size_bytes=one.integer("meta_size"),
        update_hint_us=hint if hint and hint > 0 else None,
        offset_us=_number(offset) if hint and hint > 0 else None,
        sampled_s=one.seconds("timestamp"))


def _number(value: object) -> int | None:
    """A number of 64 bits, of JSON's or as text; None for anything else."""
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and re.fullmatch("-?[0-9]+", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    return None


_REQUIRED: Any = object()


class _Object:
    """A JSON object; what is asked of it and is not there, or is another thing, is Nonsense."""

    __slots__ = ("_value", "_where", "_what")

    def __init__(self, value: object, where: str, what: str) -> None:
        if not isinstance(value, dict):
            raise Nonsense(where, f"what it answers to {what} is not of its form: expected an "
                                  f"object, got {_shown(value)!r}")
        self._value, self._where, self._what = value, where, what

    def _wrong(self, key: str, expected: str) -> Nonsense:
        return Nonsense(self._where, f"what it answers to {self._what} is not of its form: {key}: "
                                     f"expected {expected}, got {_shown(self._value.get(key))!r}")

    def text(self, key: str, absent: str = _REQUIRED) -> str:
        value = self._value.get(key, absent)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def dashed(self, key: str) -> str:
        """A text that is printed as "-" where there is none."""
        value = self.text(key, "")
        return "" if value == "-" else value

    def integer(self, key: str, absent: Any = _REQUIRED) -> Any:
        if key not in self._value and absent is not _REQUIRED:
            return absent
        number = _number(self._value.get(key))
        if number is None:
            raise self._wrong(key, "a number")
        return number

    def microseconds(self, key: str) -> int:
        """Of seconds with six decimals."""
        found = re.fullmatch(r"([0-9]{1,12})\.([0-9]{6})", self.text(key))
        if not found:
            raise self._wrong(key, "seconds with six decimals")
        return int(found[1]) * 1_000_000 + int(found[2])

    def seconds(self, key: str) -> float:
        """Of {"sec": ..., "usec": ...}."""
        if key not in self._value:
            return 0.0
        at = _Object(self._value[key], self._where, self._what)
        return float(at.integer("sec") + at.integer("usec") / 1e6)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def objects(self, key: str) -> Iterator[_Object]:
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return (_Object(one, self._where, self._what) for one in value)


def _shown(value: object) -> str:
    """The beginning of what JSON had there; of a list of millions it costs no more."""
    return (str(value) if isinstance(value, (str, int, float, type(None)))
            else reprlib.repr(value))[:60]


_QUOTE = re.compile(r'"(\s*[,:}\]])?')
_BLANKS = re.compile(r"\s*")
_decode = json.JSONDecoder(strict=False).raw_decode
# Characters for each of these in the densest text that ldmsd writes, and how many are free.
_DENSEST = {"{": 12, "[": 12, ",": 5, '"': 3, "\\": 3}
_FREE = 1000


def _inner_quotes_escaped(text: str) -> str:
    """A quote inside a text is one that no comma, colon or closing bracket follows."""
    is_inside = False

    def escaped(found: re.Match[str]) -> str:
        nonlocal is_inside
        if is_inside and not found[1]:
            return '\\"'
        is_inside = not is_inside
        return found[0]

    return _QUOTE.sub(escaped, text)


def _parsed(text: str, at: int = 0) -> tuple[str, object, int]:
    """(text, what JSON stands at `at` in it, where that ends); ValueError."""
    try:
        return (text, *_decode(text, at))
    except (ValueError, RecursionError):
        pass
    text = text[:at] + _inner_quotes_escaped(text[at:])
    try:
        return (text, *_decode(text, at))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _values(text: str) -> Iterator[object]:
    """What JSON stands in `text`: of a list its items, one after the other; ValueError."""
    text = text.replace("\\", "\\\\").strip()
    if any(text.count(character) > len(text) // least + _FREE
           for character, least in _DENSEST.items()):
        raise ValueError("not ldmsd's")         # it would take minutes, and gigabytes
    if not text.startswith("["):
        text, value, at = _parsed(text)
        yield value
    else:
        at = _after_blanks(text, 1)
        is_over = text.startswith("]", at)
        while not is_over:
            text, value, at = _parsed(text, at)
            yield value
            at = _after_blanks(text, at)
            is_over = text.startswith("]", at)
            if not is_over:
                if not text.startswith(",", at):
                    raise ValueError("no comma")
                at = _after_blanks(text, at + 1)
        at += 1
    if at != len(text):
        raise ValueError("more than one value")


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _object(text: str, where: str, what: str) -> _Object:
    if _is_list(text):
        raise _not_of_its_form(text, where, what, "an object")
    [value] = _told(text, where, what)
    return _Object(value, where, what)


def _list(text: str, where: str, what: str) -> Iterator[_Object]:
    """
    Objects of a list; none for an empty text: ldmsd answers with it where it has none.

    They are read one by one: the first that is wrong ends it, and other threads go on meanwhile.
    """
    if not text.strip():
        return
    is_list = _is_list(text)
    for value in _told(text, where, what):
        if not is_list:
            raise _not_of_its_form(text, where, what, "a list")
        yield _Object(value, where, what)


def _is_list(text: str) -> bool:
    return text.startswith("[", _after_blanks(text, 0))


def _told(text: str, where: str, what: str) -> Iterator[object]:
    try:
        yield from _values(text)
    except ValueError:
        raise _not_of_its_form(text, where, what, "JSON") from None


def _not_of_its_form(text: str, where: str, what: str, expected: str) -> Nonsense:
    return Nonsense(where, f"what it answers to {what} is not of its form: expected {expected}, "
                           f"got {text[:60]!r}")
