"""
A record of a newer release of iostats: what this release knows of it, and the names of the rest.

Members that are not known are left alone and named.  In a record of another schema a member that is
not of the form that is known here becomes what stands for "not known": null where the record may
have that; else its object is taken for unknown as a whole, up to the next one that may be null, or
is one of several.  No number is made up.
"""

from __future__ import annotations

from math import isfinite

from iostats.totals.record import CLASSES, LIMITS, SCHEMA, Record, RecordPart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NOTE = "this record is of a newer release of iostats; not shown: "
_MOST_NAMES = 20


class _Odd(ValueError):
    """Not of the form that is known here."""


def as_known(form: Mapping[str, Any]) -> Record:
    """
    The Record in the JSON object `form`, with a note that names what is not shown of it;
    ValueError if not even its job, its nodes and its file systems are of a known form.
    """
    notes = form.get("notes")
    if isinstance(notes, list) and any(str(note).startswith(NOTE) for note in notes):
        return Record.of(form)                  # it has been here before
    if form.get("findings") is not None or form.get("main_cause") is not None:
        # They are made anew from what is known.
        form = {**form, "findings": None, "main_cause": None}
    is_other = form.get("schema") != SCHEMA
    walk = _KnownMembers(is_other)
    known = walk.of("Record", form, "")
    names = ([f"schema {form.get('schema')!r:.20}"] if is_other else []) + sorted(walk.names)
    if not names:
        return Record.of(form)
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    found = Record.of(known)
    return found.replaced(notes=[*found.notes, NOTE + shown])


class _KnownMembers:
    """
    Through a record, by the annotations of its classes.

    Attributes:
        names: of members that are not shown, such as file_systems.quota.
    """

    def __init__(self, checks: bool) -> None:
        """`checks`: whether forms may be others than are known."""
        self._checks, self.names = checks, set[str]()

    def of(self, kind: str, value: Any, path: str) -> Any:
        """The value as it is known; _Odd."""
        if kind.endswith(" | None"):
            return self._or_none(kind[:-len(" | None")], value, path)
        if kind.startswith(("list[", "dict[str, ")):
            return self._several(kind, value, path)
        if kind in CLASSES:
            return self._object(kind, value, path)
        if not self._checks:
            return value
        if kind == "Numbers" and isinstance(value, list):
            known = [one for one in value if one in LIMITS[kind]["items"]["enum"]]
            if known != value:
                self._name(path)
            return known
        if not _is_a(LIMITS[kind], value):
            raise _Odd(f"{path} is {value!r:.40}")
        return value

    def _or_none(self, kind: str, value: Any, path: str) -> Any:
        if value is None:
            return None
        try:
            return self.of(kind, value, path)
        except _Odd:
            self._name(path)
            return None

    def _several(self, kind: str, value: Any, path: str) -> Any:
        is_list = kind.startswith("list[")
        each = kind[len("list[" if is_list else "dict[str, "):-1]
        if not isinstance(value, list if is_list else dict):
            if not self._checks:
                return value
            self._name(path)
            return [] if is_list else {}
        if not self._checks and (each == "NodeRecord" or not _has_objects(each)):
            return value
        found = []
        pairs = enumerate(value) if isinstance(value, list) else value.items()
        for name, one in pairs:
            if each == "NodeRecord" and isinstance(one, str):       # JSON text, of this release
                found.append((name, one))
                continue
            try:
                found.append((name, self.of(each, one, path)))
            except _Odd:
                self._name(path if is_list else f"{path}.{name}")
        return [one for _, one in found] if is_list else dict(found)

    def _object(self, kind: str, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            if not self._checks:
                return value
            raise _Odd(f"{path or 'the record'} is {value!r:.40}")
        of, found = CLASSES[kind], dict(value)
        inside = f"{path}." if path else ""
        for name in value:
            if name not in of.__annotations__:
                self._name(f"{inside}{name}")
        for name, annotation in of.__annotations__.items():
            if name in of._absent:
                found[name] = self._or_absent(of, name, annotation, value, inside)
            elif name in value or self._checks:
                found[name] = self.of(annotation, value.get(name), f"{inside}{name}")
        return found

    def _or_absent(self, of: type[RecordPart], name: str, annotation: str,
                   value: Mapping[str, Any], inside: str) -> Any:
        """A member that records of older releases lack."""
        if name in value:
            try:
                return self.of(annotation, value[name], f"{inside}{name}")
            except _Odd:
                self._name(f"{inside}{name}")
        return of._absent[name]

    def _name(self, path: str) -> None:
        if len(self.names) < 1000:
            self.names.add(str(path)[:80])


def _has_objects(kind: str) -> bool:
    return any(name in kind for name in CLASSES)


def _is_a(limits: Mapping[str, Any], value: Any) -> bool:
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
        return isinstance(value, int) and _within(limits, value)
    return isfinite(value) and _within(limits, value)


def _within(limits: Mapping[str, Any], value: float) -> bool:
    return bool(limits.get("minimum", value) <= value <= limits.get("maximum", value))
