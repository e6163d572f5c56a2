"""
A YAML text as nodes that know where they stand.

PyYAML's parser gives events; they are put together here, since its own composer goes as deep as
the text does, and its loader takes the second of two equal keys without a word.  Nothing is made
of a scalar but its text: 0777 stays 0777, and 1:30 is no number.
"""

from __future__ import annotations

import re

import yaml

from iostats.ldms.description.problems import Findings, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

MOST_CHARACTERS = 32 << 20         # of a file: 100,000 daemons, one entry each, are 20 MB
MOST_NODES = 4_000_000             # with each alias counted as all that it stands for
MOST_DEPTH = 40
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = "tag:yaml.org,2002:"
_STANDARD_TAGS = {"!", *(_TAGS + name for name in (
    "str", "int", "float", "bool", "null", "map", "seq", "merge"))}
_NULLS = ("", "~", "null", "Null", "NULL")
# YAML 1.1, section 4.1: what no text may have; what a broken encoding was read as is among it.
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufeff\uff00-\ufffd\U00010000-\U0010ffff]")


class YamlNode:
    """
    Attributes:
        kind: scalar, list or mapping.
        line, column: from 1.
        text: of a scalar; None where it is null.
        items: of a list.
        pairs: of a mapping, (key, value) in written order, with repeated keys.
        has_anchors: it, or something in it, is referred to by an alias.
        weight: how many values it is, with each alias as all that it stands for.
        is_open: its end is still to come.
    """
    __slots__ = ("column", "has_anchors", "is_open", "items", "kind", "line", "pairs", "text",
                 "weight")

    def __init__(self, kind: str, line: int, column: int, text: str | None = None) -> None:
        self.kind, self.line, self.column, self.text = kind, line, column, text
        # Most are scalars, and a list each would be most of the memory.
        self.items: Sequence[YamlNode] = ()
        self.pairs: Sequence[tuple[YamlNode, YamlNode]] = ()
        self.has_anchors = False
        self.weight = 1
        self.is_open = kind != "scalar"

    def again(self, line: int, column: int) -> YamlNode:
        """The same value where an alias stands: it may be wrong here, and right elsewhere."""
        found = YamlNode(self.kind, line, column, self.text)
        found.items, found.pairs, found.weight = self.items, self.pairs, self.weight
        found.is_open = False
        return found


class NotADocument(Exception):
    """The text is no YAML document; `findings` has the problem."""


def document(text: str, findings: Findings) -> YamlNode:
    """The node of the whole text; NotADocument."""
    if len(text) > MOST_CHARACTERS:
        _refuse(findings, 1, 1, f"expected at most {MOST_CHARACTERS >> 20} MiB, got "
                                f"{len(text) >> 20} MiB")
    off = _UNPRINTABLE.search(text)
    if off:
        c = off.group()
        line = text.count("\n", 0, off.start()) + 1
        column = off.start() - text.rfind("\n", 0, off.start())
        what = "a byte that is not UTF-8" if "\udc80" <= c <= "\udcff" else "a control character"
        _refuse(findings, line, column, f"expected printable text in UTF-8, got {what}, {c!a}")
    try:
        return _composed(yaml.parse(text, Loader=_LOADER), findings)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        _refuse(findings, line, column, _in_words(error, text, line, column))
    except (yaml.YAMLError, ValueError) as error:      # ValueError: \U with no such character
        _refuse(findings, 1, 1, f"expected YAML: {error}")
    raise AssertionError("not reached")


def _refuse(findings: Findings, line: int, column: int, text: str) -> None:
    findings.problem(line, column, "", text)
    raise NotADocument


def _in_words(error: yaml.MarkedYAMLError, text: str, line: int, column: int) -> str:
    lines = text.split("\n", line)
    there = lines[line - 1] if line <= len(lines) else ""
    if "\t" in there[:len(there) - len(there.lstrip())] or there[column - 1:column] == "\t":
        return "expected blanks as indentation, got a tab"
    said = (error.problem or str(error)).strip()
    # The words are libyaml's; where others come, they are shown as they are.
    if "mapping values are not allowed" in said:
        said += " (is the line indented as those above it?)"
    elif "could not find expected ':'" in said:
        said = "expected ':' after a key"
    elif "expected '-' indicator" in said:
        said = "expected - or the end of the list; is the line indented as those above it?"
    elif "did not find expected key" in said or "<block end>" in said:
        said = "expected a key; is the line indented as those above it?"
    return f"expected YAML: {said}"


def _composed(events: Iterable[yaml.Event], findings: Findings) -> YamlNode:
    anchors: dict[str, YamlNode] = {}
    root: YamlNode | None = None
    stack: list[tuple[YamlNode, list[YamlNode]]] = []       # open ones, and what they have so far
    spent = 0                                               # nodes, and pairs that were merged in
    for event in events:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            if event.tag and event.tag not in _STANDARD_TAGS:
                _refuse(findings, line, column, f"expected no tag, got {shown(event.tag)}")
            if isinstance(event, yaml.ScalarEvent):
                node = YamlNode("scalar", line, column, _text_of(event))
            else:
                kind = "list" if isinstance(event, yaml.SequenceStartEvent) else "mapping"
                node = YamlNode(kind, line, column)
            if event.anchor:
                node.has_anchors = True
                anchors[event.anchor] = node
            if isinstance(event, yaml.CollectionStartEvent):
                if len(stack) >= MOST_DEPTH:
                    _refuse(findings, line, column, f"expected at most {MOST_DEPTH} levels")
                stack.append((node, []))
                continue
        elif isinstance(event, yaml.AliasEvent):
            known = anchors.get(event.anchor)
            if known is None:
                _refuse(findings, line, column, f"expected an anchor &{event.anchor} above it")
            assert known is not None
            if known.is_open:
                _refuse(findings, line, column, f"*{event.anchor} would be a part of itself")
            node = known.again(line, column)
        elif isinstance(event, yaml.CollectionEndEvent):
            node, parts = stack.pop()
            spent += _close(node, parts, findings)
        elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
            _refuse(findings, line, column, "expected one document, got a second (---)")
            continue
        else:
            continue
        spent += 1
        if max(spent, node.weight) > MOST_NODES:
            _refuse(findings, line, column,
                    f"expected at most {MOST_NODES} values; its aliases stand for more")
        if stack:
            stack[-1][1].append(node)
        else:
            root = node
    return root or YamlNode("scalar", 1, 1)


def _text_of(event: yaml.ScalarEvent) -> str | None:
    """Null is what YAML says (plain, or tagged so); all else is text."""
    if event.tag == _TAGS + "null":
        return None
    return None if event.implicit[0] and not event.tag and event.value in _NULLS else event.value


def _close(node: YamlNode, parts: list[YamlNode], findings: Findings) -> int:
    """Put the parts into their node; how many pairs were merged in."""
    node.is_open = False
    node.has_anchors = node.has_anchors or any(part.has_anchors for part in parts)
    merged = 0
    if node.kind == "list":
        node.items = parts
        node.weight += sum(part.weight for part in parts)
    else:
        node.pairs = _merged(list(zip(parts[::2], parts[1::2])), findings)
        node.weight += sum(key.weight + value.weight for key, value in node.pairs)
        merged = len(node.pairs) - len(parts) // 2
    return max(0, merged)


def _merged(pairs: list[tuple[YamlNode, YamlNode]],
            findings: Findings) -> list[tuple[YamlNode, YamlNode]]:
    """`pairs` with what `<<` brings (https://yaml.org/type/merge.html); own keys win."""
    if not any(key.text == "<<" for key, _ in pairs):
        return pairs
    found = [pair for pair in pairs if pair[0].text != "<<"]
    there = {key.text for key, _ in found}
    for key, value in pairs:
        if key.text != "<<":
            continue
        for source in value.items if value.kind == "list" else [value]:
            if source.kind != "mapping":
                _refuse(findings, value.line, value.column,
                        f"expected a mapping after <<, got a {source.kind}")
            for pair in source.pairs:
                if pair[0].text not in there:
                    there.add(pair[0].text)
                    found.append(pair)
    return found
