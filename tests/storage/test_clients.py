"""
What the clients of a storage server do, by their exports: an agent as its administrator starts it,
against files in the forms of 2.5 to 2.17 and against those of real servers.
"""
from __future__ import annotations

import os
import signal
import time

import pytest
from exports_kernel import NS, RELEASES, Account, ExportsKernel, messages_of
from harvest_desk import StorageDesk
from processes import until
from trees import shared

from iostats.wire.messages import clients_encoder

C1, C2 = "10.77.0.11@tcp", "10.77.0.12@tcp"
OSTS, MDTS = ("scratch", "OST"), ("scratch", "MDT")


class ClientDesk(StorageDesk):
    """A storage server with exports; `now`: the kernel's clock, ns."""

    def __init__(self, directory):
        super().__init__(directory)
        self.choices["harvest.exports"] = "yes"
        self.now = time.time_ns()           # as start_time is, the agent's own clock
        self.account, self._taken = Account(), 0

    def kernel(self, release="2.17", kind="OST", number=0):
        """A target with both clients, and what they did before anybody looked: 23 x 4096 B each."""
        one = ExportsKernel(release, kind, self.now, number=number)
        for nid in (C1, C2):
            one.mount(self.now, nid, nid)
            one.write(self.now, nid, 4096, 23)
        return one

    def sweep(self, *kernels, root=None):
        """({(file system, kind): {NID: gain}}, {(file system, kind): [(nid, why)]}) of a sweep."""
        self.now += 50 * NS
        for kernel in kernels:
            kernel.save(self.now, self.root)
        done = self.once(root=root)
        assert (0, "") == (done.status, done.err), done
        return self.told()

    def told(self):
        """The same, of what was sent since it was asked last."""
        gains, losses = {}, {}
        [site] = self._sites[-1:]
        for packed in site.clients[self._taken:]:
            found, news = self.account.take(packed)
            gains.update(found)
            for key, some in news.items():
                losses.setdefault(key, []).extend((one["nid"], one["why"]) for one in some)
        self._taken = len(site.clients)
        return gains, losses


DESK = ClientDesk


def gained(gains, key=OSTS):
    """{NID: its gain} of those that gained anything."""
    return {nid: amounts for nid, amounts in gains.get(key, {}).items() if any(amounts)}


# -- what was done -----------------------------------------------------------------------------

@pytest.mark.parametrize("release", RELEASES)
def test_what_clients_do_between_two_sweeps_is_told_in_every_release(desk, release):
    """Two OSTs and an MDT: what is there at first is nobody's; the OSTs' numbers are one sum."""
    desk.site()
    osts = [desk.kernel(release), desk.kernel(release, number=1)]
    mdt = ExportsKernel(release, "MDT", desk.now)
    mdt.mount(desk.now, C1, "a")
    gains, losses = desk.sweep(*osts, mdt)
    assert ({C1: [0] * 5, C2: [0] * 5}, {C1: [0] * 5}, {}) == (gains[OSTS], gains[MDTS], losses)
    osts[0].write(desk.now, C1, 8192, 37)
    osts[1].write(desk.now, C1, 1024, 41)
    osts[1].read(desk.now, C2, 4096, 5)
    osts[1].request(desk.now, C2, "punch", 3)
    mdt.request(desk.now, "a", "open", 7)
    mdt.ping(desk.now, "a")
    gains, losses = desk.sweep(*osts, mdt)
    assert {C1: [0, 37 * 8192 + 41 * 1024, 0, 78, 0], C2: [20_480, 0, 5, 0, 3]} == gained(gains)
    assert {C1: [0, 0, 0, 0, 7]} == gained(gains, MDTS)
    assert {} == losses
    gains, losses = desk.sweep(*osts, mdt)
    assert ({}, {}, {}) == (gained(gains), gained(gains, MDTS), losses)


def test_messages_have_the_clients_with_news_alone_but_in_a_full_sweep(desk):
    """A running agent: the first sweep has both, a later one who did something."""
    site, kernel = desk.site(), desk.kernel()
    kernel.save(desk.now, desk.root)
    agent = desk.begin()
    until(lambda: site.clients, what="the first sweep")
    kernel.write(desk.now, C2, 41_003)
    kernel.save(desk.now + NS, desk.root)
    until(lambda: any(C2 in clients and C1 not in clients for packed in list(site.clients)
                      for _, clients in messages_of(packed)[1]), what="news")
    agent.stop()
    heads = [messages_of(packed) for packed in site.clients]
    assert {C1, C2} == set(heads[0][1][0][1]) and heads[0][0]["full"]
    block, clients = next((block, clients) for head, [(block, clients)] in heads[1:] if clients)
    assert {C2: (0, 41_003, 0, 1, 0)} == clients
    assert (2, ["OST0000"], {}, []) == tuple(block[name] for name in (
        "clients", "targets", "unreadable", "losses"))
    # One chain: a message of jobs, then one of clients, which is the sweep's last.
    assert [False, True] * (len(site.messages) // 2) == [
        one.last for one in site.messages[:len(site.messages) // 2 * 2]]


def test_two_real_clients_of_which_one_is_evicted(desk):
    """
    2.17: c1 wrote 15 x 40,000 B and 6 x 1 MiB, c2 18 x 25,000 B and 20 x 64 KiB; c2 read 4 MiB; c1
    wrote 8 KiB 26 times until s08, and 117 times more until c2 was evicted, which lost nothing.
    """
    desk.site()
    steps, losses, found = desk.directory / "step", {}, []
    for step in ("s00_before", "s01_two_clients", "s02_one_reads_the_others", "s07_before_kill",
                 "s08_killed_25s", "s09_killed_and_evicted"):
        steps.unlink(missing_ok=True)
        steps.symlink_to(shared("captures", "2.17.57-c", step, "server"))
        gains, some = desk.sweep(root=steps)
        losses.update(some)
        found.append({nid: amounts[:4] for nid, amounts in gains["lustre", "OST"].items()
                      if any(amounts[:4])})
    assert {} == losses
    assert {} == found[0]
    assert {C1: [0, 15 * 40_000 + 6 * 1_048_576, 0, 8],
            C2: [0, 18 * 25_000 + 20 * 65_536, 0, 13]} == found[1]
    assert {C2: [4_194_304, 0, 4, 0]} == found[2]
    assert [{C1: [0, 26 * 8192, 0, 26]}, {C1: [0, 117 * 8192, 0, 117]}] == found[4:]
    assert ("lustre", "OST", "0@lo") in desk.account.totals


def test_a_real_client_that_is_evicted_and_mounts_again(desk):
    """
    2.16.1: 23 files of 37,888 B and 3 of 5 MiB are written, then read with cold caches: 23 x 10
    pages; nothing begins anew through a remount and an eviction.
    """
    desk.site()
    steps, losses, found = desk.directory / "step", {}, []
    for step in ("s01_before_w1", "s02_after_w1", "s12_remounted_and_w", "s16_evicted", "s19_idle"):
        steps.unlink(missing_ok=True)
        steps.symlink_to(shared("captures", "2.16.1-server", step))
        gains, some = desk.sweep(root=steps)
        losses.update(some)
        found.append(gains["lustre", "OST"].get("10.99.0.3@tcp"))
    assert {} == losses
    assert [23 * 40_960 + 15_728_640, 23 * 37_888 + 15_728_640, 32, 29] == found[1][:4]
    assert 35_505_104 == sum(one[1] for one in found)


# -- lives -------------------------------------------------------------------------------------

def test_a_client_that_reconnects_mounts_twice_or_is_evicted_loses_nothing(desk):
    desk.site()
    kernel = desk.kernel()
    desk.sweep(kernel)
    kernel.mount(desk.now, C1, "second mount")
    kernel.write(desk.now, "second mount", 1000, 3)
    kernel.unmount(C1)
    kernel.unmount(C2)
    gains, losses = desk.sweep(kernel)
    assert ({C1: [0, 3000, 0, 3, 0]}, {}) == (gained(gains), losses)
    kernel.mount(desk.now, C2, "after eviction")
    kernel.write(desk.now, "after eviction", 2000, 5)
    gains, losses = desk.sweep(kernel)
    assert ({C2: [0, 10_000, 0, 5, 0]}, {}) == (gained(gains), losses)


def test_a_client_that_comes_is_counted_from_its_beginning(desk):
    """And one that comes over another network is another NID."""
    desk.site()
    kernel = desk.kernel("2.12")
    desk.sweep(kernel)
    kernel.mount(desk.now, "10.0.0.7@o2ib3", "a")
    kernel.write(desk.now, "a", 41, 23)
    gains, losses = desk.sweep(kernel)
    assert ({"10.0.0.7@o2ib3": [0, 943, 0, 23, 0]}, {}) == (gained(gains), losses)


@pytest.mark.parametrize("release", ["2.12", "2.17"])
def test_exports_that_are_cleared(desk, release):
    """c1 stays, and begins anew; c2 has no mount, and its file goes.  All are marked."""
    desk.site()
    kernel = desk.kernel(release)
    desk.sweep(kernel)
    kernel.unmount(C2)
    desk.now += 9 * NS
    kernel.clear(desk.now)
    kernel.write(desk.now, C1, 41, 2)
    gains, losses = desk.sweep(kernel)
    assert {C1: [0, 82, 0, 2, 0]} == gained(gains)
    assert {(C1, clients_encoder.RESET), (C2, clients_encoder.REMOVED),
            ("", clients_encoder.MAYBE_RESET)} == set(losses[OSTS])
    kernel.mount(desk.now, C2, "again")
    kernel.write(desk.now, "again", 37, 3)
    gains, losses = desk.sweep(kernel)
    assert ({C2: [0, 111, 0, 3, 0]}, {}) == (gained(gains), losses)


@pytest.mark.parametrize("release", ["2.5", "2.12", "2.14", "2.17"])
def test_a_target_that_restarts_begins_at_0(desk, release):
    """Also where a client has overtaken what it had: `instance` shows it."""
    desk.site()
    kernel = desk.kernel(release)
    desk.sweep(kernel)
    kernel.stop()
    desk.now += 9 * NS
    kernel.start(desk.now)
    kernel.mount(desk.now, C1, "a")
    kernel.write(desk.now, "a", 4096, 41)
    gains, losses = desk.sweep(kernel)
    assert ({C1: [0, 41 * 4096, 0, 41, 0]}, {OSTS: [("", clients_encoder.RESTARTED)]}) == (
        gained(gains), losses)


@pytest.mark.parametrize("release", ["2.12", "2.17"])
def test_a_target_that_goes_to_another_storage_server_and_comes_back(desk, release):
    """What it did there is that server's."""
    desk.site()
    kernel, other = desk.kernel(release), desk.kernel(release, number=1)
    desk.sweep(kernel, other)
    kernel.stop()
    assert {OSTS: [("", clients_encoder.LEFT)]} == desk.sweep(kernel, other)[1]
    desk.now += 9 * NS
    kernel.start(desk.now)
    kernel.mount(desk.now, C2, "a")
    kernel.write(desk.now, "a", 4096, 3)
    gains, losses = desk.sweep(kernel, other)
    assert ({C2: [0, 12_288, 0, 3, 0]}, {}) == (gained(gains), losses)


# -- the agent ---------------------------------------------------------------------------------

def told_and_ended(desk, site, kernel, number):
    """An agent that goes on from sweep to sweep tells of 23 writes of C1, and gets this signal."""
    kernel.save(desk.now, desk.root)
    agent = desk.begin()
    until(lambda: site.clients, what="a sweep")
    kernel.write(desk.now, C1, 41, 23)
    kernel.save(desk.now + NS, desk.root)
    until(lambda: any(clients.get(C1, (0, 0))[1] for packed in list(site.clients)
                      for _, clients in messages_of(packed)[1]), what="news")
    agent.process.send_signal(number)
    agent.process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_ends_goes_on_with_the_same_numbers(desk, number):
    """What is done while none runs is told by the next one: of the same epoch."""
    site, kernel = desk.site(), desk.kernel("2.12")
    told_and_ended(desk, site, kernel, number)
    kernel.write(desk.now, C1, 37, 5)
    _, losses = desk.sweep(kernel)
    assert {} == losses
    assert [0, 41 * 23 + 37 * 5, 0, 28, 0] == desk.account.totals[(*OSTS, C1)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_target_that_restarts_while_no_agent_runs(desk, number):
    """What was sent is in the state, also of an agent that was killed: its numbers go on."""
    site, kernel = desk.site(), desk.kernel("2.12")
    told_and_ended(desk, site, kernel, number)
    first = {head["epoch"] for packed in site.clients for head, _ in messages_of(packed)[1]}
    kernel.stop()
    kernel.start(desk.now + 2 * NS)
    kernel.mount(desk.now + 2 * NS, C1, "a")
    kernel.write(desk.now + 2 * NS, "a", 37, 5)
    kernel.save(desk.now + 50 * NS, desk.root)
    desk.once()
    _, losses = desk.told()
    now = {head["epoch"] for head, _ in messages_of(site.clients[-1])[1]}
    assert (first, {OSTS: [("", clients_encoder.RESTARTED)]}) == (now, losses)
    assert [0, 41 * 23 + 37 * 5, 0, 28, 0] == desk.account.totals[(*OSTS, C1)]
    kernel.write(desk.now, "a", 53, 41)
    gains, losses = desk.sweep(kernel)
    assert ({C1: [0, 53 * 41, 0, 41, 0]}, {}) == (gained(gains), losses)


@pytest.mark.parametrize("damage", [b"", b"iostats clients state 1\n", None])
def test_a_damaged_state_is_another_epoch_and_said(desk, damage):
    """None: one byte of it is another one."""
    desk.site()
    kernel = desk.kernel()
    desk.sweep(kernel)
    epoch = desk.account.epochs[OSTS]
    path = desk.spool / "clients.state"
    kept = path.read_bytes()
    path.write_bytes(bytes([*kept[:-9], kept[-9] ^ 1, *kept[-8:]]) if damage is None else damage)
    kernel.write(desk.now, C1, 41)
    kernel.save(desk.now, desk.root)
    done = desk.once()
    assert 0 == done.status
    assert [line for line in done.err.splitlines() if "clients' amounts restart" in line
            and str(path) in line and "damaged" in line], done.err
    desk.told()
    assert desk.account.epochs[OSTS] != epoch
    assert [0] * 5 == desk.account.totals[(*OSTS, C1)]


def test_a_site_server_of_an_older_release_gets_it_when_it_is_updated(desk):
    """It answers "Method not found": everything waits, in its order."""
    site, kernel = desk.site(), desk.kernel()
    taken = site.methods.pop("packed_clients")
    kernel.save(desk.now, desk.root)
    done = desk.once(node_retry_timeout=1)
    assert 3 == done.status and "does not know `packed_clients`: update it" in done.err
    assert 1 == len(site.messages) and 1 == len(desk.waiting())
    site.methods["packed_clients"] = taken
    kernel.write(desk.now, C1, 41)
    gains, losses = desk.sweep(kernel)
    assert ({C1: [0, 41, 0, 1, 0]}, {}) == (gained(gains), losses)


def test_exports_no_sends_no_message_of_clients(desk):
    site, kernel = desk.site(), desk.kernel()
    desk.choices["harvest.exports"] = "no"
    kernel.save(desk.now, desk.root)
    assert 0 == desk.once().status
    assert ([True], []) == ([one.last for one in site.messages], site.clients)


def test_exports_auto_ends_where_sweeps_take_too_long(desk):
    """Three sweeps in a row that need more than they have; the reason is in what is sent."""
    said, kept, kernel = [], [], desk.kernel()
    kernel.save(desk.now, desk.root)
    agent = desk.agent(said.append)         # `yes`: it does not ask the clock itself
    agent.delivery.store = lambda run, seq, message, full: kept.append(message)
    for number, took_s in enumerate((5.0, 0.5, 5.0, 5.0, 5.0)):
        agent.sweep(1_795_225_320 + number, 1)
        assert agent.clients.is_on and not said
        agent.clients.note_cpu_time(took_s, 1, 100)
    assert 1 == len(said) and "exports are left out: a sweep takes 5.0 s of CPU" in said[0]
    assert not (desk.spool / "clients.state").exists()
    agent.sweep(1_795_225_330, 1)
    [(block, clients)] = messages_of(kept[-1])[1]
    assert {} == clients and [] == block["targets"]
    assert block["unreadable"]["OST0000"].startswith("left out: a sweep takes 5.0 s of CPU")


# -- what is bad -------------------------------------------------------------------------------

def test_what_a_client_does_while_its_export_cannot_be_read_is_counted_later(desk):
    """Its file is named in each message until it can be read; all others count as ever."""
    site, kernel = desk.site(), desk.kernel()
    desk.sweep(kernel)
    kernel.mount(desk.now, "10.0.0.13@tcp", "new")      # its file cannot be read from the start
    kernel.write(desk.now, "new", 1013)
    kernel.write(desk.now, C1, 41)
    kernel.write(desk.now, C2, 37)
    damaged = {C1: None, "10.0.0.13@tcp": b"snapshot_time 1"}
    kernel.save(desk.now + NS, desk.root, damaged)
    done = desk.once()
    assert "2 of the exports could not be read, the first: " in done.err
    gains, losses = desk.told()
    assert ({C2: [0, 37, 0, 1, 0]}, {}) == (gained(gains), losses)
    [(block, _)] = messages_of(site.clients[-1])[1]
    assert (["OST0000"], {"OST0000": ["10.0.0.13@tcp", C1]}) == (
        block["targets"], block["unread"])
    kernel.write(desk.now, C1, 23)
    gains, losses = desk.sweep(kernel)
    assert ({C1: [0, 64, 0, 2, 0], "10.0.0.13@tcp": [0, 1013, 0, 1, 0]}, {}) == (
        gained(gains), losses)
    assert {} == messages_of(site.clients[-1])[1][0][0]["unread"]


@pytest.mark.parametrize("release", ["2.12", "2.17"])
def test_a_file_that_cannot_be_read_when_its_target_was_restarted_began_at_0(desk, release):
    """Not where it stood before: without start_time it may have overtaken that."""
    desk.site()
    kernel = desk.kernel(release)
    kernel.write(desk.now, C1, 41)
    desk.sweep(kernel)
    kernel.stop()
    kernel.start(desk.now)
    for nid in (C1, C2):
        kernel.mount(desk.now, nid, nid)
    kernel.write(desk.now, C1, 43, 5)
    kernel.save(desk.now + NS, desk.root, {C1: None})
    desk.once()
    assert {OSTS: [("", clients_encoder.RESTARTED)]} == desk.told()[1]
    gains, losses = desk.sweep(kernel)
    assert ({C1: [0, 43 * 5, 0, 5, 0]}, {}) == (gained(gains), losses)


def test_a_file_that_was_removed_before_it_could_be_read_is_missing(desk):
    """exports/clear removes the files of clients that are not connected."""
    desk.site()
    kernel = desk.kernel()
    desk.sweep(kernel)
    kernel.mount(desk.now, "10.0.0.13@tcp", "new")
    kernel.write(desk.now, "new", 1013)
    kernel.save(desk.now + NS, desk.root, {"10.0.0.13@tcp": None})
    desk.once()
    assert {} == desk.told()[1]
    kernel.unmount("new")
    kernel.clear(desk.now)
    _, losses = desk.sweep(kernel)
    assert ("10.0.0.13@tcp", clients_encoder.REMOVED) in losses[OSTS]


def test_what_is_no_nid_and_what_never_ends(desk):
    """Directories of other names, a FIFO, a link to /dev/zero, a file of 128 KiB."""
    desk.site()
    kernel = desk.kernel()
    desk.sweep(kernel)
    [exports] = desk.root.glob("**/exports")
    for name in ("not a nid", "x" * 255, "a\x1b[2Jb@tcp", "10.0.0.1@tcp", "10.0.0.2@tcp",
                 "10.0.0.3@tcp"):
        (exports / name).mkdir()
    for name in ("not a nid", "x" * 255, "a\x1b[2Jb@tcp"):
        (exports / name / "stats").write_bytes(kernel.text(desk.now, C1))
    os.mkfifo(exports / "10.0.0.1@tcp/stats")
    (exports / "10.0.0.2@tcp/stats").symlink_to("/dev/zero")
    (exports / "10.0.0.3@tcp/stats").write_bytes(kernel.text(desk.now, C1) + b"\n" * 131_072)
    kernel.write(desk.now, C1, 41)
    (exports / C1 / "stats").write_bytes(kernel.text(desk.now + NS, C1))
    done = desk.once()
    assert 0 == done.status and "\x1b" not in done.err
    gains, _ = desk.told()
    assert {C1: [0, 41, 0, 1, 0]} == gained(gains)
    [(block, _)] = messages_of(desk._sites[-1].clients[-1])[1]
    assert 6 == block["bad"] and {C1, C2, "10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"} == set(
        block["nids"])


def test_exports_that_are_closed_are_said_and_cost_no_job(desk):
    """As where debugfs is not mounted: the target is named with the reason."""
    site, kernel = desk.site(), desk.kernel()
    kernel.save(desk.now, desk.root)
    [exports] = desk.root.glob("**/exports")
    exports.rename(exports.with_name("elsewhere"))
    done = desk.once()
    assert 0 == done.status
    assert "scratch-OST0000: its exports cannot be read: " in done.err
    assert "exports: No such file or directory" in done.err
    [(block, clients)] = messages_of(site.clients[-1])[1]
    assert ({}, [], ["OST0000"]) == (clients, block["targets"], list(block["unreadable"]))
    assert {("scratch", "OST0000")} == {(one.file_system, one.target)
                                        for one in site.messages[0].targets}
    # What is there when they can be read is nobody's, and some of it may be of after the first try.
    exports.with_name("elsewhere").rename(exports)
    gains, losses = desk.sweep(kernel)
    assert ({}, {OSTS: [("", clients_encoder.UNREADABLE)]}) == (gained(gains), losses)


def test_a_target_that_the_last_sweep_has_not_seen_though_it_was_there(desk):
    """
    As where /proc or debugfs of it was mounted later: what was done before is nobody's, and is
    marked with that reason; from then on it counts.
    """
    desk.site()
    kernel = desk.kernel()
    late = ExportsKernel("2.17", "OST", desk.now - 100 * NS, number=1)
    for nid in (C1, C2):
        late.mount(desk.now - 100 * NS, nid, nid)
    desk.sweep(kernel)
    late.write(desk.now, C1, 41)
    desk.now += 50 * NS
    gains, losses = desk.sweep(kernel, late)
    assert ({}, {OSTS: [(nid, clients_encoder.NOT_SEEN) for nid in (C1, C2)]}) == (
        gained(gains), {key: sorted(some) for key, some in losses.items()})
    late.write(desk.now, C1, 43)
    gains, losses = desk.sweep(kernel, late)
    assert ({C1: [0, 43, 0, 1, 0]}, {}) == (gained(gains), losses)


def test_50_000_exports(desk):
    """A block has 5,000 of them at most."""
    desk.site()
    kernel = ExportsKernel("2.17", "OST", desk.now)
    kernel.save(desk.now, desk.root)
    [exports] = desk.root.glob("**/exports")
    kernel.mount(desk.now, C1, "a")
    kernel.write(desk.now, "a", 4096, 23)
    content = kernel.text(desk.now, C1)
    for number in range(50_000):
        nid = exports / f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}@o2ib"
        nid.mkdir()
        (nid / "stats").write_bytes(content)
    assert 0 == desk.once().status
    blocks = [one for packed in desk._sites[-1].clients for one in messages_of(packed)[1]]
    assert [5_000] * 10 == [len(clients) for _, clients in blocks]
    assert 50_000 == len({nid for _, clients in blocks for nid in clients})


# -- what a person sees ------------------------------------------------------------------------

def test_list_says_how_many_clients_there_are(desk):
    kernel, other = desk.kernel(), desk.kernel("2.12", number=1)
    kernel.save(desk.now, desk.root)
    other.save(desk.now, desk.root)
    done = desk.once("--list")
    assert ["scratch OST0000 cleanup 600 s 0 entries; 2 clients",
            "scratch OST0001 cleanup 600 s 0 entries; 2 clients"] == [
        " ".join(line.split()) for line in done.out.splitlines() if line.startswith("scratch")]
    [exports] = desk.root.glob("**/*OST0001/exports")
    for path in exports.glob("*/stats"):
        path.write_bytes(b"snapshot_time 1")
    [exports] = desk.root.glob("**/*OST0000/exports")
    exports.rename(exports.with_name("elsewhere"))
    lines = desk.once("--list").out.splitlines()
    assert "; exports not readable: " in lines[0]
    assert "; 2 clients, 2 not understood: " in lines[1]
