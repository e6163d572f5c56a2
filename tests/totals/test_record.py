"""
docs/reference/record.schema.json and the JSON record: each fits the other, in both directions.

The records are those of whole jobs: of every tree of tests/data, of jobs in parts, with marks, with
`watch`, of nodes that are missing, that may not read, that have no Lustre.
"""

import copy
import json

import jsonschema
import pytest
from test_job_totals import llite, osc, unread
from trees import DATA, ROOT, record_between, snapshot
from trees import report as of_node

from iostats.base.config import Config
from iostats.base.job_facts import ENDED, Facts
from iostats.harvest import harvested_job
from iostats.harvest.clients.history import ClientTotals
from iostats.jobs import batch_facts, by_node, imported, open_jobs
from iostats.node import show, sources
from iostats.report import (
    accounting_comment,
    client_vs_server,
    comment_reader,
    job_tables,
    json_and_csv,
    node_sets,
)
from iostats.store.record_store import Key
from iostats.totals.delta import Delta
from iostats.totals.file_system import FileSystem
from iostats.totals.job_totals import Totals
from iostats.totals.record import Record
from iostats.totals.record_additions import RecordedQuota, RecordedQuotas
from iostats.totals.record_part import SCHEMA
from iostats.wire.messages.report import (
    ReportedEvent,
    ReportedIdle,
    ReportedPhase,
    ReportedSeries,
)

PATH = ROOT / "docs" / "reference" / "record.schema.json"
TEXT = PATH.read_text(encoding="utf-8")
WHOLE = json.loads(TEXT)
VALIDATOR = jsonschema.Draft202012Validator(WHOLE)
TREES = sorted(path.name for path in DATA.glob("lustre-*"))
NODES = frozenset(("nid00001", "nid00002", "nid00003", "nid00004"))


def totals(*reports, expected=None):
    found = Totals("4711", len(reports) if expected is None else expected,
                   fold=node_sets.fold_nodes)
    for one in reports:
        found.add(one)
    return found


def refused():
    found = totals(of_node("nid00001", [llite(open=23)]), expected=NODES)
    found.refuse("not authenticated", "nid00002")
    found.refuse("stale")
    return found


def everything():
    """A node of which all is known, and that was in everybody's way."""
    deltas = [llite(read_bytes=23, read_calls=3, open=5, open_us=500, open_us2=60_000, read=3,
                    read_us=7, opencount=97, cached_read_bytes=11),
              osc("OST0000", read_bytes=13, read_rpcs=2), osc("OST0001"),
              Delta("md_stats", "scratch", "MDT0000", "", {"close": 41, "lock_match": 7}, False,
                    ""),
              Delta("rpc_stats", "scratch", "", "",
                    {"read_rpcs_pages_1": 2, "write_rpcs_pages_256": 3}, False, ""),
              Delta("cache", "scratch", "", "", {"hits": 19}, False, "")]
    return of_node("nid00001", deltas, elapsed_s=60.0, other_jobs=3, mounts={
        "scratch": ["/scratch", "/work"]}, dirty_bytes={"scratch": 4096}, clock_ahead_s=3600.0,
                   phases=[ReportedPhase("(before solve)", 20.0, [llite(open=2)]),
                           ReportedPhase("solve", 40.0, [llite(open=3, open_us=300)])],
        series={"scratch": ReportedSeries(1_795_225_000.0, 60.0, [11, 12], [0, 0], [2, 3])},
        idle={"scratch": ReportedIdle(600.0, {"open": 20, "getattr": 290})},
        events=[ReportedEvent(
            id="00c0ffee00c0ffee", time=1_795_225_023.5, over=1_795_225_041.25, severity=2,
            kind="evicted", file_system="scratch", target="scratch-OST0003", message="evicted")],
        events_dropped=37, lnet=[2300, 3700, 29, 41_000, 53_000, 7, 2])


def at_servers():
    """What the storage servers counted, on one of two file systems."""
    fs = FileSystem()
    for target, values in (("OST0000", {"read_bytes": 13, "read_rpcs": 2, "read": 2,
                                        "read_us": 29, "write_us": 31, "write": 3}),
                           ("MDT0000", {"open": 5, "open_us": 500})):
        fs.add(Delta("job_stats", "scratch", target, "", values, True, "no sweep", True), target,
               {}, {})
    return harvested_job.HarvestedJob(True, ["4733"], 1_795_225_000.0, 1_795_225_060.0,
                                      {"scratch": fs}, {("home", "no sweep"): {"OST0003"}})


AT_EDGES = {("scratch", "10.77.0.11@tcp"): ClientTotals([23] * 6, [37] * 6, False, [])}


class OfASite:
    """The record that a site's server makes of everything: with what the batch system says."""

    def record(self):
        about = open_jobs.AboutJob("slurm", "sim", 1, "nid00001", 1001, "alice", "physics", "main")
        facts = Facts("4711_10", "4733", "4711", "10", user="alice", state=ENDED, restarts=1,
                      outcome="FAILED", exit_status=37, exit_signal=0, tasks=23, cpus=184)
        record = batch_facts.add_facts_to_record(totals(everything()).record(),
                                                 Key("sim", "4733", 1), about,
                                     facts)
        record = {**record, "by_node": by_node.make_part_with_numbers(
            "listed", by_node.make_window(1_795_225_000.0, 1_795_225_060.0, 1.0, 0.0, 0.5),
            AT_EDGES, AT_EDGES, AT_EDGES, {"10.77.0.11@tcp"}, "", "", ())}
        record["file_systems"][0]["slow_nodes"] = (
            JOBS["a slow node"].record().file_systems[0].slow_nodes)
        # No record has both: this one has all members.
        record["imported"] = Imported().record()["imported"]
        record["quotas"] = RecordedQuotas(
            percent=90, read_at={"scratch": 1_795_225_023.0}, nearly_used=[RecordedQuota(
                file_system="scratch", pool="", kind="user", name="alice", resource="inodes",
                granted=3977, soft=0, hard=4100)])
        return {**record, "harvest": client_vs_server.compare_sides(
            record, harvested_job.as_record(at_servers(), node_sets.fold_nodes),
            {("scratch", "OST0000")})}


class Imported:
    """The record that `iostats import` makes of points of which one is lower than before."""

    def record(self):
        jobs = {}
        imported.read_points(
            [f"lustre,fs=scratch,job=4711,server={server} read_bytes={count}i,write_bytes=37i,"
             f"iops=41i 17000000{count}" for server in ("oss", "mds") for count in (29, 23)],
            "points", jobs)
        jobs["4711"].add(1_700_000_031.0, ("scratch", "ost", "iops"), 7)
        return imported.make_record(jobs["4711"], Key("", "4711", 0), open_jobs.AboutJob(), None,
                                    Config())


class Short:
    """A record that was made from the short form."""

    def record(self):
        short = accounting_comment.encode(totals(everything()).record())
        return comment_reader.make_record(comment_reader.decode(short))


JOBS = {
    "nobody has reported": totals(expected=4),
    "nobody knows how many": Totals("4711"),
    "a node without Lustre": totals(of_node("nid00001")),
    "nothing done": totals(of_node("nid00001", [llite(), osc()])),
    "everything": OfASite(),
    "everything of its own server": totals(everything()),
    "the short form": Short(),
    "imported from another tool": Imported(),
    "missing nodes": totals(of_node("nid00001", [llite(open=23)]),
                            of_node("nid00002", reason="no start"), expected=NODES),
    "refused messages": refused(),
    "nothing is readable": totals(of_node("nid00001", [
        unread("llite"), unread("osc", target="OST0000"), unread("mdc", target="MDT0000")])),
    "an ordinary user": totals(of_node("nid00001", [
        unread("llite"), unread("osc", target="OST0000"),
        Delta("md_stats", "scratch", "MDT0000", "", {"close": 41}, False, ""),
        Delta("rpc_stats", "scratch", "", "", {"read_rpcs_pages_1": 2}, False, "")])),
    "a node of no seconds": totals(of_node("nid00001", [
        Delta("md_stats", "scratch", "MDT0000", "", {"close": 41}, False, "")], elapsed_s=0.0)),
    "two parts": totals(of_node("nid00001", [llite(open=23)], ended=1060.0, seq="one"),
                        of_node("nid00001", [llite(open=37)], ended=1120.0, seq="two"), expected=1),
    "a part without numbers": totals(
        of_node("nid00001", [llite(open=23)]),
        of_node("nid00001", reason="the start snapshot is damaged", seq="two"), expected=1),
    "a part that could not be read": totals(of_node("nid00001", [llite(open=23)], phases=[
        ReportedPhase("solve", 60.0, [unread("llite")])])),
    "rates of no time": totals(of_node("nid00001", [llite(open=23)], series={
        "scratch": ReportedSeries(1_795_225_000.0, 60.0, [], [], [])})),
    "a slow node": totals(*(of_node(f"nid{n}", [llite(
        write_bytes=4096, write_calls=1, write=1, write_us=41_000_000 if n == 2 else 1_000_000)])
        for n in range(4))),
    "larger than 64 bits": totals(*(of_node(f"nid{n}", [llite(write_bytes=2**63 - 1)])
                                    for n in range(3))),
}


def written(found):
    """The record as `--json` writes it and a reader reads it."""
    config = Config()
    return json.loads(json_and_csv.format_json(job_tables.add_findings(
        job_tables.add_labels(found.record(), config), config)))


def test_the_schema_is_a_schema():
    """JSON Schema, Draft 2020-12, of the release of the record that the code writes."""
    assert "https://json-schema.org/draft/2020-12/schema" == WHOLE["$schema"]
    jsonschema.Draft202012Validator.check_schema(WHOLE)
    assert SCHEMA == WHOLE["properties"]["schema"]["const"]


@pytest.mark.parametrize("found", list(JOBS.values()), ids=list(JOBS))
def test_the_record_of_a_job_is_of_the_schema(found):
    """Whatever became of the job."""
    VALIDATOR.validate(written(found))


@pytest.mark.parametrize("tree", TREES)
def test_the_record_of_every_release_is_of_the_schema(tree):
    """Each tree that we keep, and what its node has counted since it began."""
    VALIDATOR.validate(record_between(DATA / tree / "before", DATA / tree / "after"))
    after, known = DATA / tree / "after", sources.read_at("start")
    VALIDATOR.validate(show.make_record(snapshot(after), known, str(after)))


# -- what is no record ---------------------------------------------------------------------------


def at(record, path):
    for step in path[:-1]:
        record = record[step]
    return record


FS = ("file_systems", 0)
WRONG = {
    "schema 2": (("schema",), 2), "a schema as text": (("schema",), "1"),
    "a job without a name": (("job", "id"), ""), "a job that is a number": (("job", "id"), 4711),
    "an attempt that is unknown by its name": (("job", "attempt"), "0"),
    "a batch system of no name": (("batch", "system"), None),
    "an exit status below zero": (("batch", "exit_status"), -1),
    "neither short nor long": (("short",), None),
    "less than no time": (("job", "elapsed_s"), -1.0),
    "no nodes expected": (("coverage", "expected"), 0),
    "less than no nodes": (("coverage", "reported"), -1),
    "a node that shares with nobody": (("coverage", "shared", "nid00001"), 0),
    "a reason that is a number": (("coverage", "missing"), {"nid00002": 23}),
    "refused, but not once": (("coverage", "refused"), {"stale": 0}),
    "less than no bytes": ((*FS, "application", "read_bytes"), -1),
    "unknown bytes of a readable layer": ((*FS, "application", "read_bytes"), None),
    "half a byte": ((*FS, "application", "read_bytes"), 0.5),
    "bytes as text": ((*FS, "application", "read_bytes"), "23"),
    "unknown RPCs of a readable layer": ((*FS, "network", "read_rpcs"), None),
    "a lower bound that is a number": ((*FS, "application", "lower_bound"), 1),
    "an operation as a number": ((*FS, "operations", "open"), 5),
    "less than no seconds": ((*FS, "operations", "open", "seconds"), -0.1),
    "a spread below zero": ((*FS, "operations", "open", "stddev_s"), -0.1),
    "more than all": ((*FS, "balance", "busiest_share"), 1.1),
    "bins of no width": ((*FS, "series", "every_s"), 0),
    "rates of no nodes": ((*FS, "series", "nodes"), 0),
    "an unknown amount": ((*FS, "series", "operations"), [23, None]),
    "a part of no nodes": (("phases", 0, "nodes"), 0),
    "phases that are unknown": (("phases",), None),
    "mounts that are no list": ((*FS, "mounts"), "/scratch"),
    "unknown metadata": ((*FS, "metadata"), None),
    "a peak of nobody": ((*FS, "metadata", "MDT0000", "peak"), {"per_second": 3.0}),
    "a number of a node that is unknown":
        (("nodes", "nid00001", "file_systems", "scratch", "open"), None),
}


@pytest.mark.parametrize("path, value", list(WRONG.values()), ids=list(WRONG))
def test_a_record_that_was_altered_is_none(path, value):
    """One value at a time; as it was written it is one."""
    record = written(JOBS["everything"])
    VALIDATOR.validate(record)
    at(record, path)[path[-1]] = value
    assert not VALIDATOR.is_valid(record)


def members(schema=WHOLE, where=()):
    """[(path in the record, its schema)] of every member that the schema names."""
    schema = resolved(schema)
    for name, inner in schema.get("properties", {}).items():
        yield (*where, name), resolved(inner)
        yield from members(inner, (*where, name))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from members(schema["additionalProperties"], (*where, "*"))
    if "items" in schema:
        yield from members(schema["items"], (*where, "*"))


def resolved(schema):
    """`schema` with what it refers to; its own words count before those."""
    for inner in (schema, *schema.get("anyOf", ())):
        if "$ref" in inner:
            there = WHOLE["$defs"][inner["$ref"].rpartition("/")[2]]
            return {**there, **{name: value for name, value in schema.items() if name != "anyOf"}}
    return schema


def paths_of(value, schema=WHOLE, where=()):
    """Paths of all members of a record; names that are data are "*", as the schema has them."""
    schema = resolved(schema)
    if isinstance(value, dict):
        for name, inner in value.items():
            named = schema.get("properties", {}).get(name)
            step = (*where, name if named is not None or not isinstance(
                schema.get("additionalProperties"), dict) else "*")
            if step[-1] != "*":
                yield step
            yield from paths_of(inner, named or schema.get("additionalProperties", {}), step)
    elif isinstance(value, list):
        for inner in value:
            yield from paths_of(inner, schema.get("items", {}), (*where, "*"))


NAMED = {path for path, _ in members()}


def all_written():
    """Paths of all members of all records."""
    return {path for found in JOBS.values() for path in paths_of(written(found))}


def test_every_member_that_is_written_is_in_the_schema():
    """A name that nobody finds in the schema is no interface."""
    assert set() == all_written() - NAMED


def test_the_batch_systems_tasks_and_cpus_are_in_the_record():
    batch = OfASite().record()["batch"]
    assert (23, 184) == (batch["tasks"], batch["cpus"])


def test_every_member_of_the_schema_is_written():
    """A name that nobody writes is a promise that is not kept."""
    assert set() == NAMED - all_written()


def test_every_member_is_required():
    """What is not known is null, so that a reader never has to ask whether a member is there."""
    def loose(schema):
        schema = resolved(schema)
        names = set(schema.get("properties", ()))
        yield from names ^ set(schema.get("required", names))
        for inner in (*schema.get("properties", {}).values(), schema.get("items", {}),
                      schema.get("additionalProperties", {})):
            if isinstance(inner, dict) and inner:
                yield from loose(inner)
    assert [] == list(loose(WHOLE))


@pytest.mark.parametrize("path", sorted(path for path in NAMED if "*" not in path[-1:]),
                         ids=".".join)
def test_a_member_that_is_missing_makes_it_no_record(path):
    """Each one; of lists and of tables by name, in the first that has it."""
    record = written(JOBS["everything"])
    inner = record
    for step in path[:-1]:
        if step == "*":
            inner = next(iter(inner.values() if isinstance(inner, dict) else inner))
        else:
            inner = inner[step]
    del inner[path[-1]]
    assert not VALIDATOR.is_valid(record)


def test_new_members_may_be_added_within_schema_1():
    """A reader ignores those that it does not know."""
    record = written(JOBS["everything"])
    for inner in (record, record["job"], record["coverage"], record["file_systems"][0],
                  record["file_systems"][0]["application"], record["file_systems"][0]["series"]):
        inner["of a later release"] = 23
    VALIDATOR.validate(record)


# Plain from the name, which has the unit: `_bytes`, `_s` seconds, `_calls`, `_rpcs`; a bare name is
# a count.
PLAIN = {
    "schema", "id", "user", "elapsed_s", "reported", "name", "node", "nodes", "notes", "job",
    "coverage", "file_systems", "lower_bound", "label", "per_node", "read_bytes", "write_bytes",
    "read_calls", "write_calls", "read_rpcs", "write_rpcs", "read", "write", "operations", "count",
    "requests", "per_second", "per_second_per_node", "peak", "min", "median", "max", "osts", "used",
    "busiest", "busiest_share",
}


def test_every_member_is_described_or_plain_from_its_name():
    """A list to look at when a member is added: does its name say all, with its unit?"""
    assert set() == {".".join(path) for path, schema in members()
                     if "description" not in schema and path[-1] not in PLAIN}


def test_the_schemas_descriptions_say_what_null_means():
    """Wherever it may be."""
    silent = [".".join(path) for path, schema in members()
              if "null" in schema.get("type", ()) and "description" not in schema]
    assert [] == silent


def test_the_schema_file_is_as_json_writes_it():
    """So that a change of one line is a change of one line."""
    assert json.dumps(WHOLE, indent=2, ensure_ascii=False) + "\n" == TEXT


def test_validation_does_not_alter_what_it_looks_at():
    """These tests share their records."""
    record = written(JOBS["everything"])
    kept = copy.deepcopy(record)
    VALIDATOR.validate(record)
    assert kept == record


# -- the typed value -----------------------------------------------------------------------------

@pytest.mark.parametrize("found", list(JOBS.values()), ids=list(JOBS))
def test_what_was_stored_comes_back_to_the_last_byte(found):
    """As attributes, in all levels; the JSON object that it was made from is left as it was."""
    stored = written(found)
    kept = json.dumps(stored)
    record = Record.of(stored)
    assert kept == json.dumps(record) == json.dumps(stored)
    assert record.job.id.startswith("4711")
    assert record.coverage.reported >= len(record.nodes)
    for fs in record.file_systems:
        assert fs.application is None or fs.application.read_bytes >= 0
        assert all(row.count >= 0 for row in (fs.operations or {}).values())
    assert record.harvest is None or record.harvest.file_systems[0].name == "scratch"
    assert {type(one) for one in (stored, stored["job"], *stored["file_systems"])} == {dict}


def test_a_typed_value_is_the_same_as_its_json():
    """Each release reads what another one has written."""
    record = JOBS["everything of its own server"].record()
    assert isinstance(record, Record)
    assert Record.of(record) is record
    assert Record.of(json.loads(json.dumps(record))) == record


def test_members_that_an_older_release_did_not_write_have_defaults():
    """And members of a later one stay where they are."""
    stored = {**written(JOBS["everything"]), "later": 23}
    del stored["harvest"]
    for name in ("too_high", "write_bytes_max"):
        del stored["file_systems"][0][name]
    record = Record.of(stored)
    assert (None, [], None) == (record.harvest, record.file_systems[0].too_high,
                                record.file_systems[0].write_bytes_max)
    assert stored == record


def test_a_value_with_other_members_is_another_value():
    record = JOBS["everything of its own server"].record()
    other = record.replaced(notes=["another"], batch={"outcome": "TIMEOUT"})
    assert ["another"] == other.notes != record.notes
    assert (None, "TIMEOUT") == (record.batch, other.batch.outcome)      # JSON becomes parts
    assert list(record) == list(other)
    with pytest.raises(AttributeError):
        record.notes = []
    with pytest.raises(AttributeError):
        _ = record.no_such_member


def test_the_schema_is_what_the_classes_say():
    """tools/docs.py writes it; this is what it goes by."""
    assert list(Record.__annotations__) == list(WHOLE["properties"])
    assert WHOLE["properties"]["coverage"]["properties"]["expected"] == {
        "type": ["integer", "null"], "minimum": 1,
        "description": "nodes of the job; null when not known"}
