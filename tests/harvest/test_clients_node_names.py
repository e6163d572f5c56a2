"""Which node a NID is: the site's own list, names of addresses, and where none comes."""

import asyncio
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base import config as site
from iostats.harvest.clients import node_names
from iostats.harvest.clients.node_names import STORAGE_SERVERS, NodeNames, look_up_name, parse_names

NID, RAIL, OTHER = "10.0.0.11@o2ib", "10.1.0.11@o2ib1", "10.0.0.12@o2ib"


class Names:
    """NodeNames with a clock, and addresses that have names, or whose question fails."""

    def __init__(self, tmp_path, text=None, **choices):
        self.path, self.now, self.asked, self.known = tmp_path / "nodes", 1000.0, [], {}
        if text is not None:
            self.path.write_text(text)
            choices["clients_names"] = self.path
        config = site.load(environ={})
        for name, value in choices.items():
            config.set_value(name.replace("_", ".", 1), str(value), "a test")
        self.names = NodeNames(config, self.name_of, lambda: self.now)
        self.loop = asyncio.new_event_loop()

    def name_of(self, address):
        self.asked.append(address)
        found = self.known.get(address, "")
        if isinstance(found, Exception):
            raise found
        return found

    def scan(self, times=3):
        """It is looked at, now and then, until all answers are there."""
        async def looking():
            for _ in range(times):
                self.names.refresh()
                while self.names._resolving or self.names._is_reading:
                    await asyncio.sleep(0.001)
        self.loop.run_until_complete(looking())

    def nodes(self, *nids):
        return [self.names.find_node(nid) for nid in nids]


@pytest.fixture
def desk(tmp_path):
    """Makes a Names."""
    made = []

    def make(*arguments, **choices):
        made.append(Names(tmp_path, *arguments, **choices))
        return made[-1]
    yield make
    for one in made:
        one.loop.close()


def test_a_node_has_the_nids_of_the_list(desk):
    one = desk(f"# NID node\n{NID}   node11   # rail 1\n\n{RAIL}\tnode11\n")
    one.names.add_nids([NID, RAIL, OTHER, "0@lo"])
    assert ["node11", "node11", OTHER, STORAGE_SERVERS] == one.nodes(NID, RAIL, OTHER, "0@lo")
    assert ([NID, RAIL], [OTHER], [], ["0@lo"]) == tuple(map(
        one.names.list_nids, ("node11", OTHER, "node12", STORAGE_SERVERS)))
    assert [True, False, True] == [one.names.is_known(nid) for nid in (NID, OTHER, "0@lo")]


@pytest.mark.parametrize("line, said", [
    ("10.0.0.12 node12", "expected a NID, such as 10.0.0.11@o2ib, got '10.0.0.12'"),
    ("10.0.0.12@o2ib", "expected a NID and the name of its node, got '10.0.0.12@o2ib'"),
    ("10.0.0.12@o2ib node12 node13", "got '10.0.0.12@o2ib node12 node13'"),
    ("10.0.0.12@o2ib node/12", "expected the name of a node, such as node11, got 'node/12'"),
    ("10.0.0.12@o2ib (all)", "got '(all)'"), ("10.0.0.12@o2ib " + "n" * 65_536, "got 'nnn"),
    ("x" * 65_536 + " node12", "got 'xxx"), (f"{NID} node13", "expected one node for "),
    ("\x1b[1m@tcp node12", "\\x1b")])
def test_a_wrong_line_is_named_and_costs_itself_alone(desk, caplog, line, said):
    one = desk(f"{NID} node11\n{line}\n{RAIL} node11\n")
    one.names.add_nids([NID, RAIL, OTHER])
    assert ["node11", "node11", OTHER] == one.nodes(NID, RAIL, OTHER)
    [record] = caplog.records
    assert f"{one.path}:2: " in record.getMessage() and said in record.getMessage()
    assert record.getMessage().isprintable() and len(record.getMessage()) < 300


@pytest.mark.parametrize("written, printed", [
    ("10.0.0.11@tcp0", "10.0.0.11@tcp"), ("10.0.0.11@o2ib0", "10.0.0.11@o2ib"),
    ("10.0.0.11@o2ib10", "10.0.0.11@o2ib10"), ("fd00::11@tcp00", "fd00::11@tcp"),
    ("0x17@kfi", "0x17@kfi")])
def test_a_network_may_be_written_with_its_number_0(desk, written, printed):
    """Lustre takes tcp0, as in modprobe.d, and prints tcp."""
    one = desk(f"{written} node11\n")
    one.names.add_nids([printed])
    assert ["node11"] == one.nodes(printed)


def test_many_wrong_lines_are_counted():
    _, wrong = parse_names("".join(f"{number}\n" for number in range(100)), "/etc/nodes")
    assert (21, "/etc/nodes: 80 more lines are wrong") == (len(wrong), wrong[-1])


@given(st.text(max_size=200))
def test_any_text_is_a_list(text):
    names, wrong = parse_names(f"{text}\n{NID} node11\n", "/etc/nodes")
    assert names.get(NID) == "node11" or wrong
    assert all(len(line) < 300 for line in wrong)


def test_the_list_is_read_again_when_it_changes(desk):
    one = desk(f"{NID} node11\n")
    one.names.add_nids([NID, OTHER])
    one.path.write_text(f"{OTHER} node12b\n")
    one.now += 5
    one.scan()
    assert [NID, "node12b"] == one.nodes(NID, OTHER)


@pytest.mark.parametrize("break_it, why", [
    (lambda path: path.unlink(), "cannot be read: No such file or directory"),
    (lambda path: path.write_bytes(b"#" * 2048), "expected up to 0 MiB, got more")])
def test_a_list_that_goes_wrong_leaves_the_names_that_it_had(desk, caplog, monkeypatch, break_it,
                                                              why):
    monkeypatch.setattr(node_names, "_MAX_BYTES", 1024)
    one = desk(f"{NID} node11\n")
    one.names.add_nids([NID])
    break_it(one.path)
    one.now += 5
    one.scan()
    assert ["node11"] == one.nodes(NID)
    assert [f"{one.path}: {why}; the names read before are still used (site.cfg: [clients] "
            f"names)"] == [record.getMessage() for record in caplog.records]


def test_a_list_that_was_never_read_has_left_no_names(desk, caplog):
    """At a start nothing was said before."""
    one = desk(clients_names="/nonexistent/none")
    one.names.add_nids([NID])
    one.scan()
    assert ["/nonexistent/none: cannot be read: No such file or directory; no names are taken from "
            "it yet (site.cfg: [clients] names)"] == [
                record.getMessage() for record in caplog.records]


def test_a_list_on_a_file_server_that_hangs_says_what_is_used(desk, caplog, monkeypatch):
    """With names from before, and without."""
    one, other = desk(f"{NID} node11\n"), desk(clients_names="/nonexistent/none")
    caplog.clear()

    def hangs(path, version):
        raise node_names.TimedOut
    monkeypatch.setattr(node_names, "_read_content", hangs)
    for names in (one, other):
        names.now += 5
        names.scan()
    assert ["the names read before are still used", "no names are taken from it yet"
            ] == [record.getMessage().partition("no answer; ")[2].partition(" (site.cfg")[0]
                  for record in caplog.records]


def test_a_list_that_cannot_be_read_is_named_once(desk, caplog):
    one = desk(clients_names="/nonexistent/none")
    for _ in range(3):
        one.now += 5
        one.scan()
    [record] = caplog.records
    assert "/nonexistent/none: cannot be read: No such file or directory" in record.getMessage()


@pytest.mark.timeout(60)
def test_a_list_that_is_a_fifo_or_a_directory_holds_nothing_up(desk, tmp_path, caplog):
    """At the start, too; the list is taken as soon as it is a file."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    one = desk(clients_names=fifo)
    one.names.add_nids([NID])
    assert f"{fifo}: cannot be read: Not a regular file" in caplog.text
    fifo.unlink()
    fifo.mkdir()
    one.now += 100
    one.scan()
    fifo.rmdir()
    fifo.write_text(f"{NID} node11\n")
    one.now += 100
    one.scan()
    assert ["node11"] == one.nodes(NID)


@pytest.mark.parametrize("found, choices, name", [
    ("node11", {}, "node11"), ("node11-ib0.cluster.local", {}, "node11"),
    ("node11-ib0.cluster.local", {"clients_short_names": "no"}, "node11.cluster.local"),
    ("node11-ib0", {"clients_remove_suffixes": ""}, "node11-ib0"),
    ("node11-mlx", {"clients_remove_suffixes": "-x -mlx"}, "node11"), ("-ib0", {}, NID),
    ("", {}, NID), ("(storage servers)", {}, NID), ("node\x1b[1m", {}, NID), ("n" * 300, {}, NID)])
def test_names_of_addresses_are_those_of_nodes(desk, found, choices, name):
    one = desk(**choices)
    one.known["10.0.0.11"] = found
    one.names.add_nids([NID])
    assert [NID] == one.nodes(NID)                              # not yet
    one.scan()
    assert [name] == one.nodes(NID)


def test_the_list_comes_before_names_of_addresses(desk):
    one = desk(f"{NID} node11\n")
    one.known = {"10.0.0.11": "other", "10.0.0.12": "node12"}
    one.names.add_nids([NID, OTHER, "12345@gni", "10.0.0.13:x@tcp"])
    one.scan()
    assert (["node11", "node12"], ["10.0.0.12"]) == (one.nodes(NID, OTHER), one.asked)


def test_answers_are_kept_for_an_hour_and_none_for_ten_minutes(desk):
    one = desk()
    one.known["10.0.0.11"] = "node11"
    one.names.add_nids([NID, OTHER])
    one.scan()
    assert ["10.0.0.11", "10.0.0.12"] == sorted(one.asked)
    one.now, one.known["10.0.0.12"] = one.now + 601, "node12"
    one.scan()
    assert ["node11", "node12"] == one.nodes(NID, OTHER) and 3 == len(one.asked)
    one.now, one.known["10.0.0.11"] = one.now + 3001, "node11b"
    one.scan()
    assert ["node11b", "node12"] == one.nodes(NID, OTHER) and 4 == len(one.asked)


def test_where_nobody_answers_there_is_a_pause_and_names_stay(desk, caplog):
    one = desk()
    one.known["10.0.0.11"] = "node11"
    one.names.add_nids([NID])
    one.scan()
    one.known = dict.fromkeys(("10.0.0.11", "10.0.0.12"), socket.gaierror(
        socket.EAI_AGAIN, "Temporary failure in name resolution"))
    one.now += 4000
    one.names.add_nids([OTHER])
    one.scan(10)
    asked = len(one.asked)
    assert ["node11", OTHER] == one.nodes(NID, OTHER) and asked <= 3
    [record] = caplog.records
    assert "Temporary failure in name resolution" in record.getMessage()
    one.now += 5
    one.scan()
    assert asked == len(one.asked)                              # it is not the time yet
    for _ in range(3):
        one.now += 601
        one.scan()
    assert asked < len(one.asked) and [record] == caplog.records        # once an hour
    one.known["10.0.0.12"] = "node12"
    one.now += 601
    one.scan()
    assert ["node11", "node12"] == one.nodes(NID, OTHER)


def test_an_address_of_this_machine_has_its_name_of_etc_hosts():
    assert look_up_name("127.0.0.1") and "" == look_up_name("192.0.2.23")


def test_a_question_that_hangs_blocks_nobody(desk, monkeypatch):
    """It times out, and the loop goes on meanwhile."""
    import threading
    hangs = threading.Event()
    monkeypatch.setattr(node_names, "_WITHIN_S", 0.05)
    one = desk()
    one.names = NodeNames(site.load(environ={}), lambda address: hangs.wait(60) and "late",
                          lambda: one.now)
    one.names.add_nids([NID])
    one.scan(1)
    assert [NID] == one.nodes(NID)
    hangs.set()
