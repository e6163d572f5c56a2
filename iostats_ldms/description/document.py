"""
Parser: a YAML text -> nodes with their line and column.

PyYAML's parser provides events; they are composed here, since its own composer recurses as deeply
as the text, and its loader silently accepts repeated keys.  Scalars stay texts: 0777 stays 0777,
and 1:30 is no number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import yaml

from iostats_ldms.description.problems import Findings, quote

MOST_CHARACTERS = 32 << 20         # of a file: 100,000 daemons, one entry each, are 20 MB
MOST_NODES = 4_000_000             # with each alias counted as all that it stands for
MOST_DEPTH = 40
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = "tag:yaml.org,2002:"
_STANDARD_TAGS = {"!", *(_TAGS + name for name in (
    "str", "int", "float", "bool", "null", "map", "seq", "merge"))}
_NULLS = ("", "~", "null", "Null", "NULL")
# YAML 1.1, section 4.1: what no text may have; what a broken encoding was read as is among it.
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufeff\uff00-\ufffd\U00010000-\U0010ffff]")


class YamlNode:
    """
    A node of the document.

    Attributes:
        kind: scalar, list or mapping.
        line, column: from 1.
        text: of a scalar; None if it is null.
        items: of a list.
        pairs: of a mapping, (key, value) in written order, with repeated keys.
        has_anchors: an alias refers to it or to something in it.
        weight: number of values in it, with aliases expanded.
        is_open: its end has not been parsed yet.
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

    def copy_at(self, line: int, column: int) -> YamlNode:
        """Copy the node to the place of an alias: it may be valid in only one of the places."""
        result = YamlNode(self.kind, line, column, self.text)
        result.items, result.pairs, result.weight = self.items, self.pairs, self.weight
        result.is_open = False
        return result


class InvalidDocument(Exception):
    """The text is not a YAML document; `findings` has the problem."""


def parse_document(text: str, findings: Findings) -> YamlNode:
    """Parse a text to its root node; InvalidDocument."""
    if len(text) > MOST_CHARACTERS:
        _fail(findings, 1, 1, f"expected at most {MOST_CHARACTERS >> 20} MiB, got "
              f"{len(text) >> 20} MiB")
    off = _UNPRINTABLE.search(text)
    if off:
        c = off.group()
        line = text.count("\n", 0, off.start()) + 1
        column = off.start() - text.rfind("\n", 0, off.start())
        kind = "a byte that is not UTF-8" if "\udc80" <= c <= "\udcff" else "a control character"
        _fail(findings, line, column, f"expected printable text in UTF-8, got {kind}, {c!a}")
    try:
        return _compose(yaml.parse(text, Loader=_LOADER), findings)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        _fail(findings, line, column, _explain(error, text, line, column))
    except (yaml.YAMLError, ValueError) as error:      # ValueError: \U with no such character
        _fail(findings, 1, 1, f"expected YAML: {error}")
    raise AssertionError("not reached")


def _fail(findings: Findings, line: int, column: int, text: str) -> None:
    findings.problem(line, column, "", text)
    raise InvalidDocument


def _explain(error: yaml.MarkedYAMLError, text: str, line: int, column: int) -> str:
    lines = text.split("\n", line)
    there = lines[line - 1] if line <= len(lines) else ""
    if "\t" in there[:len(there) - len(there.lstrip())] or there[column - 1:column] == "\t":
        return "expected blanks as indentation, got a tab"
    message = (error.problem or str(error)).strip()
    # libyaml's messages; unexpected ones are shown unchanged.
    if "mapping values are not allowed" in message:
        message += " (is the line indented as those above it?)"
    elif "could not find expected ':'" in message:
        message = "expected ':' after a key"
    elif "expected '-' indicator" in message:
        message = "expected - or the end of the list; is the line indented as those above it?"
    elif "did not find expected key" in message or "<block end>" in message:
        message = "expected a key; is the line indented as those above it?"
    return f"expected YAML: {message}"


def _compose(events: Iterable[yaml.Event], findings: Findings) -> YamlNode:
    anchors: dict[str, YamlNode] = {}
    root: YamlNode | None = None
    stack: list[tuple[YamlNode, list[YamlNode]]] = []       # open nodes, and their members so far
    spent = 0                                               # nodes, and pairs that were merged in
    for event in events:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            if event.tag and event.tag not in _STANDARD_TAGS:
                _fail(findings, line, column, f"expected no tag, got {quote(event.tag)}")
            if isinstance(event, yaml.ScalarEvent):
                node = YamlNode("scalar", line, column, _get_text(event))
            else:
                kind = "list" if isinstance(event, yaml.SequenceStartEvent) else "mapping"
                node = YamlNode(kind, line, column)
            if event.anchor:
                node.has_anchors = True
                anchors[event.anchor] = node
            if isinstance(event, yaml.CollectionStartEvent):
                if len(stack) >= MOST_DEPTH:
                    _fail(findings, line, column, f"expected at most {MOST_DEPTH} levels")
                stack.append((node, []))
                continue
        elif isinstance(event, yaml.AliasEvent):
            anchor = anchors.get(event.anchor)
            if anchor is None:
                _fail(findings, line, column, f"expected an anchor &{event.anchor} above it")
            assert anchor is not None
            if anchor.is_open:
                _fail(findings, line, column, f"*{event.anchor} would be a part of itself")
            node = anchor.copy_at(line, column)
        elif isinstance(event, yaml.CollectionEndEvent):
            node, parts = stack.pop()
            spent += _close_node(node, parts, findings)
        elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
            _fail(findings, line, column, "expected one document, got a second (---)")
            continue
        else:
            continue
        spent += 1
        if max(spent, node.weight) > MOST_NODES:
            _fail(findings, line, column,
                    f"expected at most {MOST_NODES} values; its aliases stand for more")
        if stack:
            stack[-1][1].append(node)
        else:
            root = node
    return root or YamlNode("scalar", 1, 1)


def _get_text(event: yaml.ScalarEvent) -> str | None:
    """Return the text of a scalar; None for a plain or tagged null."""
    if event.tag == _TAGS + "null":
        return None
    return None if event.implicit[0] and not event.tag and event.value in _NULLS else event.value


def _close_node(node: YamlNode, parts: list[YamlNode], findings: Findings) -> int:
    """Put the parts into their node; return the number of pairs merged by `<<`."""
    node.is_open = False
    node.has_anchors = node.has_anchors or any(part.has_anchors for part in parts)
    merged = 0
    if node.kind == "list":
        node.items = parts
        node.weight += sum(part.weight for part in parts)
    else:
        node.pairs = _merge_keys(list(zip(parts[::2], parts[1::2])), findings)
        node.weight += sum(key.weight + value.weight for key, value in node.pairs)
        merged = len(node.pairs) - len(parts) // 2
    return max(0, merged)


def _merge_keys(pairs: list[tuple[YamlNode, YamlNode]],
                findings: Findings) -> list[tuple[YamlNode, YamlNode]]:
    """Apply `<<` (https://yaml.org/type/merge.html); a mapping's own keys win."""
    if not any(key.text == "<<" for key, _ in pairs):
        return pairs
    result = [pair for pair in pairs if pair[0].text != "<<"]
    there = {key.text for key, _ in result}
    for key, value in pairs:
        if key.text != "<<":
            continue
        for source in value.items if value.kind == "list" else [value]:
            if source.kind != "mapping":
                _fail(findings, value.line, value.column,
                        f"expected a mapping after <<, got a {source.kind}")
            for pair in source.pairs:
                if pair[0].text not in there:
                    there.add(pair[0].text)
                    result.append(pair)
    return result
