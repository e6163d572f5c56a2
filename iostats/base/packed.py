"""Integers in bytes, with a type: struct's own methods return Any."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from struct import Struct


def unpack_integers(form: Struct, data: bytes, at: int = 0) -> tuple[int, ...]:
    """The integers at a place in `data`; struct.error."""
    integers: tuple[int, ...] = form.unpack_from(data, at)
    return integers
