"""
A description's text -> its normal form.

    description = {daemons, [samplers], [aggregators], [plugins], [stores], [iostats],
                   [ldms_release]}

All generations of the schema are taken, also mixed: that of Maestro's README (advertise: a list
with `to`; prdcr_listen with `names`), that of Maestro until 2024 (plugins inline in samplers and
stores, stores as a list, `credits`), and today's, which is LDMS' own (ldmsd.parser_util, the man
page ldmsd_yaml_parser).  `iostats`, `ldms_release`, `balance` and `capacity` are ours.
"""

from __future__ import annotations

from iostats.base.errors import UsageError
from iostats.ldms.description.aggregators import read_aggregators
from iostats.ldms.description.collected_twice import warn_of_peers_that_advertise
from iostats.ldms.description.daemons import read_daemons
from iostats.ldms.description.document import NotADocument, document
from iostats.ldms.description.normal import Description
from iostats.ldms.description.plugins import read_plugins
from iostats.ldms.description.problems import Problem
from iostats.ldms.description.reading import DAEMON, ENDPOINT, Draft
from iostats.ldms.description.samplers import read_agents, read_samplers, read_stores
from iostats.ldms.description.values import Value, instead
from iostats.ldms.statements.dialect import of_release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.document import YamlNode

SECTIONS = ("daemons", "aggregators", "samplers", "plugins", "stores", "iostats",
            "ldms_release")


def description(text: str, name: str = "FILE") -> tuple[Description, list[Problem]]:
    """
    (normal form, warnings) of a description; `name`: of its file, for messages.

    `text` may have surrogates where bytes were not UTF-8 (errors="surrogateescape"): they are
    problems with a place.  All problems of the text are in one DescriptionError.
    """
    reading = Draft()
    found = None
    try:
        found = _read(document(text, reading.findings), reading)
    except NotADocument:
        pass
    reading.findings.raise_if_any(name)
    assert found is not None
    return found, reading.findings.warnings()


def _read(root: YamlNode, reading: Draft) -> Description:
    whole = Value(root, "", reading.findings)
    if whole.is_null:
        whole.problem("expected a mapping with daemons, samplers, aggregators, got nothing")
    sections = whole.pairs("daemons, samplers, aggregators")
    present = {key: value for key, value in sections.items()
               if key in SECTIONS and not value.is_null}
    for key, value in sections.items():
        # What is there for its anchors is used, and x- is Compose's sign for it.
        if key not in SECTIONS and not value.node.has_anchors and not key.startswith(("x-", ".")):
            value.unknown(key, SECTIONS)
    refers = bool(present.keys() & {"samplers", "aggregators", "stores"})
    if whole.node.kind == "mapping" and "daemons" not in present and (
            refers or "iostats" not in present):
        if not reading.findings.problem_count:
            whole.problem("expected a section daemons" + ", or iostats" * ("iostats" not in present)
                          + instead("daemons", sections, SECTIONS))
        reading.unread.update((DAEMON, ENDPOINT))
    if "daemons" in present:
        read_daemons(present["daemons"], reading)
    if "plugins" in present:
        read_plugins(present["plugins"], reading)
    else:
        reading.instead_of_plugins = instead("plugins", sections, SECTIONS)
    samplers = read_samplers(present["samplers"], reading) if "samplers" in present else ()
    aggregators = read_aggregators(present["aggregators"], reading) \
        if "aggregators" in present else ()
    stores = read_stores(present["stores"], reading) if "stores" in present else ()
    agents = read_agents(present["iostats"], reading) if "iostats" in present else ()
    release = _release(present["ldms_release"]) if "ldms_release" in present else ""
    collecting = {member for group in aggregators for member in group.members}
    for policy in stores:
        idle = next((member for member in policy.daemons if member not in collecting), None)
        if idle is not None:
            present["stores"].warning(f"{policy.name}: {idle} is no aggregator, and stores nothing")
    warn_of_peers_that_advertise(aggregators, (*samplers, *aggregators), reading)
    return Description(dict(reading.daemons), aggregators, samplers, dict(reading.plugins), stores,
                       agents, release)


def _release(value: Value) -> str:
    release = value.node.text or ""
    try:
        of_release(release)
    except UsageError as error:
        value.problem(str(error))
    return release
