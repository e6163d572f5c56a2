r"""
Parsers for the texts of ldmsd's answers.

ldmsd prints JSON with printf and escapes nothing: the regular expression `node\\.1` appears with a
single backslash.  So every backslash is taken literally.  Numbers appear as numbers or as texts.

Source: the handlers of *_status in ldmsd_request.c, and __ldms_format_set_meta_as_json(), ldms.c,
of LDMS 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterator
from typing import Any

from iostats_ldms.control.errors import ProtocolError
from iostats_ldms.control.observed import (
    CollectedSet,
    ObservedListener,
    ObservedPlugin,
    ObservedPolicy,
    ObservedProducer,
    ObservedUpdater,
    SetInfo,
)

_MODES = {"Pull": "pull", "Push on Request": "push", "Push on Change": "onchange"}
_LONGEST_NUMBER = 20
_INT64 = 1 << 63


def parse_config_counter(text: str, where: str = "") -> int:
    """Parse the answer to cfg_cntr, a number."""
    counter = _parse_int64(text.strip())
    if counter is None:
        raise ProtocolError(where, f"unexpected answer to cfg_cntr: expected a "
                            f"number, got {text[:60]!r}")
    return counter


def parse_daemon_state(text: str, where: str = "") -> str:
    """Parse the answer to daemon_status: "ready"."""
    return _parse_object(text, where, "daemon_status").text("state")


def parse_release(text: str, dialect: str, where: str = "") -> str:
    """
    Parse the answer to version: "4.5.3".

    Before 4.5.2 it contains only the version of the plugin interface; the result is `dialect` then.
    """
    if not text.startswith("{"):
        return dialect
    result = _parse_object(text, where, "version").text("LDMSD Version")
    return result if re.fullmatch(r"[0-9A-Za-z.+~-]{1,40}", result) else dialect


def parse_sets(text: str, where: str = "") -> list[SetInfo]:
    """Parse one part of the directory."""
    return [_parse_set(item) for item in
            _parse_object(text, where, "the directory").objects("directory")]


def parse_producers(text: str, where: str = "") -> dict[str, ObservedProducer]:
    """Parse the answer to prdcr_status: {name: ObservedProducer}."""
    return {item.text("name"): ObservedProducer(
        name=item.text("name"), kind=item.text("type"), host=item.text("host"),
        port=item.integer("port"), transport=item.text("transport"),
        reconnect_us=item.integer("reconnect_us"), state=item.text("state"),
        sets=tuple(CollectedSet(s.text("inst_name"), s.text("schema_name"), s.text("state"))
                   for s in item.objects("sets")))
            for item in _iterate_objects(text, where, "prdcr_status")}


def parse_updaters(status: str, matches: str = "", where: str = "") -> dict[str, ObservedUpdater]:
    """Parse the answers to updtr_status and, for the match rules, updtr_match_list."""
    rules = {item.text("name"): tuple((rule.text("regex"), rule.text("selector"))
                                      for rule in item.objects("match"))
             for item in _iterate_objects(matches, where, "updtr_match_list")}
    return {item.text("name"): ObservedUpdater(
        name=item.text("name"), interval_us=item.integer("interval"),
        offset_us=item.integer("offset"),
        mode=_MODES.get(item.text("mode"), item.text("mode").lower()),
        auto_interval=item.text("auto") == "true", state=item.text("state"),
        producers=tuple(p.text("name") for p in item.objects("producers")),
        matches=rules.get(item.text("name"), ()))
        for item in _iterate_objects(status, where, "updtr_status")}


def parse_plugins(status: str, made: str = "", where: str = "") -> dict[str, ObservedPlugin]:
    """
    Parse the answers to plugn_status and, for the sets, plugn_sets: {instance: ObservedPlugin}.

    4.4 reports the plugin's own name, which differs from the library's for some ("csv" for
    store_csv), while load, config and strgp_add take the library's.
    """
    own: dict[str, tuple[str, ...]] = {
        item.text("plugin"): item.texts("sets") for item
        in _iterate_objects(made, where, "plugn_sets")}
    result = {}
    for item in _iterate_objects(status, where, "plugn_status"):
        reported_name, kind = item.text("name"), item.text("type").partition("[")[0]
        library = re.search(r"lib([^/]+)\.so$", item.text("libpath", ""))
        interval_us = item.integer("sample_interval_us", None)
        name = library[1] if library and not item.text("plugin", "") else reported_name
        result[name] = ObservedPlugin(
            name=name, plugin=library[1] if library else item.text("plugin", name), kind=kind,
            interval_us=interval_us if kind == "sampler" else None,
            offset_us=item.integer("sample_offset_us", None)
            if kind == "sampler" and interval_us is not None else None,
            sets=own.get(reported_name) or own.get(name, ()))
    return result


def parse_policies(text: str, where: str = "") -> dict[str, ObservedPolicy]:
    """Parse the answer to strgp_status: {name: ObservedPolicy}."""
    return {item.text("name"): ObservedPolicy(
        name=item.text("name"), plugin=item.text("plugin"), container=item.text("container"),
        schema=item.optional_text("schema"), regex=item.optional_text("regex"),
        decomposition=item.optional_text("decomp"), flush_us=item.microseconds("flush"),
        state=item.text("state"), producers=item.texts("producers"))
        for item in _iterate_objects(text, where, "strgp_status")}


def parse_listens(text: str, where: str = "") -> dict[str, ObservedListener]:
    """Parse the answer to prdcr_listen_status: {name: ObservedListener}."""
    return {item.text("name"): ObservedListener(
        name=item.text("name"), is_started=item.text("state") == "running",
        regex=item.optional_text("regex"), ip=item.optional_text("IP range"),
        producers=item.texts("producers"))
        for item in _iterate_objects(text, where, "prdcr_listen_status")}


def _parse_set(item: _Object) -> SetInfo:
    info = {pair.text("key"): pair.text("value") for pair in item.objects("info")}
    interval_us, _colon, offset_us = info.get("updt_hint_us", "").partition(":")
    hint_us = _parse_int64(interval_us)
    return SetInfo(
        instance=item.text("name"), schema=item.text("schema"),
        data_size_bytes=item.integer("data_size"), meta_size_bytes=item.integer("meta_size"),
        update_hint_us=hint_us if hint_us and hint_us > 0 else None,
        offset_us=_parse_int64(offset_us) if hint_us and hint_us > 0 else None,
        sampled_s=item.seconds("timestamp"))


def _parse_int64(value: object) -> int | None:
    """Return a 64-bit integer given as a number or a text; None for anything else."""
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and re.fullmatch("-?[0-9]+", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    return None


_REQUIRED: Any = object()


class _Object:
    """A JSON object with typed access; a missing or unexpected member raises ProtocolError."""

    __slots__ = ("_daemon_address", "_query", "_value")

    def __init__(self, value: object, where: str, query: str) -> None:
        if not isinstance(value, dict):
            raise ProtocolError(where, f"unexpected answer to {query}: expected an "
                                f"object, got {_abbreviate(value)!r}")
        self._value, self._daemon_address, self._query = value, where, query

    def _make_error(self, key: str, expected: str) -> ProtocolError:
        return ProtocolError(self._daemon_address,
                             f"unexpected answer to {self._query}: {key}: "
                             f"expected {expected}, got {_abbreviate(self._value.get(key))!r}")

    def text(self, key: str, absent: str = _REQUIRED) -> str:
        """Return a text member."""
        value = self._value.get(key, absent)
        if not isinstance(value, str):
            raise self._make_error(key, "a text")
        return value

    def optional_text(self, key: str) -> str:
        """Return a text that ldmsd prints as "-" if it is empty."""
        value = self.text(key, "")
        return "" if value == "-" else value

    def integer(self, key: str, absent: Any = _REQUIRED) -> Any:
        """Return an integer member, or `absent` if it is missing."""
        if key not in self._value and absent is not _REQUIRED:
            return absent
        number = _parse_int64(self._value.get(key))
        if number is None:
            raise self._make_error(key, "a number")
        return number

    def microseconds(self, key: str) -> int:
        """Parse seconds with six decimals."""
        result = re.fullmatch(r"([0-9]{1,12})\.([0-9]{6})", self.text(key))
        if not result:
            raise self._make_error(key, "seconds with six decimals")
        return int(result[1]) * 1_000_000 + int(result[2])

    def seconds(self, key: str) -> float:
        """Parse {"sec": ..., "usec": ...}."""
        if key not in self._value:
            return 0.0
        at = _Object(self._value[key], self._daemon_address, self._query)
        return float(at.integer("sec") + at.integer("usec") / 1e6)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._make_error(key, "a list of texts")
        return tuple(value)

    def objects(self, key: str) -> Iterator[_Object]:
        """Iterate over a list of objects."""
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise self._make_error(key, "a list")
        return (_Object(item, self._daemon_address, self._query) for item in value)


def _abbreviate(value: object) -> str:
    """Return the beginning of a JSON value; cheap even for a list of millions."""
    return (str(value) if isinstance(value, (str, int, float, type(None)))
            else reprlib.repr(value))[:60]


_QUOTE = re.compile(r'"(\s*[,:}\]])?')
_BLANKS = re.compile(r"\s*")
_decode = json.JSONDecoder(strict=False).raw_decode
# ldmsd's densest text has one of these in so many characters; _FREE more are allowed.
_DENSEST = {"{": 12, "[": 12, ",": 5, '"': 3, "\\": 3}
_FREE = 1000


def _escape_inner_quotes(text: str) -> str:
    """Escape quotes inside texts: those that no comma, colon or closing bracket follows."""
    is_inside = False

    def escaped(result: re.Match[str]) -> str:
        nonlocal is_inside
        if is_inside and not result[1]:
            return '\\"'
        is_inside = not is_inside
        return result[0]

    return _QUOTE.sub(escaped, text)


def _decode_value(text: str, at: int = 0) -> tuple[str, object, int]:
    """Decode the JSON value at `at`: (text, value, end of the value); ValueError."""
    try:
        return (text, *_decode(text, at))
    except (ValueError, RecursionError):
        pass
    text = text[:at] + _escape_inner_quotes(text[at:])
    try:
        return (text, *_decode(text, at))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _iterate_values(text: str) -> Iterator[object]:
    """Iterate over the items of a JSON list, or over one other value; ValueError."""
    text = text.replace("\\", "\\\\").strip()
    if any(text.count(character) > len(text) // least + _FREE
           for character, least in _DENSEST.items()):
        raise ValueError("not ldmsd's")         # decoding it would take minutes and gigabytes
    if not text.startswith("["):
        text, value, at = _decode_value(text)
        yield value
    else:
        at = _skip_blanks(text, 1)
        is_over = text.startswith("]", at)
        while not is_over:
            text, value, at = _decode_value(text, at)
            yield value
            at = _skip_blanks(text, at)
            is_over = text.startswith("]", at)
            if not is_over:
                if not text.startswith(",", at):
                    raise ValueError("no comma")
                at = _skip_blanks(text, at + 1)
        at += 1
    if at != len(text):
        raise ValueError("more than one value")


def _skip_blanks(text: str, at: int) -> int:
    result = _BLANKS.match(text, at)
    return result.end() if result else at


def _parse_object(text: str, where: str, query: str) -> _Object:
    if _is_list(text):
        raise _make_format_error(text, where, query, "an object")
    [value] = _decode_answer(text, where, query)
    return _Object(value, where, query)


def _iterate_objects(text: str, where: str, query: str) -> Iterator[_Object]:
    """
    Iterate over a list of JSON objects; nothing for an empty text, which ldmsd sends for an empty
    list.

    The objects are parsed one at a time: the first invalid one ends it, and other threads can run
    in between.
    """
    if not text.strip():
        return
    is_list = _is_list(text)
    for value in _decode_answer(text, where, query):
        if not is_list:
            raise _make_format_error(text, where, query, "a list")
        yield _Object(value, where, query)


def _is_list(text: str) -> bool:
    return text.startswith("[", _skip_blanks(text, 0))


def _decode_answer(text: str, where: str, query: str) -> Iterator[object]:
    try:
        yield from _iterate_values(text)
    except ValueError:
        raise _make_format_error(text, where, query, "JSON") from None


def _make_format_error(text: str, where: str, query: str, expected: str) -> ProtocolError:
    return ProtocolError(where,
                         f"unexpected answer to {query}: expected {expected}, "
                         f"got {text[:60]!r}")
