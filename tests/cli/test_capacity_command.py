"""`iostats capacity`, `targets` and `quota` against a real site server and a real agent."""
from __future__ import annotations

import json

import pytest
from processes import until
from server_files import ServerFiles, service_stats
from site_desk import SiteDesk
from site_inside import Inside, answer_to
from storage import StorageServer
from test_munge import NOBODY

from iostats.cli import capacity, quota, targets
from iostats.report import capacity_table, server_tables
from iostats.server.rpc_server import Caller

FULL, OTHER = "scratch-OST0003", "scratch-OST0004"
KIB_OF_TIB = 1 << 30


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A desk; 93 % and 23 % of two targets of 1 TiB are used."""
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.configure(harvest_interval=60, events_every=1, batch_system="none")
        desk.storage = StorageServer(desk, "oss1")
        desk.storage.show("OST0003", {})
        desk.files = ServerFiles(desk.storage.root, "2.17")
        for target, percent in ((FULL, 93), (OTHER, 23)):
            desk.files.start(target)
            fill(desk, target, percent)
        desk.files.metrics(FULL, tot_granted=41 << 30, lock_count=2300)
        desk.files.service("ost_io", 23, 64, service_stats(37, 41, 43))
        desk.files.quota("scratch", "md-0x0", "glb-prj", (4711, 4100, 0, 2300, 0),
                         (4712, 4100, 0, 4100, 0))
        desk.site()
        desk.storage.agent()
        until(lambda: len(listed(desk)) == 2, what="the agent's report")
        yield desk


def fill(desk, target, percent):
    free = KIB_OF_TIB * (100 - percent) // 100
    desk.files.capacity(target, KIB_OF_TIB, free, free, 1000, 590)


def done(desk, *arguments):
    return desk.iostats("capacity", *arguments)


def listed(desk, *arguments):
    found = done(desk, "--json", *arguments)
    return json.loads(found.out)["targets"] if found.status == 0 else []


def test_a_table_for_people_has_the_sum_and_a_note(site):
    found = done(site)
    assert (0, "") == (found.status, found.err)
    lines = [line.split() for line in found.out.splitlines()]
    assert [[FULL, "1.0", "TiB", "952.3", "GiB", "71.7", "GiB", "93", "%"],
            [OTHER, "1.0", "TiB", "235.5", "GiB", "788.5", "GiB", "23", "%"],
            ["scratch", "OSTs", "2.0", "TiB", "1.2", "TiB", "860.2", "GiB"]] == [
        lines[2][:9], lines[3][:9], lines[4][:8]]
    assert "filled unevenly: scratch-OST0003 93 %" in " ".join(found.out.split())


def test_programs_get_exact_values(site):
    free = KIB_OF_TIB * 7 // 100 * 1024
    assert f"Target|Avail|UsePct|FullIn\n{FULL}|{free}|93.00|-\n{OTHER}|" in done(
        site, "-P", "--noconvert", "-o", "Target,Avail,UsePct,FullIn").out


@pytest.mark.parametrize("words, names", [
    ((OTHER,), [OTHER]), (("-f", "home"), []), (("--sort", "UsePct"), [OTHER, FULL]),
    (("--sort", "-UsePct", "--limit", "1"), [FULL]), (("--reverse",), [OTHER, FULL])])
def test_targets_can_be_chosen_and_sorted(site, words, names):
    found = done(site, "-P", "-n", "-o", "Target", *words)
    assert (0, names) == (found.status, found.out.split())


def test_where_no_target_is_known_the_table_says_so(site):
    found = done(site, "-f", "home")
    assert 0 == found.status
    assert "(no agent on a storage server has reported the capacity of such a target)" in found.out


@pytest.mark.parametrize("words, why", [
    (("--sort", "Colour"), "--sort: expected a field, got 'Colour'; `iostats capacity -e` lists "
                           "them"),
    (("-o", "Colour"), "--format: expected a field, got 'Colour'"),
    (("--limit", "0"), "--limit: expected a number from 1")])
def test_what_is_wrong_is_one_line(site, words, why):
    found = done(site, *words)
    assert (2, "", 1) == (found.status, found.out, found.err.count("\n")) and why in found.err


def test_a_new_percentage_is_reported_at_once(site):
    """And not with the next status a minute later."""
    fill(site, OTHER, 41)
    until(lambda: [41.0] == [round(row["bytes_used_percent"], 1) for row in listed(site, OTHER)],
          what="the new percentage")


def test_the_fields_are_listed_and_the_help_names_them(site):
    assert [field.column for field in capacity_table.FIELDS] == [
        line.split()[0] for line in done(site, "-e").out.splitlines()]
    assert capacity.CapacityOptions.format_help() == done(site, "--help").out


def test_every_user_may_ask(tmp_path):
    inside = Inside(tmp_path)
    answer = answer_to(inside.server, Caller("login1", NOBODY), "capacity")
    assert [] == answer["result"]["targets"]
    assert "error" in answer_to(inside.server, None, "capacity")
    inside.store.close()


def test_targets_and_services(site):
    found = site.iostats("targets", FULL)               # FragReads has no room
    assert (0, "") == (found.status, found.err)
    assert [FULL, *"-" * 5, "41.0", "GiB", "2,300"] == found.out.splitlines()[2].split()
    found = site.iostats("targets", "--services", "-P", "-o", "Server,Service,Threads,MaxThreads")
    assert "Server|Service|Threads|MaxThreads\noss1|ost_io|23|64\n" == found.out
    assert [FULL, OTHER] == site.iostats("targets", "-P", "-n", "-o", "Target", "--sort",
                                         "-Locks").out.split()
    answer = json.loads(site.iostats("targets", "--json", FULL).out)
    assert {"granted_bytes": 41 << 30, "locks": 2300} == answer["targets"][0]["values"]
    assert "(no agent on a storage server has reported metrics of such targets)" in site.iostats(
        "targets", "-f", "home").out


def test_quotas(site):
    found = site.iostats("quota", "-P", "-o", "Name,Kind,Of,Granted,Hard,GrantedPct,State")
    assert (0, "") == (found.status, found.err)
    assert ["Name|Kind|Of|Granted|Hard|GrantedPct|State",
            "4712|project|inodes|4100|4100|100.00|full",
            "4711|project|inodes|2300|4100|56.09|-"] == found.out.splitlines()
    assert "4711\n" == site.iostats("quota", "-P", "-n", "-o", "Name", "4711").out
    assert "(no agent on an MDS has reported such a quota)" in site.iostats("quota", "alice").out
    until(lambda: "project:4712" in site.iostats("events", "--json").out, what="the event")


@pytest.mark.parametrize("command, words, options, table", [
    ("targets", (), targets.MetricsOptions, server_tables.TARGETS),
    ("targets", ("--services",), targets.MetricsOptions, server_tables.SERVICES),
    ("quota", (), quota.QuotaOptions, server_tables.QUOTAS)])
def test_their_fields_are_listed_and_the_help_names_them(site, command, words, options, table):
    assert [field.column for field in table.fields] == [
        line.split()[0] for line in site.iostats(command, *words, "-e").out.splitlines()]
    assert options.format_help() == site.iostats(command, "--help").out
