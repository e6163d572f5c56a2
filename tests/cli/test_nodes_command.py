"""
`iostats nodes`, `top --by node` and `query f` against a real site server, which storage servers
have told of their clients.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import events_messages
import pytest
from processes import REPOSITORY, until
from site_desk import SiteDesk
from site_inside import answer_to
from test_munge import NOBODY

from iostats.cli import nodes
from iostats.report import node_list
from iostats.server.rpc_server import Caller
from iostats.wire import client, protocol

ONE, RAIL, OTHER = "10.0.0.1@o2ib", "10.0.0.1@o2ib1", "10.0.0.7@o2ib"
NODE = "nid001"                     # of ONE and RAIL
MIB = 1 << 20
UTC = {"TZ": "UTC"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    A desk whose server has heard two storage servers: NODE has written 23 MiB in 37 requests, 3 of
    them by its second rail, and opened 41 files, OTHER has read 53 kB in 7 requests, the storage
    server itself has written.
    """
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        (desk.directory / "nids").write_text(f"# NID NAME\n{ONE} {NODE}\n{RAIL} {NODE}\n")
        desk.configure(harvest_interval=1, clients_names=desk.directory / "nids")
        desk.server = desk.site()
        report_lnet(desk, "oss1", "scratch-OST0003", 100, {ONE: (23, -31), RAIL: (2, -41)})
        report_lnet(desk, "mds1", "scratch-MDT0000", 10, {ONE: (7, -7)})
        until(lambda: desk.clients("oss1", "scratch", {
            ONE: (0, 20 * MIB, 0, 34, 3, 0), RAIL: (0, 3 * MIB, 0, 3, 0, 0),
            OTHER: (53_000, 0, 7, 0, 0, 0), "0@lo": (0, 61 * MIB, 0, 61, 0, 0)})["taken"],
            what="oss1's sweep")
        desk.clients("mds1", "scratch", {ONE: (0, 0, 0, 0, 0, 41)})
        until(lambda: [0, 41] == [row["mdt_operations"] for row in listed(desk)],
              what="the sweep of mds1")
        yield desk


def report_lnet(desk, node, target, per_s, short_peers):
    """
    Two statuses of a storage server, 60 s apart, which are not late in this test: it sends `per_s`
    messages each second in o2ib, drops one and resends 2.
    """
    def status(seconds):
        counts = {"sent": per_s * seconds, "received": 0, "routed": 0, "dropped": seconds}
        return {"targets": {target: {"state": "up", "clients": 3}}, "lnet": {
            **counts, **{f"{name}_bytes": 59 * count for name, count in counts.items()},
            "waiting": 37, "down": [], "resent": 2 * seconds, "response_timeouts": 0,
            "credits": {"o2ib": {"waiting": 37, "lowest": -11, "peers": 3, "waiting_peers": 2,
                                 "peer_waiting": sum(now for now, _ in short_peers.values()),
                                 "peer_lowest": min(low for _, low in short_peers.values())}},
            "short_peers": short_peers}}
    now = time.time()
    for seconds in (4100, 4160):
        [message] = events_messages.params([], node, made_at=now - 4160 + seconds,
                                           status=status(seconds), every=3600)
        assert client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), node,
                           "packed_events", message)["taken"]


def done(desk, *arguments, env=UTC):
    return desk.iostats("nodes", *arguments, env=env)


def listed(desk, *arguments):
    found = done(desk, "--json", *arguments)
    return json.loads(found.out)["nodes"] if found.status == 0 else []


def test_a_line_for_each_node(site):
    """Numbers may be lower bounds: the storage servers began to tell today."""
    found = done(site, "-P", "-n", "--noconvert", "-o",
                 "Node,FileSystems,WriteBytes,ReadBytes,Reads,Writes,OSTOps,MDTOps,Requests")
    assert (0, "") == (found.status, found.err)
    assert [[OTHER, "scratch", "0", "53000", "7", "0", "0", "0", "7"],
            [NODE, "scratch", str(23 * MIB), "0", "0", "37", "3", "41", "81"]] == [
        [cell.replace(">= ", "") for cell in line.split("|")] for line in found.out.splitlines()]


def test_a_table_for_people_has_its_time_and_its_notes(site):
    found = done(site, "--sort", "-ReadBytes", "-S", "today")
    title, heading, dashes, first, second, *notes = found.out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT00:00:00 to \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", title)
    assert node_list.DEFAULT.split(",") == heading.split() and set(dashes) == {"-", " "}
    assert (OTHER, NODE) == (first.split()[0], second.split()[0])
    assert "51.8 KiB" in first and "23.0 MiB" in second
    assert (">=" in first) == any("not read before" in note for note in notes)


def test_what_nobody_knows_is_unknown_and_says_so(site):
    found = done(site, "-P", "-n", "-o", "Node,ReadBytes,Note", "nid[001-003]")
    first, *others = found.out.splitlines()
    assert first.startswith(f"{NODE}|")
    assert ["nid002|-|no client has this name or NID",
            "nid003|-|no client has this name or NID"] == others


def test_rows_can_be_chosen(site):
    assert [OTHER] == [row["node"] for row in listed(site, OTHER)]
    assert [] == listed(site, "-f", "home")
    assert [NODE] == [row["node"] for row in listed(site, "--sort", "-WriteBytes", "--limit", "1")]
    assert [(RAIL, 3 * MIB)] == [(row["node"], row["write_bytes"]) for row in listed(site, RAIL)]
    assert [] == listed(site, "-S", "now-2days", "-E", "now-1days")


@pytest.mark.parametrize("words", [["-S", "now-2days", "-E", "now-1days"], ["-f", "home"]])
def test_no_rows_do_not_say_that_nothing_was_done_where_nobody_looked(site, words):
    found = done(site, *words)
    assert "(no client activity recorded in this period)" == (
        found.out.splitlines()[-1])


@pytest.mark.parametrize("words, why", [
    (["nid[001-"], "NODES: expected a list of up to 10,000 nodes such as nid[001-004],login1, got "
                   "'nid[001-'"),
    (["nid[00001-99999]"], "got 'nid[00001-99999]': more than 10,000 nodes"),
    (["nid[1-999999999]"], "got 'nid[1-999999999]': more than 10,000 nodes"),
    (["nid[1-9000]", "login[1-2000]"], "NODES: expected up to 10000 nodes, got more"),
    (["--sort", "nids"], "--sort: expected node, file_systems, read_bytes"),
    (["-o", "Jobs"], "--format: expected a field, got 'Jobs'; `iostats nodes -e` lists them"),
    (["-S", "then"], "--since: expected a time such as"),
    (["-S", "now", "-E", "yesterday"], "expected --since before --until"),
    (["--units", "X"], "--units: expected one of K, M, G, T, P"),
    (["--limit", "0"], "--limit: expected a number from 1"),
    (["--by", "x"], "unrecognized arguments: --by"),
    (["x" * 257], "NODES: expected names of up to 256 printable characters")],
    ids=lambda one: one if isinstance(one, str) else " ".join(one)[:20])
def test_what_is_wrong_is_one_line(site, words, why):
    found = done(site, *words)
    assert 2 == found.status and why in found.line


def test_json_is_one_document(site):
    answer = json.loads(done(site, "--json", NODE).out)
    assert {"schema", "since", "until", "swept", "nodes", "count", "next"} == set(answer)
    [row] = answer["nodes"]
    assert {*node_list.NAMES, "at_most"} == set(row)
    assert (23 * MIB, 37, 41, [ONE, RAIL]) == (
        row["write_bytes"], row["writes"], row["mdt_operations"], row["nids"])


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_pipe_has_all_columns_whatever_the_width(site, columns):
    found = done(site, env={"COLUMNS": str(columns), **UTC})
    assert node_list.DEFAULT.split(",") == found.out.splitlines()[1].split()


def test_top_and_query_have_the_clients_too(site):
    """The sums are those of nodes; 0@lo stands apart."""
    found = site.iostats("top", "--once", "--by", "node", env=UTC)
    assert (0, "") == (found.status, found.err)
    assert any(line.startswith("(storage servers)") for line in found.out.splitlines())
    assert "~" not in found.out
    found = site.iostats("query", "f", "--json", env=UTC)
    rows = {row["client"]: row for row in json.loads(found.out)["rows"]}
    assert {ONE, RAIL, OTHER} == set(rows) and NODE == rows[RAIL]["node"]
    assert (20 * MIB, 78, 41) == tuple(rows[ONE][name] for name in (
        "write_bytes", "requests", "metadata"))
    assert "write_bytes_per_s" in rows[ONE] and "rates_lower_bound" in rows[ONE]
    table = site.iostats("query", "clients", env={"COLUMNS": "120", **UTC})
    assert (0, "") == (table.status, table.err)
    assert "20.0 MiB" in table.out and "NODE" in table.out
    assert max(map(len, table.out.splitlines())) <= 120
    found = site.iostats("query", "f", "--user", "alice", env=UTC)
    assert 3 == found.status and "clients are not counted by job" in found.line


def test_credits_of_a_nodes_addresses_are_in_its_row(site):
    """Of NODE wait 23, 2 and 7; OTHER has always had credits, as all that had too few are known."""
    found = done(site, "-P", "-n", "-o", "Node,Waiting,MinCredits", NODE, OTHER, "nid002")
    assert [[OTHER, "0", "-"], [NODE, "32", "-41"], ["nid002", "-", "-"]] == [
        line.split("|") for line in found.out.splitlines()]


def test_top_by_lnet_has_what_storage_servers_report_of_it(site):
    """The sums of both storage servers; o2ib1 has a client, and no storage server reports it."""
    found = site.iostats("top", "--once", "--by", "lnet", env={"COLUMNS": "160", **UTC})
    lines = found.out.splitlines()
    [heading] = [line for line in lines if line.startswith("LNET")]
    assert heading.split("CLIENTS")[1].split() == [
        "SENT/S", "RECV/S", "DROPPED/S", "RESENT/S", "WAITING", "CREDITS", "MIN"]
    assert {"o2ib": ["2", "110.0", "0.0", "2.0", "4.0", "106", "-41"],
            "o2ib1": ["1", *6 * ["-"]]} == {
        line.split()[0]: line.split()[-7:] for line in lines if line.startswith("o2ib")}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_ordinary_users_are_refused_and_readers_are_not(inside):
    def asked(uid, method, **params):
        return answer_to(inside.server, Caller("login1", uid), method, **params)
    for method, params in (("nodes", {"since": 0.0}), ("query", {"level": "f"}),
                           ("load", {"by": "lnet"})):
        error = asked(NOBODY, method, **params)["error"]["message"]
        assert "expected root or one of [site] readers" in error and "nobody" in error
        assert "expected root" not in asked(0, method, **params)["error"]["message"]


# -- the help -------------------------------------------------------------------------------------

def test_the_help_fits_a_terminal(site):
    found = done(site, "--help")
    assert 0 == found.status and found.out.startswith("usage: iostats nodes")
    assert max(map(len, found.out.splitlines())) <= 80


def test_the_fields_are_listed(site):
    found = done(site, "--helpformat")
    assert (0, node_list.TABLE.help()) == (found.status, found.out)


def test_nodes_is_in_the_usage_of_iostats():
    found = subprocess.run([sys.executable, "-m", "iostats", "--help"], cwd=REPOSITORY,
                           capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert "iostats nodes [options]" in found.stdout


@pytest.mark.parametrize("following", [0, float("nan")], ids=["the same", "no number"])
def test_an_answer_that_never_ends_is_refused(site, monkeypatch, capsys, following):
    def ask(config, method, params, within_s):
        return {"nodes": [{}], "next": following, "until": 1.0}
    monkeypatch.setattr(nodes, "ask_site", ask)
    assert 3 == nodes.main(["--config", str(site.cfg)])
    assert "a list of nodes cannot be shown" in capsys.readouterr().err
