"""
The levels at which a load is shown: by job, user, compute node, storage server, target ...

LEVELS is the one list of them: `iostats top --by` and its keys, `iostats query`, what the site's
server takes for `load` and `query`, the columns of the tables, the help texts and the documents
read it.  To add a level, add a row.
"""

from __future__ import annotations

import textwrap
from collections import namedtuple

from iostats.base.node_list import expanded
from iostats.base.units import count_text, share_text
from iostats.load.cells import ago, names_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.job_facts import Facts

RATES, TOTALS, GAINS = "rates", "totals", "gains"   # GAINS: it is not known how long it took
BOTH = "totals and rates"

# What a row is added up from: the ids of jobs, all that a target has, or what clients did.
IDS, TARGETS, CLIENTS = "ids", "targets", "clients"
# Over what it is added up.
ONE_TARGET, FILE_SYSTEM, EVERYTHING = "one target", "file system", "everything"

Detail = namedtuple("Detail", "title text least is_in_top", defaults=(None, True))
Detail.__doc__ = """
A column after the numbers; it is left out where no row has anything to show in it.

Attributes:
    title: the heading.
    text: the text of a row's cell, of the row.
    least: characters that it may be narrowed to; None for a number, which is never cut.
    is_in_top: False for a column that `query` alone has.
"""

Query = namedtuple("Query", "letter word kind help has_details has_targets",
                   defaults=(False, False))
Query.__doc__ = """
What `iostats query` shows at a level.

Attributes:
    letter, word: either of them asks for it.
    kind: TOTALS, RATES (of the last sweep) or BOTH.
    help: what it prints.
    has_details: each row has all its counters, and notes on what may be missing (of jobs alone).
    has_targets: the part of each target's requests that came under ids of no job is shown as well.
"""


class Level(namedtuple(
        "Level", "name title words rows_of over group key option help member split details "
                 "needs_batch_system is_in_top queries client_group least",
        defaults=("", "", "", "", None, (), False, True, (), None, 8))):
    """
    One level.

    Attributes:
        name: in the params of `load`.
        title: the heading of its column.
        words: what stands after "by", in the title of a table and in `top --help`.
        rows_of: IDS, TARGETS or CLIENTS.
        over: ONE_TARGET, FILE_SYSTEM or EVERYTHING.
        group: the name of the row to which something belongs; None where that is not known.  With
            IDS of (job, its Facts or None), with TARGETS of (file system, target, storage server);
            None with CLIENTS.
        key: that chooses it in a live `top`; "" for none.
        option: as in `top --by`, where it is not `name`; that stays accepted.
        help: what `top --help` says of it in brackets.
        member: of a row in JSON, that has the row's name, where that is not `name`.
        split: where a group stands for several rows, which have equal parts of it: group -> [name].
        details: [Detail].
        needs_batch_system: it cannot be made from job_stats alone.
        is_in_top: False for one of `query` alone.
        queries: [Query].
        client_group: the name of the row to which a client belongs, of (NID, node).  With IDS: file
            systems of which clients are known are shown by them; None where that says nothing.
        least: characters that the names of its rows may be narrowed to.
    """

    __slots__ = ()

    @property
    def row_member(self) -> str:
        """The member of a row, in JSON, that has the row's name."""
        return str(self.member or self.name)

    @property
    def option_name(self) -> str:
        """What `top --by` calls it."""
        return str(self.option or self.name)

    @property
    def is_of_jobs(self) -> bool:
        """True where each row is one job, or an id of no job."""
        return self.row_member == "job"


_JOBS = Detail("JOBS", lambda row: count_text(row["jobs"]))
_TARGETS = Detail("TARGETS", lambda row: count_text(row["targets"]))
_STORAGE_SERVER = Detail("OSS/MDS", lambda row: row["server"], 6)
_JOBS_ON_IT = Detail("JOB", lambda row: names_text(row["job_names"]), 8)
_USERS_ON_IT = Detail("USER", lambda row: names_text(row["users"]), 6)
_NO_JOB = Detail("NO JOB", lambda row: share_text(row["no_job_share"]))
_SWEPT = Detail("SWEPT", lambda row: ago(row.get("age_s")))
_OF_JOBS = (Detail("USER", lambda row: row["user"] if row["is_job"] else "(no job)", 8),
            Detail("ACCOUNT", lambda row: row["account"], 6, is_in_top=False),
            Detail("NAME", lambda row: row["name"], 6),
            Detail("NODES", lambda row: count_text(row["nodes"])), _SWEPT)


def _job(job: str, facts: Facts | None) -> str:
    return job


def nodes_of(text: str, most: int = 100_000) -> list[str]:
    """[node] of a node list, the first of them; [] where it is none, or cannot be read."""
    try:
        return expanded(text)[:most]
    except ValueError:
        return []


def _each_node(text: str) -> list[str | None]:
    return [*nodes_of(text)] or [None]


LEVELS = (
    Level("job", "JOB", "job", IDS, FILE_SYSTEM, _job, "j", details=_OF_JOBS, queries=(
        Query("b", "jobs", TOTALS, "totals of each job on each file system", has_details=True),
        Query("c", "rates", RATES, "rates of each job on each file system, of the last sweep"))),
    Level("user", "USER", "user", IDS, FILE_SYSTEM,
          lambda job, facts: facts.user or None if facts else None, "u", details=(_JOBS,),
          needs_batch_system=True),
    Level("node", "NODE", "compute node", IDS, FILE_SYSTEM,
          lambda job, facts: facts.nodes if facts else "", "n",
          help="compute nodes: what the servers count by client; where they do not, each of a "
               "job's nodes has an equal part of its load: ~",
          split=_each_node, details=(_JOBS, _JOBS_ON_IT, _USERS_ON_IT), needs_batch_system=True,
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
    Level("job-target", "JOB", "job and target", IDS, ONE_TARGET, _job, member="job",
          details=_OF_JOBS, is_in_top=False, queries=(
              Query("a", "targets", TOTALS, "totals of each job on each target",
                    has_details=True, has_targets=True),)),
    Level("job-summed", "JOB", "job, file systems together", IDS, EVERYTHING, _job, member="job",
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


def named(name: str) -> Level:
    """The Level of this name; KeyError."""
    for level in LEVELS:
        if level.name == name:
            return level
    raise KeyError(name)


def query_of(word: str) -> tuple[Level, Query]:
    """The Level and the Query of a letter or a word; KeyError."""
    for level in LEVELS:
        for query in level.queries:
            if word in (query.letter, query.word):
                return level, query
    raise KeyError(word)


# -- for help texts and documents --------------------------------------------------------------

def by_help(indent: int, width: int = 79) -> str:
    """
    The levels of `top --by` as its help has them, with the lines after the first one indented.
    """
    texts = [level.option_name + (f" ({level.help})" if level.help else "") for level in OF_TOP]
    lines = textwrap.wrap(", ".join(texts[:-1]) + f" or {texts[-1]} (default: {OF_TOP[0].name})",
                          width - indent, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def keys_help(indent: int, width: int = 79) -> str:
    """The keys of a live `top`, and what they choose: as `by_help`, with the keys in front."""
    having = [level for level in OF_TOP if level.key]
    lines = textwrap.wrap(f"by {', '.join(level.words for level in having)}", width - indent)
    keys = " ".join(level.key for level in having)
    return f"{keys:<{indent - 2}}" + f"\n{' ' * indent}".join(lines)


def with_targets() -> str:
    """The letters of `query` that show each target as well: "a and e"."""
    return " and ".join(query.letter for query in QUERIES if query.has_targets)


def query_help() -> str:
    """The levels of `query` as its help has them: a line for each."""
    return "\n".join(f"  {query.letter}  {query.word:<18} {query.help}" for query in QUERIES)
