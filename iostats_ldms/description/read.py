"""
Reader: a description's text -> its model; and Maestro's etcd.yaml.

    description = {daemons, [samplers], [aggregators], [plugins], [stores], [iostats],
                   [ldms_release]}

All schema generations are accepted, also mixed: that of Maestro's README (advertise: a list with
`to`; prdcr_listen with `names`), that of Maestro until 2024 (plugins inline in samplers and stores,
stores as a list, `credits`), and today's, which is LDMS' own (ldmsd.parser_util, the man page
ldmsd_yaml_parser). `iostats`, `ldms_release`, `balance` and `capacity` are ours.

etcd.yaml = {cluster, members: [{host, port}]}. Maestro's README repeats `members` for each member;
all are read.  Maestro does not support TLS: the URLs are http.
"""

from __future__ import annotations

from iostats.base.errors import UsageError
from iostats.base.input_files import format_input_name, read_input
from iostats_ldms.description.aggregators import read_aggregators, warn_about_double_collection
from iostats_ldms.description.context import DAEMON, ENDPOINT, Context
from iostats_ldms.description.document import (
    MOST_CHARACTERS,
    InvalidDocument,
    YamlNode,
    parse_document,
)
from iostats_ldms.description.model import Description
from iostats_ldms.description.problems import DescriptionError, Findings, Problem
from iostats_ldms.description.sections import (
    read_agents,
    read_daemons,
    read_plugins,
    read_samplers,
    read_stores,
)
from iostats_ldms.description.values import Value, parse_integer, parse_text, suggest_present
from iostats_ldms.statements.dialect import get_dialect

SECTIONS = ("daemons", "aggregators", "samplers", "plugins", "stores", "iostats",
            "ldms_release")


def read_description(text: str, name: str = "FILE") -> tuple[Description, list[Problem]]:
    """
    Read (Description, warnings) from a text; `name`: of its file, for messages.

    Bytes that are not UTF-8 may be surrogates (errors="surrogateescape"); they are problems with a
    place.  All problems are in one DescriptionError.
    """
    context = Context()
    result = None
    try:
        result = _read_sections(parse_document(text, context.findings), context)
    except InvalidDocument:
        pass
    context.findings.raise_if_any(name)
    assert result is not None
    return result, context.findings.warnings()


def _read_sections(root: YamlNode, context: Context) -> Description:
    whole = Value(root, "", context.findings)
    if whole.is_null:
        whole.problem("expected a mapping with daemons, samplers, aggregators, got nothing")
    sections = whole.pairs("daemons, samplers, aggregators")
    present = {key: value for key, value in sections.items()
               if key in SECTIONS and not value.is_null}
    for key, value in sections.items():
        # What is there for its anchors is used, and x- is Compose's sign for it.
        if key not in SECTIONS and not value.node.has_anchors and not key.startswith(("x-", ".")):
            value.warn_unknown(key, SECTIONS)
    refers = bool(present.keys() & {"samplers", "aggregators", "stores"})
    if whole.node.kind == "mapping" and "daemons" not in present and (
            refers or "iostats" not in present):
        if not context.findings.problem_count:
            whole.problem("expected a section daemons" + ", or iostats" * ("iostats" not in present)
                          + suggest_present("daemons", sections, SECTIONS))
        context.unread.update((DAEMON, ENDPOINT))
    if "daemons" in present:
        read_daemons(present["daemons"], context)
    if "plugins" in present:
        read_plugins(present["plugins"], context)
    else:
        context.instead_of_plugins = suggest_present("plugins", sections, SECTIONS)
    samplers = read_samplers(present["samplers"], context) if "samplers" in present else ()
    aggregators = read_aggregators(present["aggregators"], context) \
        if "aggregators" in present else ()
    stores = read_stores(present["stores"], context) if "stores" in present else ()
    agents = read_agents(present["iostats"], context) if "iostats" in present else ()
    release = _read_release(present["ldms_release"]) if "ldms_release" in present else ""
    collecting = {member for group in aggregators for member in group.members}
    for policy in stores:
        idle = next((member for member in policy.daemons if member not in collecting), None)
        if idle is not None:
            present["stores"].warning(f"{policy.name}: {idle} is not an aggregator, so it stores "
                                      "nothing")
    warn_about_double_collection(aggregators, (*samplers, *aggregators), context)
    return Description(dict(context.daemons), aggregators, samplers, dict(context.plugins), stores,
                       agents, release)


def _read_release(value: Value) -> str:
    release = value.node.text or ""
    try:
        get_dialect(release)
    except UsageError as error:
        value.problem(str(error))
    return release


def read_text(path: str) -> str:
    """
    Read a file, or standard input for "-"; bytes that are not UTF-8 become surrogates.

    Raises UsageError if it cannot be read, DescriptionError if it is too long.
    """
    content = read_input(path, MOST_CHARACTERS, "a description")
    if len(content) > MOST_CHARACTERS:
        raise DescriptionError([Problem(1, 1, "", f"expected at most {MOST_CHARACTERS >> 20} MiB, "
                                        "got more")], format_input_name(path))
    return content.decode("utf-8-sig", "surrogateescape")


def read_file(path: str) -> tuple[Description, list[Problem]]:
    """Read (Description, warnings) from a file; DescriptionError."""
    return read_description(read_text(path), format_input_name(path))


_PORT = 2379                       # etcd's, where none is written


def read_etcd_members(content: str, name: str = "FILE") -> list[str]:
    """Read the URLs of etcd's members, without duplicates, in written order; DescriptionError."""
    findings = Findings()
    result: dict[str, None] = {}
    try:
        root = parse_document(content, findings)
        whole = Value(root, "", findings)
        if root.kind != "mapping":
            whole.problem(f"expected a mapping with members, got {whole.got()}")
        for key, node in root.pairs:
            if key.text != "members":
                continue
            for item in Value(node, key.text, findings).items("members"):
                url = _read_url(item)
                if url:
                    result[url] = None
        if not result and not findings.problem_count and root.kind == "mapping":
            whole.problem("expected members, a list of {host, port}")
    except InvalidDocument:
        pass
    findings.raise_if_any(name)
    return list(result)


def _read_url(value: Value) -> str:
    fields = value.fields(("host",), ("port",))
    host = parse_text(fields.get("host"))
    port = parse_integer(fields.get("port"), 1, 65535) or _PORT
    if not host:
        return ""
    if any(c in host for c in "/@?#[]"):
        fields["host"].problem(f"expected a host name or an address, got {value.got()}")
        return ""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
