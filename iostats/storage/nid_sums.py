"""Amounts of clients, added up over the targets of a storage server."""

from __future__ import annotations

from array import array
from operator import add

from iostats.lustre.exports import ClientAmounts
from iostats.wire.messages.clients_encoder import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS = len(ClientAmounts._fields)


class NidSums:
    """
    The I/O of clients, added up over targets: five integers for each NID.

    Attributes:
        rows: {nid: its place}.
        amounts: ClientAmounts of the places, one after the other.
        news: places whose numbers have changed, or that are new, since it was emptied.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.amounts, self.news = array("Q"), set[int]()

    def of(self, row: int) -> list[int]:
        """Return the ClientAmounts of a row."""
        return self.amounts[row * FIELDS:row * FIELDS + FIELDS].tolist()

    def add(self, nid: str, amounts: Sequence[int]) -> None:
        """Add the I/O of a client."""
        row = self.rows.get(nid)
        if row is None:
            row = self.rows[nid] = len(self.rows)
            self.amounts.extend([0] * FIELDS)
            self.news.add(row)
        if any(amounts):
            self.news.add(row)
            at = row * FIELDS
            total = [*map(add, self.amounts[at:at + FIELDS], amounts)]
            if max(total) > LARGEST:
                total = [min(amount, LARGEST) for amount in total]
            self.amounts[at:at + FIELDS] = array("Q", total)


def make_array(code: str, data: memoryview, length: int) -> array[int]:
    """Return the array of the stored bytes; ValueError if it has another length."""
    numbers: array[int] = array(code)
    numbers.frombytes(data)
    if len(numbers) != length:
        raise ValueError(f"expected {length} numbers, got {len(numbers)}")
    return numbers
