"""The parts of PyYAML that iostats_ldms uses."""

from collections.abc import Iterator
from typing import Optional

class Mark:
    line: int
    column: int

class YAMLError(Exception): ...

class MarkedYAMLError(YAMLError):
    context_mark: Optional[Mark]
    problem: Optional[str]
    problem_mark: Optional[Mark]

class Event:
    start_mark: Mark

class NodeEvent(Event):
    anchor: Optional[str]

class AliasEvent(NodeEvent):
    anchor: str

class ScalarEvent(NodeEvent):
    tag: Optional[str]
    implicit: tuple[bool, bool]
    value: str

class CollectionStartEvent(NodeEvent):
    tag: Optional[str]

class SequenceStartEvent(CollectionStartEvent): ...
class CollectionEndEvent(Event): ...
class DocumentStartEvent(Event): ...
class SafeLoader: ...

def parse(text: str, Loader: type[SafeLoader]) -> Iterator[Event]: ...
