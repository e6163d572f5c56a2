"""
The levels at which a load is shown: by job, user, compute node, storage server, target ...

LEVELS is the only list of them: `iostats top --by` and its keys, `iostats query`, the params of
`load` and `query` at the site's server, the columns of the tables, the help texts and the documents
read it.  To add a level, add a row.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.node_list import expand_node_list
from iostats.base.units import describe_duration, format_count, format_share
from iostats.load.answer import get_names
from iostats.lustre.nids import find_lnet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iostats.base.ids import Nid, NodeName
    from iostats.base.job_facts import Facts
    from iostats.load.answer import Row

_NAMELESS = {True: "(not known)", False: "(no job)"}


def get_name(row: Row, member: str, labels: Mapping[str, str]) -> str:
    """The row's name, by its `member`: "job", "user", "file_system" ..."""
    name = get_names(row)[member]
    if member == "file_system":
        return get_label(name or "", labels)
    if name is None:
        return _NAMELESS[row["is_job"]]
    return name or ("(empty)" if member == "job" else "(not known)")


def get_label(file_system: str, labels: Mapping[str, str]) -> str:
    """The site's name for a file system, or its own."""
    return sanitize(labels.get(file_system, file_system)) or "-"


def format_age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{describe_duration(seconds)} ago"


def join_names(names: Sequence[str] | None, limit: int = 3) -> str:
    """
    Up to `limit` names, and the number of the others.

    >>> join_names(["4711", "4713", "4715", "4717", "4719"])
    '4711 4713 4715 +2'
    """
    if not names:
        return "-"
    more = len(names) - limit
    return " ".join(names[:limit]) + (f" +{more}" if more > 0 else "")


RATES, TOTALS, GAINS = "rates", "totals", "gains"   # GAINS: it is not known how long it took
BOTH = "totals and rates"

# What a row is added up from: the ids of jobs, all that a target has, or what clients did.
IDS, TARGETS, CLIENTS = "ids", "targets", "clients"
# Over what it is added up.
ONE_TARGET, FILE_SYSTEM, EVERYTHING = "one target", "file system", "everything"


class Detail(NamedTuple):
    """A column after the numbers; omitted if it is empty in all rows."""

    title: str                  # the heading
    text: Callable[[Row], str]  # the text of a row's cell, of the row
    # characters that it may be narrowed to; None for a number, which is never cut
    least: int | None = None
    is_in_top: bool = True      # False for a column that `query` alone has


class Query(NamedTuple):
    """The `iostats query` of a level."""

    # letter, word: either of them asks for it
    letter: str
    word: str
    kind: str   # TOTALS, RATES (of the last sweep) or BOTH
    help: str   # what it prints
    # each row has all its counters, and notes on what may be missing (of jobs alone)
    has_details: bool = False
    # the part of each target's requests that came under ids of no job is shown as well
    has_targets: bool = False


class Level(NamedTuple):
    """A level of `top` and `query`: by job, user, node, target ..., with its names and texts."""

    name: str               # in the params of `load`
    title: str              # the heading of its column
    words: str              # what stands after "by", in the title of a table and in `top --help`
    rows_of: str            # IDS, TARGETS or CLIENTS
    over: str               # ONE_TARGET, FILE_SYSTEM or EVERYTHING
    # the name of the row to which something belongs; None if unknown.  With IDS of
    # (job, its Facts or None), with TARGETS of (file system, target, storage server); None with
    # CLIENTS.
    group: Callable[..., str | None] | None
    key: str = ""           # that chooses it in a live `top`; "" for none
    option: str = ""        # as in `top --by`, where it is not `name`; that stays accepted
    help: str = ""          # what `top --help` says of it in brackets
    member: str = ""        # of a row in JSON, that has the row's name, where that is not `name`
    # where a group stands for several rows, which have equal parts of it: group -> [name]
    split: Callable[[str | None], list[str | None]] | None = None
    details: tuple[Detail, ...] = ()
    needs_batch_system: bool = False  # it cannot be made from job_stats alone
    is_in_top: bool = True  # False for one of `query` alone
    has_idle_rows: bool = False  # of clients: a row without I/O is shown, too
    queries: tuple[Query, ...] = ()
    # the name of the row to which a client belongs, of (NID, node).  With IDS: file systems of
    # which clients are known are shown by them; None where that says nothing.
    client_group: Callable[[Nid, NodeName], str] | None = None
    least: int = 8          # characters that the names of its rows may be narrowed to

    @property
    def row_member(self) -> str:
        """The member of a row, in JSON, that has the row's name."""
        return str(self.member or self.name)

    @property
    def option_name(self) -> str:
        """The level's name in `top --by`."""
        return str(self.option or self.name)

    @property
    def is_of_jobs(self) -> bool:
        """True if each row is one job, or an id of no job."""
        return self.row_member == "job"


_JOBS = Detail("JOBS", lambda row: format_count(row["jobs"]))
_TARGETS = Detail("TARGETS", lambda row: format_count(row["targets"]))
_STORAGE_SERVER = Detail("OSS/MDS", lambda row: row["server"], 6)
_JOBS_ON_IT = Detail("JOB", lambda row: join_names(row["job_names"]), 8)
_USERS_ON_IT = Detail("USER", lambda row: join_names(row["users"]), 6)
_NO_JOB = Detail("NO JOB", lambda row: format_share(row["no_job_share"]))
_SWEPT = Detail("SWEPT", lambda row: format_age(row.get("age_s")))
_OF_JOBS = (Detail("USER", lambda row: row["user"] or "" if row["is_job"] else "(no job)", 8),
            Detail("ACCOUNT", lambda row: row["account"], 6, is_in_top=False),
            Detail("NAME", lambda row: row["name"], 6),
            Detail("NODES", lambda row: format_count(row["nodes"])), _SWEPT)


# What the storage servers report of it; a local `top` has none.
_OF_LNET = (Detail("SENT/S", lambda row: _format_rate(row.get("lnet_sent_per_s"))),
            Detail("RECV/S", lambda row: _format_rate(row.get("lnet_received_per_s"))),
            Detail("DROPPED/S", lambda row: _format_rate(row.get("lnet_dropped_per_s"))),
            Detail("RESENT/S", lambda row: _format_rate(row.get("lnet_resent_per_s"))),
            Detail("WAITING", lambda row: format_count(row.get("lnet_waiting"))),
            Detail("CREDITS MIN", lambda row: format_count(row.get("lnet_lowest"))))


def _format_rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:,.1f}"


def _format_job(job: str, facts: Facts | None) -> str:
    return job


def expand_nodes(text: str, limit: int = 100_000) -> list[str]:
    """Return [node] of a node list, the first of them; [] where it is none, or cannot be read."""
    try:
        return expand_node_list(text)[:limit]
    except ValueError:
        return []


def _expand_or_all(text: str | None) -> list[str | None]:
    return [*expand_nodes(text or "")] or [None]


LEVELS = (
    Level("job", "JOB", "job", IDS, FILE_SYSTEM, _format_job, "j", details=_OF_JOBS, queries=(
        Query("b", "jobs", TOTALS, "totals of each job on each file system", has_details=True),
        Query("c", "rates", RATES, "rates of each job on each file system, of the last sweep"))),
    Level("user", "USER", "user", IDS, FILE_SYSTEM,
          lambda job, facts: facts.user or None if facts else None, "u", details=(_JOBS,),
          needs_batch_system=True),
    Level("node", "NODE", "compute node", IDS, FILE_SYSTEM,
          lambda job, facts: facts.nodes if facts else "", "n",
          help="compute nodes: what the servers count by client; where they do not, each of a "
               "job's nodes has an equal part of its load: ~",
          split=_expand_or_all, details=(_JOBS, _JOBS_ON_IT, _USERS_ON_IT), needs_batch_system=True,
          client_group=lambda nid, node: node, least=20),
    Level("server", "OSS/MDS", "storage server", TARGETS, FILE_SYSTEM,
          lambda file_system, target, server: server, "s", option="storage-server",
          details=(_TARGETS, _JOBS, _NO_JOB, _SWEPT)),
    Level("target", "TARGET", "target", TARGETS, ONE_TARGET,
          lambda file_system, target, server: target, "t",
          details=(_STORAGE_SERVER, _JOBS, _NO_JOB, _SWEPT)),
    Level("fs", "FS", "file system", TARGETS, FILE_SYSTEM,
          lambda file_system, target, server: file_system, "F", member="file_system",
          details=(_TARGETS, _JOBS, _NO_JOB, _SWEPT), queries=(
              Query("e", "file-systems", BOTH, "totals and rates of each file system",
                    has_targets=True),)),
    Level("lnet", "LNET", "LNet network", CLIENTS, FILE_SYSTEM, None, "L",
          help="networks of clients, where storage servers count by client",
          details=(Detail("CLIENTS", lambda row: format_count(row["clients"])), *_OF_LNET),
          has_idle_rows=True,
          client_group=lambda nid, node: find_lnet(nid) or "(not known)"),
    Level("job-target", "JOB", "job and target", IDS, ONE_TARGET, _format_job, member="job",
          details=_OF_JOBS, is_in_top=False, queries=(
              Query("a", "targets", TOTALS, "totals of each job on each target",
                    has_details=True, has_targets=True),)),
    Level("job-summed", "JOB", "job, file systems together", IDS, EVERYTHING, _format_job,
          member="job",
          details=_OF_JOBS, is_in_top=False, queries=(
              Query("d", "rates-summed", RATES, "rates of each job, all file systems together"),)),
    Level("client", "CLIENT", "client", CLIENTS, FILE_SYSTEM, None,
          details=(Detail("NODE", lambda row: "-" if row["node"] == row["client"] else row["node"],
                          8),), is_in_top=False, queries=(
              Query("f", "clients", BOTH, "totals of today, and rates, of each client (NID)"),),
          client_group=lambda nid, node: nid, least=24),
)

OF_TOP = tuple(level for level in LEVELS if level.is_in_top)
QUERIES = tuple(sorted(query for level in LEVELS for query in level.queries))
QUERY_WORDS = (*(query.letter for query in QUERIES), *(query.word for query in QUERIES))


def find_level(name: str) -> Level:
    """The Level of this name; KeyError."""
    for level in LEVELS:
        if level.name == name:
            return level
    raise KeyError(name)


def find_query(word: str) -> tuple[Level, Query]:
    """The Level and the Query of a letter or a word; KeyError."""
    for level in LEVELS:
        for query in level.queries:
            if word in (query.letter, query.word):
                return level, query
    raise KeyError(word)


# -- for help texts and documents --------------------------------------------------------------

def format_levels() -> str:
    """The levels of `top --by` for its help."""
    texts = [level.option_name + (f" ({level.help})" if level.help else "") for level in OF_TOP]
    return ", ".join(texts[:-1]) + f" or {texts[-1]} (default: {OF_TOP[0].name})"


def format_keys_help(indent: int, width: int = 79) -> str:
    """The keys of a live `top` and their levels: lines after the first one are indented."""
    having = [level for level in OF_TOP if level.key]
    lines = textwrap.wrap(f"by {', '.join(level.words for level in having)}", width - indent)
    keys = " ".join(level.key for level in having)
    return f"{keys:<{indent - 2}}" + f"\n{' ' * indent}".join(lines)


def list_target_letters() -> str:
    """The letters of `query` that show each target as well: "a and e"."""
    return " and ".join(query.letter for query in QUERIES if query.has_targets)


def query_help() -> str:
    """The levels of `query` as its help has them: a line for each."""
    return "\n".join(f"  {query.letter}  {query.word:<18} {query.help}" for query in QUERIES)
