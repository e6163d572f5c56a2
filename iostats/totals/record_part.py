"""
The parts of a job's record: JSON objects whose members are attributes, and the types of these.

A class is one JSON object: its annotations are the members and their types, in their order.  The
value is a dict with the same members, so any encoder writes it as it is, and `of` makes it of what
was stored.

Why not a msgspec.Struct, or a dataclass: `show` and `--mpi` make records on compute nodes, where
neither may be imported; and a record that an older or newer release has stored, with fewer or more
members, comes back as it was written.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from iostats.totals.bounds import NUMBERS, UPPER_BOUNDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from dataclasses import dataclass as dataclass
    from typing import Any, TypedDict, TypeVar

    _Part = TypeVar("_Part", bound="RecordPart[Any]")
    _Value = TypeVar("_Value")

    class Limits(TypedDict, total=False):
        """A type as JSON Schema."""

        type: str
        const: int
        enum: list[str]
        minimum: float
        exclusiveMinimum: float
        maximum: float
        minLength: int
        maxLength: int
        uniqueItems: bool
        items: dict[str, list[str]]

    # What tools/docs.py makes of each, see LIMITS.
    Count = int
    Positive = int
    SchemaNumber = int
    Moment = float
    Seconds = float
    Width = float
    Share = float
    Amount = float
    JobName = str
    Numbers = list[str]
    Severity = int
    Teller = str
    DataLoss = str
else:
    def dataclass(cls):
        """Tell type checkers that the annotations are members; does nothing at run time."""
        return cls

SCHEMA = 1

# Names of types in the annotations, as JSON Schema.
LIMITS: dict[str, Limits] = {
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "Count": {"type": "integer", "minimum": 0},
    "Positive": {"type": "integer", "minimum": 1},
    "Moment": {"type": "number"},
    "Seconds": {"type": "number", "minimum": 0},
    "Width": {"type": "number", "exclusiveMinimum": 0},
    "Share": {"type": "number", "minimum": 0, "maximum": 1},
    "Amount": {"type": "number"},
    "JobName": {"type": "string", "minLength": 1, "maxLength": 128},
    "Numbers": {"type": "array", "uniqueItems": True,
                "items": {"enum": [*NUMBERS, *UPPER_BOUNDS]}},
    "SchemaNumber": {"const": SCHEMA},
    "Severity": {"type": "integer", "minimum": 0, "maximum": 3},
    "Teller": {"enum": ["nodes", "servers", "both"]},
    "DataLoss": {"enum": ["", "lost", "may be lost"]},
}

PARTS: dict[str, type[RecordPart[Any]]] = {}           # by name


class RecordPart(dict["str", "_Value"]):
    """
    A JSON object of the record, whose members are attributes; it is made by their names.

    RecordPart["Count"]: its members are of this type, for type checkers.
    """

    _inner: dict[str, Callable[[Any], Any]] = {}    # member -> what makes its parts of JSON
    _absent: Mapping[str, object] = {}  # member that older records lack -> what it is in those

    def __init_subclass__(cls) -> None:
        PARTS[cls.__name__] = cls
        cls._inner = {}
        for name, annotation in cls.__annotations__.items():
            setattr(cls, name, _make_member(name, cls._absent))
            convert = _find_converter(annotation)
            if convert is not None:
                cls._inner[name] = convert

    @classmethod
    def of(cls: type[_Part], form: Mapping[str, object]) -> _Part:
        """The part of the JSON object `form`, which is left as it is; itself, if it is one."""
        if isinstance(form, cls):
            return form
        part = dict.__new__(cls)
        part.update(form)
        for name in cls._inner:
            if part.get(name) is not None:
                part[name] = part[name]
        return part

    def replaced(self: _Part, **members: object) -> _Part:
        """Return a copy with other values for some members."""
        part = dict.__new__(type(self))
        part.update(self)
        for name, value in members.items():
            part[name] = value
        return part

    def __setitem__(self, name: str, value: _Value) -> None:
        """JSON that is put in becomes parts as well."""
        convert = self._inner.get(name)
        super().__setitem__(name, value if convert is None or value is None else convert(value))


def _make_member(name: str, absent: Mapping[str, object]) -> property:
    if name in absent:
        return property(lambda self: self.get(name, absent[name]))
    return property(itemgetter(name))


def _find_converter(annotation: str) -> Callable[[Any], Any] | None:
    """Return the function that makes the parts of a member from JSON; None if it has no parts."""
    kind = annotation.replace(" | None", "")
    if kind.startswith("list["):
        each = _find_converter(kind[len("list["):-1])
        return None if each is None else partial(_convert_list, each)
    if kind.startswith("dict[str, "):
        each = _find_converter(kind[len("dict[str, "):-1])
        return None if each is None else partial(_convert_dict, each)
    return PARTS[kind].of if kind in PARTS else None


def _convert_list(make: Callable[[object], object], several: Iterable[object]) -> list[object]:
    return [make(item) for item in several]


def _convert_dict(make: Callable[[object], object],
                  named: Mapping[str, object]) -> dict[str, object]:
    # Nodes may be JSON text, of which a server has thousands: see job_totals.Totals.
    return {name: make(item) if isinstance(item, dict) else item for name, item in named.items()}
