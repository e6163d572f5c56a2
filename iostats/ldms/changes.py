"""
What is different between two descriptions, for people: a line for each thing, the same ones in one.

    + plugin lustre2: lustre_client, interval 10 s
    - store csv-old
    ~ daemons node-[1-12]: host: n-[1-12] -> m-[1-12]
    ~ aggregators agg-[1-3]: producers: + node-[13-16]; updater updtr_0: interval: 1 s -> 20 s
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from iostats.base.errors import one_line
from iostats.ldms.description.host_lists import folded
from iostats.ldms.description.normal import line_text
from iostats.ldms.description.values import interval_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from iostats.ldms.description.normal import Description

MOST = 200                          # lines
_LONGEST = 300                      # of one
_MOST_TEXT = 60                     # of a value

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


def changes(old: Optional[Description], new: Description) -> list[str]:
    """The differences, up to MOST lines; [] where both say the same.  None: there was none."""
    lines: list[str] = []
    for field in fields(new):
        before = _keyed(getattr(old, field.name)) if old else {}
        lines += _section(field.name, before, _keyed(getattr(new, field.name)))
    if len(lines) > MOST:
        lines[MOST:] = [f"... and {len(lines) - MOST} more"]
    return lines


def _section(section: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    gone = [name for name in old if name not in new]
    lines = [f"- {_called(section, gone)}"] if gone else []
    same: dict[tuple[str, str], list[str]] = {}
    for name, thing in new.items():
        if name not in old:
            same.setdefault(("+", _about(thing)), []).append(name)
        elif old[name] != thing and _difference(old[name], thing):
            same.setdefault(("~", _difference(old[name], thing)), []).append(name)
    for (sign, text), names in same.items():
        lines.append(f"{sign} {_called(section, names)}{': ' * bool(text)}{text}")
    return [_cut(one_line(line), _LONGEST) for line in lines]


def _called(section: str, names: list[str]) -> str:
    one, several = _WORDS.get(section, (section, section))
    return f"{one if len(names) == 1 else several} {_folded(names)}"


def _folded(names: list[str]) -> str:
    if len(names) == 1:                 # a group is called as its hosts are written
        return _cut(names[0], 2 * _MOST_TEXT)
    text = folded(names)
    return text if len(text) <= 2 * _MOST_TEXT else (
        f"{_cut(names[0], _MOST_TEXT)}, {_cut(names[1], _MOST_TEXT)}, ... ({len(names)} in all)")


def _keyed(things: Any) -> dict[str, Any]:
    """{name: thing} of what a Description has; what has one name twice is counted."""
    if isinstance(things, dict):
        return things
    if isinstance(things, str):
        return {things: things} if things else {}
    found: dict[str, Any] = {}
    for thing in things:
        name = _name(thing)
        number = 2
        while name in found:
            name, number = f"{_name(thing)} ({number})", number + 1
        found[name] = thing
    return found


def _name(thing: Any) -> str:
    if isinstance(thing, tuple):
        return str(thing[0])
    return str(next(getattr(thing, key) for key in _KEYS if hasattr(thing, key)))


def _about(thing: Any) -> str:
    """What is new about it, in short."""
    if isinstance(thing, str):
        return ""
    known = {field.name: getattr(thing, field.name) for field in fields(thing)}
    told = [_value("", known[name]) for name in ("plugin", "host") if known.get(name)]
    told += [f"{_title(name)} {_value(name, known[name])}" for name in known
             if name.endswith("_us") and known[name] is not None]
    told += [f"{len(known[name])} {_WORDS.get(name, ('', _title(name)))[1]}"
             for name in ("producers",) if known.get(name)]
    if "settings" in known:
        told += [f"{key}: {value}" for key, value in known["settings"]]
    # A daemon's host is one of many: together they are told without.
    return ", ".join(told) if "endpoints" not in known else ""


def _difference(old: Any, new: Any) -> str:
    """The fields that differ between two dataclasses of one kind."""
    if not is_dataclass(new):
        return f"{_value('', old)} -> {_value('', new)}"
    told = []
    for field in fields(new):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after and field.name != "group":      # how its entry's names are written
            told.append(_field(field.name, before, after))
    return "; ".join(told)


def _field(name: str, old: Any, new: Any) -> str:
    things = [*old, *new] if isinstance(old, tuple) and isinstance(new, tuple) else []
    if things and all(is_dataclass(thing) for thing in things):
        return _things(name, _keyed(old), _keyed(new))
    if things and all(isinstance(thing, str) for thing in things):
        told = _gone_and_come(dict.fromkeys(old), dict.fromkeys(new))
        return f"{_title(name)}: {told or 'another order'}"
    if things and name != "config" and all(_is_pair(thing) for thing in things):
        before, after = dict(old), dict(new)
        return ", ".join(
            f"{_key(name, key)}: {_value('', before.get(key))} -> {_value('', after.get(key))}"
            for key in {**before, **after} if before.get(key) != after.get(key)
            ) or f"{_title(name)}: another order"
    if name == "config":
        old, new = list(map(line_text, old)), list(map(line_text, new))
        return "config: " + ", ".join(
            [f"- {_cut(line, _MOST_TEXT)}" for line in old if line not in new]
            + [f"+ {_cut(line, _MOST_TEXT)}" for line in new if line not in old]
            or ["another order"])
    return f"{_title(name)}: {_value(name, old)} -> {_value(name, new)}"


def _things(name: str, old: dict[str, Any], new: dict[str, Any]) -> str:
    other = _gone_and_come(old, new)
    told = [f"{_WORDS.get(name, (name, name))[1]}: {other}"] if other else []
    same: dict[str, list[str]] = {}
    for one in new:
        if one in old and old[one] != new[one]:
            same.setdefault(_difference(old[one], new[one]), []).append(one)
    told += [f"{_called(name, names)}: {text}" for text, names in same.items()]
    return "; ".join(told) or f"{_title(name)}: another order"


def _gone_and_come(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    both = (("-", [one for one in old if one not in new]),
            ("+", [one for one in new if one not in old]))
    return ", ".join(f"{sign} {_folded(names)}" for sign, names in both if names)


def _is_pair(thing: Any) -> bool:
    return isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], str)


def _key(name: str, key: str) -> str:
    return key if name in ("settings", "options") else f"{_title(name)} {key}"


def _title(name: str) -> str:
    return _NAMES.get(name, name[:-3] if name.endswith("_us") else name)


def _value(name: str, value: Any) -> str:
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_us") and isinstance(value, int):
        return interval_text(value, " ")
    if is_dataclass(value):
        return " ".join(_value("", getattr(value, field.name)) for field in fields(value)
                        if getattr(value, field.name))
    if isinstance(value, tuple):
        return _cut(" ".join(_value("", one) for one in value), _MOST_TEXT)
    return _cut(str(value), _MOST_TEXT)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most - 3] + "..."
