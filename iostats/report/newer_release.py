"""
A record of a newer release of iostats: what this release knows of it, and the names of the rest.

Members that are not known are left alone and named.  In a record of another schema a member in an
unexpected format becomes the value that means "unknown": null where the record may
have that; else its object is taken for unknown as a whole, up to the next one that may be null, or
is one of several.  No number is made up.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from iostats.totals.record import CLASSES, Record
from iostats.totals.record_part import LIMITS, SCHEMA, RecordPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from iostats.totals.record_part import Limits

NOTE = "this record is of a newer release of iostats; not shown: "
_MOST_NAMES = 20


class _UnexpectedFormat(ValueError):
    """A member has another type than in this release."""


def read_known(form: Mapping[str, object]) -> Record:
    """
    The Record in the JSON object `form`, with a note that names what is not shown of it;
    ValueError if not even its job, its nodes and its file systems are of a known form.
    """
    notes = form.get("notes")
    if isinstance(notes, list) and any(str(note).startswith(NOTE) for note in notes):
        return Record.of(form)                  # it has been here before
    if form.get("findings") is not None or form.get("main_cause") is not None:
        # They are computed again from the record's other members.
        form = {**form, "findings": None, "main_cause": None}
    is_other = form.get("schema") != SCHEMA
    walk = _KnownMembers(is_other)
    known = walk.of("Record", form, "")
    names = ([f"schema {form.get('schema')!r:.20}"] if is_other else []) + sorted(walk.names)
    if not names:
        return Record.of(form)
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    record = Record.of(known if isinstance(known, dict) else form)
    return record.replaced(notes=[*record.notes, NOTE + shown])


class _KnownMembers:
    """Reads a record by the annotations of its classes.

    Attributes:
        names: of members that are not shown, such as file_systems.quota.
    """

    def __init__(self, checks: bool) -> None:
        """`checks`: whether members may have other formats than the known ones."""
        self._checks, self.names = checks, set[str]()

    def of(self, kind: str, value: object, path: str) -> object:
        """Return the known part of a value; _UnexpectedFormat."""
        if kind.endswith(" | None"):
            return self._read_or_none(kind[:-len(" | None")], value, path)
        if kind.startswith(("list[", "dict[str, ")):
            return self._read_several(kind, value, path)
        if kind in CLASSES:
            return self._read_object(kind, value, path)
        if not self._checks:
            return value
        if kind == "Numbers" and isinstance(value, list):
            items = [item for item in value if item in LIMITS[kind]["items"]["enum"]]
            if items != value:
                self._add_name(path)
            return items
        if not _is_value_of(LIMITS[kind], value):
            raise _UnexpectedFormat(f"{path} is {value!r:.40}")
        return value

    def _read_or_none(self, kind: str, value: object, path: str) -> object:
        if value is None:
            return None
        try:
            return self.of(kind, value, path)
        except _UnexpectedFormat:
            self._add_name(path)
            return None

    def _read_several(self, kind: str, value: object, path: str) -> object:
        is_list = kind.startswith("list[")
        each = kind[len("list[" if is_list else "dict[str, "):-1]
        if not isinstance(value, (list, dict)) or isinstance(value, list) != is_list:
            if not self._checks:
                return value
            self._add_name(path)
            return [] if is_list else {}
        if not self._checks and (each == "NodeRecord" or not _has_objects(each)):
            return value
        items: list[tuple[object, object]] = []
        pairs: Iterable[tuple[object, object]] = (
            value.items() if isinstance(value, dict) else enumerate(value))
        for name, item in pairs:
            if each == "NodeRecord" and isinstance(item, str):       # JSON text, of this release
                items.append((name, item))
                continue
            try:
                items.append((name, self.of(each, item, path)))
            except _UnexpectedFormat:
                self._add_name(path if is_list else f"{path}.{name}")
        return [item for _, item in items] if is_list else dict(items)

    def _read_object(self, kind: str, value: object, path: str) -> object:
        if not isinstance(value, dict):
            if not self._checks:
                return value
            raise _UnexpectedFormat(f"{path or 'the record'} is {value!r:.40}")
        of = CLASSES[kind]
        members: dict[str, object] = dict(value)
        inside = f"{path}." if path else ""
        for name in value:
            if name not in of.__annotations__:
                self._add_name(f"{inside}{name}")
        for name, annotation in of.__annotations__.items():
            if name in of._absent:
                members[name] = self._read_member(of, name, annotation, value, inside)
            elif name in value or self._checks:
                members[name] = self.of(annotation, value.get(name), f"{inside}{name}")
        return members

    def _read_member(self, of: type[RecordPart[Any]], name: str, annotation: str,
                     value: Mapping[str, object], inside: str) -> object:
        """A member that records of older releases lack."""
        if name in value:
            try:
                return self.of(annotation, value[name], f"{inside}{name}")
            except _UnexpectedFormat:
                self._add_name(f"{inside}{name}")
        return of._absent[name]

    def _add_name(self, path: str) -> None:
        if len(self.names) < 1000:
            self.names.add(str(path)[:80])


def _has_objects(kind: str) -> bool:
    return any(name in kind for name in CLASSES)


def _is_value_of(limits: Limits, value: object) -> bool:
    """Whether a value that is no object is within the limits of its kind."""
    if "const" in limits:                       # the schema, which is named
        return True
    if "enum" in limits:
        return value in limits["enum"]
    expected = limits["type"]
    if expected in ("string", "boolean"):
        return isinstance(value, str if expected == "string" else bool)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if expected == "integer":
        return isinstance(value, int) and _is_within(limits, value)
    return isfinite(value) and _is_within(limits, value)


def _is_within(limits: Limits, value: float) -> bool:
    return bool(limits.get("minimum", value) <= value <= limits.get("maximum", value))
