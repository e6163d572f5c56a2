"""
Differences between two descriptions for people, one line each; equal changes share a line.

    + plugin lustre2: lustre_client, interval 10 s
    - store csv-old
    ~ daemons node-[1-12]: host: n-[1-12] -> m-[1-12]
    ~ aggregators agg-[1-3]: producers: + node-[13-16]; updater updtr_0: interval: 1 s -> 20 s
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Optional

from iostats.base.errors import sanitize
from iostats_ldms.description.host_lists import fold
from iostats_ldms.description.model import Description, format_config_line
from iostats_ldms.description.values import format_interval

MAX_LINES = 200                          # lines
_MAX_LINE = 300                      # of one
_MAX_VALUE = 60                     # of a value

# What a thing is called, by the field that it is in: one, several.
_WORDS = {"daemons": ("daemon", "daemons"), "aggregators": ("aggregators", "aggregators"),
          "samplers": ("samplers", "samplers"), "plugins": ("plugin", "plugins"),
          "stores": ("store", "stores"), "agents": ("iostats", "iostats"),
          "endpoints": ("endpoint", "endpoints"), "updaters": ("updater", "updaters"),
          "producers": ("producer", "producers"), "listens": ("prdcr_listen", "prdcr_listen"),
          "subscriptions": ("subscribe", "subscribe"), "advertises": ("advertise", "advertise")}
_NAMES = {"kind": "type", "transport": "xprt", "members": "daemons", "is_control": "maestro_comm",
          "listens_everywhere": "bind_all", "daemon": "daemon"}
_KEYS = ("name", "instance", "regex", "key")


def describe_changes(old: Optional[Description], new: Description) -> list[str]:
    """Describe the differences in up to MAX_LINES lines; `old`: None if there is none."""
    lines: list[str] = []
    for field in fields(new):
        before = _index_by_name(getattr(old, field.name)) if old else {}
        lines += _compare_section(field.name, before, _index_by_name(getattr(new, field.name)))
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"... and {len(lines) - MAX_LINES} more"]
    return lines


def _compare_section(section: str, old: Mapping[str, object],
                     new: Mapping[str, object]) -> list[str]:
    removed = [name for name in old if name not in new]
    lines = [f"- {_format_names(section, removed)}"] if removed else []
    same: dict[tuple[str, str], list[str]] = {}
    for name, thing in new.items():
        if name not in old:
            same.setdefault(("+", _summarize(thing)), []).append(name)
        elif old[name] != thing and _describe_difference(old[name], thing):
            same.setdefault(("~", _describe_difference(old[name], thing)), []).append(name)
    for (sign, text), names in same.items():
        lines.append(f"{sign} {_format_names(section, names)}{': ' * bool(text)}{text}")
    return [_truncate(sanitize(line), _MAX_LINE) for line in lines]


def _format_names(section: str, names: list[str]) -> str:
    item, several = _WORDS.get(section, (section, section))
    return f"{item if len(names) == 1 else several} {_fold_names(names)}"


def _fold_names(names: list[str]) -> str:
    if len(names) == 1:                 # a group is called as its hosts are written
        return _truncate(names[0], 2 * _MAX_VALUE)
    text = fold(names)
    return text if len(text) <= 2 * _MAX_VALUE else (
        f"{_truncate(names[0], _MAX_VALUE)}, {_truncate(names[1], _MAX_VALUE)}, ... "
        f"({len(names)} in all)")


def _index_by_name(things: object) -> dict[str, object]:
    """Return {name: item}; a repeated name gets a number."""
    if isinstance(things, dict):
        return things
    if isinstance(things, str):
        return {things: things} if things else {}
    assert isinstance(things, tuple)
    result: dict[str, object] = {}
    thing: object
    for thing in things:
        name = _get_name(thing)
        number = 2
        while name in result:
            name, number = f"{_get_name(thing)} ({number})", number + 1
        result[name] = thing
    return result


def _get_name(thing: object) -> str:
    if isinstance(thing, tuple):
        return str(thing[0])
    return str(next(getattr(thing, key) for key in _KEYS if hasattr(thing, key)))


def _summarize(thing: object) -> str:
    """Summarize a new item."""
    if isinstance(thing, str):
        return ""
    values = _list_values(thing)
    parts = [_format_value("", values[name]) for name in ("plugin", "host") if values.get(name)]
    parts += [f"{_get_title(name)} {_format_value(name, values[name])}" for name in values
              if name.endswith("_us") and values[name] is not None]
    producers, settings = values.get("producers"), values.get("settings")
    if isinstance(producers, tuple) and producers:
        parts.append(f"{len(producers)} {_WORDS['producers'][1]}")
    if isinstance(settings, tuple):
        parts += [f"{key}: {value}" for key, value in settings]
    # The hosts of many daemons would be too long.
    return ", ".join(parts) if "endpoints" not in values else ""


def _describe_difference(old: object, new: object) -> str:
    """Describe the fields that differ between two items of one kind."""
    if not is_dataclass(new):
        return f"{_format_value('', old)} -> {_format_value('', new)}"
    before, after = _list_values(old), _list_values(new)
    return "; ".join(_describe_field(name, before[name], after[name]) for name in after
                     if before[name] != after[name]
                     and name != "group")                  # how its entry's names are written


def _list_values(thing: object) -> dict[str, object]:
    """{field: its value} of a dataclass."""
    assert is_dataclass(thing)
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def _describe_field(name: str, old: object, new: object) -> str:
    before: dict[str, object]
    after: dict[str, object]
    if not (isinstance(old, tuple) and isinstance(new, tuple) and (old or new)):
        return f"{_get_title(name)}: {_format_value(name, old)} -> {_format_value(name, new)}"
    things: list[object] = [*old, *new]
    if all(map(is_dataclass, things)):
        return _describe_items(name, _index_by_name(old), _index_by_name(new))
    if all(isinstance(thing, str) for thing in things):
        parts = _describe_membership(dict.fromkeys(old), dict.fromkeys(new))
        return f"{_get_title(name)}: {parts or 'order changed'}"
    if name != "config" and all(map(_is_pair, things)):
        before, after = dict(old), dict(new)
        return ", ".join(
            f"{_format_key(name, key)}: {_format_value('', before.get(key))} -> "
            f"{_format_value('', after.get(key))}"
            for key in {**before, **after} if before.get(key) != after.get(key)
            ) or f"{_get_title(name)}: another order"
    if name == "config":
        was, now = list(map(format_config_line, old)), list(map(format_config_line, new))
        return "config: " + ", ".join(
            [f"- {_truncate(line, _MAX_VALUE)}" for line in was if line not in now]
            + [f"+ {_truncate(line, _MAX_VALUE)}" for line in now if line not in was]
            or ["order changed"])
    return f"{_get_title(name)}: {_format_value(name, old)} -> {_format_value(name, new)}"


def _describe_items(name: str, old: dict[str, object], new: dict[str, object]) -> str:
    membership = _describe_membership(old, new)
    parts = [f"{_WORDS.get(name, (name, name))[1]}: {membership}"] if membership else []
    same: dict[str, list[str]] = {}
    for item in new:
        if item in old and old[item] != new[item]:
            same.setdefault(_describe_difference(old[item], new[item]), []).append(item)
    parts += [f"{_format_names(name, names)}: {text}" for text, names in same.items()]
    return "; ".join(parts) or f"{_get_title(name)}: another order"


def _describe_membership(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    both = (("-", [item for item in old if item not in new]),
            ("+", [item for item in new if item not in old]))
    return ", ".join(f"{sign} {_fold_names(names)}" for sign, names in both if names)


def _is_pair(thing: object) -> bool:
    return isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], str)


def _format_key(name: str, key: str) -> str:
    return key if name in ("settings", "options") else f"{_get_title(name)} {key}"


def _get_title(name: str) -> str:
    return _NAMES.get(name, name[:-3] if name.endswith("_us") else name)


def _format_value(name: str, value: object) -> str:
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_us") and isinstance(value, int):
        return format_interval(value, " ")
    if is_dataclass(value):
        return " ".join(_format_value("", part) for part in _list_values(value).values() if part)
    if isinstance(value, tuple):
        return _truncate(" ".join(_format_value("", item) for item in value), _MAX_VALUE)
    return _truncate(str(value), _MAX_VALUE)


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit - 3] + "..."
