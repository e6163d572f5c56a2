"""
Plugins: the section of them, and those that samplers and stores have inline (until 2024).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from iostats.ldms.description.normal import Plugin, line_text
from iostats.ldms.description.problems import shown
from iostats.ldms.description.reading import PLUGIN
from iostats.ldms.description.values import (
    interval_us,
    nearest,
    offset_us,
    perm,
    permissions,
    text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.normal import ConfigLine
    from iostats.ldms.description.reading import Draft
    from iostats.ldms.description.values import Value

_KEYS = ("interval", "offset", "perm")
_MOST_NEAR = 1000                  # names that one may be meant for


def read_plugins(section: Value, reading: Draft) -> None:
    """Fill `reading.plugins` with the section's."""
    if section.node.kind != "mapping":
        reading.unread.add(PLUGIN)
    for instance, value in section.pairs("plugins by their instances' names").items():
        if not instance or any(c.isspace() for c in instance) or not instance.isprintable():
            value.problem("expected a plugin instance's name without blanks")
            continue
        reading.plugin_places[instance] = value
        if value.is_null:
            value.problem("expected a mapping with name, config, got nothing")
            continue
        plugin = _plugin(value, instance)
        if plugin is not None:
            reading.plugins[instance] = plugin


def plugin_instances(value: Value | None, reading: Draft, *, is_started: bool) -> tuple[str, ...]:
    """
    The instances of a list whose items are their names, or whole plugins.

    `is_started`: they are sampled, and need an interval.
    """
    if value is None:
        return ()
    found: list[str] = []
    for item in value.items("plugin instances"):
        instance = plugin_instance(item, reading)
        if not instance:
            continue
        if instance in found:
            item.problem(f"{shown(instance)} is in this list already")
            continue
        found.append(instance)
        plugin = reading.plugins.get(instance)
        if is_started and plugin is not None and plugin.interval_us is None:
            place = reading.plugin_places.get(instance, item)
            # An interval that is there and off has its problem.
            if place.node.kind == "mapping" and not any(
                    key.text == "interval" and (one.kind != "scalar" or one.text is not None)
                    for key, one in place.node.pairs):
                place.problem("interval is missing: a sampler is started with it")
    return tuple(found)


def plugin_instance(value: Value, reading: Draft) -> str:
    """An instance's name, of a reference to it or of a plugin inline; "" where it is off."""
    if value.node.kind == "mapping":
        return _inline(value, reading)
    name = text(value)
    if not name:
        if value.is_null or value.node.text == "":
            value.problem("expected the name of a plugin instance, got nothing")
        return ""
    if name not in reading.plugins:
        if name not in reading.plugin_places:
            reading.require(PLUGIN, [name], (), value, "one of `plugins`" + (
                reading.instead_of_plugins
                or nearest(name, islice(reading.plugin_places, _MOST_NEAR))))
            if not reading.plugin_places:           # then each of them is not there
                reading.unread.add(PLUGIN)
        return ""
    return name


def _inline(value: Value, reading: Draft) -> str:
    """
    The plugin's own name is the instance's; where another plugin has it, that with a number.
    """
    plugin = _plugin(value, "")
    if plugin is None:
        return ""
    name, number = plugin.plugin, 1
    while name in reading.plugin_places:
        other = reading.plugins.get(name)
        if other is not None and _as_told(other) == _as_told(replace(plugin, instance=name)):
            return name
        number += 1
        name = f"{plugin.plugin}_{number}"
    if number > 1:
        value.warning(f"this {plugin.plugin} has another configuration than the first: its "
                      f"instance is called {name}")
    reading.plugins[name] = replace(plugin, instance=name)
    reading.plugin_places[name] = value
    return name


def _as_told(plugin: Plugin) -> tuple[object, ...]:
    """What ldmsd is told of it: a line written as text is the same as one written as a mapping."""
    return (plugin.plugin, tuple(map(line_text, plugin.config)), plugin.interval_us,
            plugin.offset_us, plugin.perm)


def _plugin(value: Value, instance: str) -> Plugin | None:
    fields = value.fields(("name", "config"), _KEYS)
    name = text(fields.get("name"))
    interval = interval_us(fields.get("interval"))
    offset = offset_us(fields.get("offset"), interval)
    lines: list[ConfigLine] = []
    for item in fields["config"].items("mappings or texts") if "config" in fields else []:
        if item.node.kind == "scalar" and not item.is_null:
            lines.append(_as_text(item))
        else:
            lines.append(_as_attributes(item))
    if not name:
        return None
    return Plugin(instance or name, name, tuple(lines), interval, offset, perm(fields.get("perm")))


def _as_text(value: Value) -> str:
    found = text(value, may_have_blanks=True).strip()
    for word in found.split():
        key, _, said = word.partition("=")
        if key == "perm" and said.startswith("0o"):
            value.warning(f"ldmsd reads {word} as 0, and refuses that; write "
                          f"perm={permissions(said) or '0777'}")
    return found


def _as_attributes(value: Value) -> ConfigLine:
    """(name, value) in their order; a list is a repeated attribute, nothing a bare keyword."""
    found: list[tuple[str, str | None]] = []
    if value.node.kind != "mapping":
        value.problem(f"expected a mapping of attributes or a text, got {value.got()}")
    for key, one in value.pairs("attributes").items() if value.node.kind == "mapping" else ():
        if not key or not key.isprintable() or any(c.isspace() or c == "=" for c in key):
            one.problem(f"expected the name of an attribute as the key, got {shown(key)}")
        elif one.node.kind == "list":
            found += [(key, None if item.is_null else _attribute(key, item))
                      for item in one.items("values")]
        else:
            found.append((key, None if one.is_null else _attribute(key, one)))
    return tuple(found)


def _attribute(key: str, value: Value) -> str:
    found = text(value)
    if key == "perm" and found.startswith(("0o", "r", "-")):
        return perm(value)
    return found
