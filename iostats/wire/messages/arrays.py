"""Types of numpy arrays, for annotations."""

from typing import Any, Union

import numpy
import numpy.typing

Bools = numpy.typing.NDArray[numpy.bool_]
Integers = numpy.typing.NDArray[numpy.signedinteger[Any]]       # int32, int64; slots and places
Counts = numpy.typing.NDArray[numpy.uint64]
Floats = numpy.typing.NDArray[numpy.floating[Any]]
Bytes = numpy.typing.NDArray[numpy.uint8]
Array = numpy.typing.NDArray[Any]                               # of several of these
Rows = Union[Integers, Bools, slice]                            # what selects some rows of a table


def list_integers(array: Array) -> list[int]:
    """The integers of an array of one dimension; its tolist() has no type."""
    integers: list[int] = array.tolist()
    return integers


def differs(array: Array, value: Union[Array, int, float]) -> Bools:
    """Compare an array with a value or another array, element by element; != has no type."""
    different: Bools = array != value
    return different
