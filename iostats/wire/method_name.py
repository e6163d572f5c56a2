"""The name of a method of JSON-RPC, with the type of its answer for the type checker."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    AnswerT = TypeVar("AnswerT")

    class MethodName(str, Generic[AnswerT]):
        """The name of a method, with the type of its answer; at run time str."""
else:
    MethodName = str
