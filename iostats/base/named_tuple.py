"""
NamedTuple: typing's, for modules that run on compute nodes.

Importing typing costs a node's short programs 2 ms, and collections, which has namedtuple, 1.5 ms.
Type checkers see typing.NamedTuple; at run time this one makes a class with the same members from
the annotations.  Modules that no node imports use typing's.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter  # what namedtuple has for a field

    _NO_MEMBERS = ("__annotations__", "__dict__", "__weakref__")

    class _Record(tuple):
        """The methods that all these classes share with namedtuple."""

        __slots__ = ()

        @classmethod
        def _complete(cls, values, named):
            members = dict(zip(cls._fields, values))
            if len(values) > len(cls._fields) or members.keys() & named.keys():
                raise TypeError(f"{cls.__name__}: expected {', '.join(cls._fields)}, got "
                                f"{len(values)} values and {', '.join(named)}")
            members = {**cls._field_defaults, **members, **named}
            if members.keys() != set(cls._fields):
                wrong = members.keys() ^ set(cls._fields)
                raise TypeError(f"{cls.__name__}: missing or unexpected: {', '.join(wrong)}")
            return [members[field] for field in cls._fields]

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"expected {len(cls._fields)} values, got {len(made)}")
            return made

        def _replace(self, **members):
            made = self._make(map(members.pop, self._fields, self))
            if members:
                raise ValueError(f"{type(self).__name__}: unexpected members {list(members)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __repr__(self):
            values = ", ".join(map("%s=%r".__mod__, zip(self._fields, self)))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    def _make_constructor(count):
        new = tuple.__new__

        def __new__(cls, *values, **named):
            if named or len(values) != count:
                values = cls._complete(values, named)
            return new(cls, values)
        return __new__

    class _NamedTupleMeta(type):
        """Makes a class of the annotated fields, with their defaults, methods and docstring."""

        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            members = {key: value for key, value in namespace.items() if key not in _NO_MEMBERS}
            members.update((field, _tuplegetter(place, "")) for place, field in enumerate(fields))
            return type(name, (_Record,), {
                "__new__": _make_constructor(len(fields)), **members,
                "__slots__": (), "_fields": fields, "__match_args__": fields,
                "_field_defaults": defaults})

    class NamedTuple(metaclass=_NamedTupleMeta):
        """The base of records: `class Point(NamedTuple):` with annotated fields."""
