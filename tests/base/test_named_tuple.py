"""
The class for records of compute nodes has the members of typing.NamedTuple.
"""
import copy
import pickle
import typing

import pytest

from iostats.base.named_tuple import NamedTuple


class Ours(NamedTuple):
    """A point."""

    x: int
    y: int = 37

    @property
    def product(self) -> int:
        return self.x * self.y


class Typings(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 37

    @property
    def product(self) -> int:
        return self.x * self.y


@pytest.mark.parametrize("use", [
    lambda kind: kind(23), lambda kind: kind(y=41, x=23).product,
    lambda kind: kind(23)._replace(y=41), lambda kind: kind(23)._asdict(),
    lambda kind: kind._make([23, 41]), lambda kind: kind._fields,
    lambda kind: kind._field_defaults, lambda kind: kind.__doc__,
    lambda kind: getattr(kind, "__match_args__", ("x", "y")),         # typing's has none in 3.9
    lambda kind: pickle.loads(pickle.dumps(kind(23))), lambda kind: copy.copy(kind(23)),
    lambda kind: [*kind(23)], lambda kind: hash(kind(23)), lambda kind: kind(23) == (23, 37),
    lambda kind: repr(kind(23)).partition("(")[2], lambda kind: kind.__name__.lower()[-1],
    lambda kind: (kind.__module__, kind(23).__getnewargs__())])
def test_it_does_what_typings_does(use):
    assert use(Typings) == use(Ours)


@pytest.mark.parametrize("use, error", [
    (lambda kind: kind(), TypeError), (lambda kind: kind(1, 2, 3), TypeError),
    (lambda kind: kind(1, z=3), TypeError), (lambda kind: kind._make([1]), TypeError),
    (lambda kind: kind(1)._replace(z=3), ValueError),
    (lambda kind: setattr(kind(1), "x", 2), AttributeError),
    (lambda kind: setattr(kind(1), "z", 2), AttributeError)])
def test_it_refuses_what_typings_refuses(use, error):
    for kind in (Typings, Ours):
        with pytest.raises(error):
            use(kind)
