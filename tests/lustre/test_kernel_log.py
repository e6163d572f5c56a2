"""
The kernel's log: what Lustre says of evictions, lost connections, recovery; 2.5 to 2.17.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import samples, shared

from iostats.base.errors import is_printable
from iostats.lustre import kernel_log
from iostats.lustre.kernel_log import LogRecord, parse_dmesg_line, parse_message, parse_record

UUID = "f15aa50c-8084-47f6-bb2e-fc5ed9687c46"
OST, OSC = "scratch-OST0003", "scratch-OST0003-osc-ffff9a3c5d1e0800"
LOST = (f"{OSC}: Connection to {OST} (at 10.9.0.3@o2ib) was lost; in progress operations using "
        "this service will ")
SILENT = (f"{OST}: haven't heard from client {UUID} (at 10.9.0.11@o2ib2) in 229 seconds. I think "
          "it's dead, and I am evicting it.")
LOCK = (f"### lock callback timer expired after 151s: evicting client at 10.9.0.11@o2ib2  ns: "
        f"filter-{OST}_UUID lock: ffff880078b9a800/0x7cf5a8a9e1fbe3b6 lrc: 3/0,0 mode: PW/PW res: "
        "[0x2:0x0:0x0].0 rrc: 3 type: EXT [0->18446744073709551615] flags: 0x60000000010020 nid: "
        "10.9.0.11@o2ib2 remote: 0x23 expref: 5 pid: 37 timeout: 41 lvb_type: 0")
TIMED_OUT = (f"@@@ Request sent has timed out for slow reply: [sent 1795333340/real 1795333341]  "
             f"req@ffff880078b9a800 x1795/t0(0) o4->{OSC}@10.9.0.3@o2ib:6/4 lens 488/416 e 0 to 1 "
             "dl 1795333379 ref 2 fl Rpc:X/0/ffffffff rc 0/-1")


def said(text, label="Lustre"):
    """The Message of a line of the kernel's own."""
    return parse_message(LogRecord(4, 23, 37_000_041, "-", f"{label}: {text}"))


# -- records -------------------------------------------------------------------------------------

def test_a_record_of_dev_kmsg():
    found = parse_record(b"4,444,758211829,-;Lustre: a\n SUBSYSTEM=net\n DEVICE=+n:37\n")
    assert LogRecord(4, 444, 758_211_829, "-", "Lustre: a") == found


def test_fields_that_newer_kernels_add_are_no_text():
    assert "Lustre: a;b" == parse_record(b"6,23,37,c,caller=T1234,x=1;Lustre: a;b\n").text


def test_escaped_bytes_are_bytes_again():
    assert "Lustre: caf\xe9 \\ \x1b[2J" == parse_record(
        rb"6,23,37,-;Lustre: caf\xc3\xa9 \x5c \x1b[2J" + b"\n").text


def test_what_follows_the_first_line_of_a_record_is_not_lustres():
    """A user chose the name of the file that another driver tells of."""
    assert "ext4: no such file: a" == parse_record(
        b"3,23,37,-;ext4: no such file: a\\x0aLustreError: " + SILENT.encode() + b"\n").text


@pytest.mark.parametrize("line, priority", [
    (b"[  758.211829] Lustre: a\n", None), (b"<4>[  758.211829] Lustre: a", 4),
    (b"<12>[758.211829][ T1234] Lustre: a", 12), (b"[  758.211829][   C3] Lustre: a", None)])
def test_a_line_of_dmesg(line, priority):
    assert LogRecord(priority, None, 758_211_829, "", "Lustre: a") == parse_dmesg_line(line)


@pytest.mark.parametrize("data", [
    b"", b"\n", b"Lustre: a", b"4,444;Lustre: a", b"x,444,7,-;Lustre: a", b"-4,4,7,-;Lustre: a",
    b" SUBSYSTEM=net", b"[Sun Nov 22 07:42:58 2026] Lustre: a", b"4,444,758211829,-", b"\0" * 99])
def test_what_is_of_another_form_is_none(data):
    assert None is parse_record(data)
    assert None is parse_dmesg_line(data)


def test_a_program_that_writes_to_dev_kmsg_is_not_heard():
    """Its facility is 1 (user) or whatever it says, but never 0."""
    line = b"LustreError: " + SILENT.encode()
    assert "evicted" == parse_message(parse_record(b"4,23,37,-;" + line)).kind
    for priority in (12, 11, 30, 191):
        assert None is parse_message(parse_record(b"%d,23,37,-;%s" % (priority, line)))
        assert None is parse_message(parse_dmesg_line(b"<%d>[    0.000037] %s" % (priority, line)))


@pytest.mark.parametrize("text", [
    "", "Lustre", "Lustre:", "lustre: LBUG", " LustreError: LBUG", "a LustreError: LBUG",
    "LustreErrors: LBUG", "NFS: server 10.9.0.3 not responding", "LNetErr: LBUG"])
def test_other_lines_of_the_kernel_are_none(text):
    assert None is parse_message(LogRecord(3, 23, 37, "-", text))


# -- what is before a message --------------------------------------------------------------------

def test_label_code_pid_and_place():
    found = parse_message(LogRecord(3, 23, 37, "-", "LustreError: 23:0:(ldlm_lib.c:1187:"
                                           f"target_handle_connect()) {OST}: not available for "
                                           "connect from 10.9.0.11@o2ib2 (no target). If"))
    assert ("LustreError", "", 23, "ldlm_lib.c:1187:target_handle_connect") == (
        found.label, found.code, found.pid, found.place)
    assert ("other", OST, ("10.9.0.11@o2ib2",)) == (found.kind, found.target, found.nids)
    found = said(f"15f-b: {OST}: cannot register this server with the MGS: rc = -17.", "LNetError")
    assert ("LNetError", "15f-b", None, "") == (found.label, found.code, found.pid, found.place)
    assert f"{OST}: cannot register this server with the MGS: rc = -17." == found.text


@pytest.mark.parametrize("name, expected", [
    (OST, ("scratch", OST, "server")), (OSC, ("scratch", OST, "client")),
    ("a-b-MDT000a-mdc-ff11000128551000", ("a-b", "a-b-MDT000a", "client")),
    ("scratch-OST0003-osc-MDT0001", ("scratch", OST, "server")),
    ("scratch-MDT0000-lwp-OST0003", ("scratch", "scratch-MDT0000", "server")),
    ("MGS", ("", "MGS", "")), ("MGC10.9.0.1@o2ib", ("", "", "")), ("ost_io", ("", "", ""))])
def test_who_speaks(name, expected):
    found = said(f"{name}: something of ours", "LustreError")
    assert (name, *expected) == (found.device, found.file_system, found.target, found.speaker)


# -- kinds ---------------------------------------------------------------------------------------

EXTENT = "inode [0x200000402:0x17:0x0] object 0x0:41 extent [4096-8191]"
FORMS = [
    (f"{OSC}: This client was evicted by {OST}; in progress operations using this service will "
     "fail.", ("evicted", "", "client", OST, ())),
    (SILENT, ("evicted", "silent", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{SILENT} exp ffff88, cur 1795333379 expire 1795333378 last 1795333340",
     ("evicted", "silent", "server", OST, ("10.9.0.11@o2ib2",))),
    (LOCK, ("evicted", "lock", "server", OST, ("10.9.0.11@o2ib2",))),
    (LOCK.replace(f"filter-{OST}", "mdt-scratch-MDT0001"),
     ("evicted", "lock", "server", "scratch-MDT0001", ("10.9.0.11@o2ib2",))),
    (f"{OST}: A client on nid fd00:172:16:11::5@tcp was evicted due to a lock glimpse callback "
     "time out: rc -107", ("evicted", "lock", "server", OST, ("fd00:172:16:11::5@tcp",))),
    (f"{OST}: evicting {UUID} (at 10.9.0.11@o2ib2) by administrative request",
     ("evicted", "administrator", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: evicting {UUID} at adminstrative request",
     ("evicted", "administrator", "server", OST, ())),
    (f"{OST}: disconnect stale client {UUID}@10.9.0.11@o2ib2",
     ("evicted", "recovery", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: disconnecting 23 stale clients", ("recovery", "", "server", OST, ())),
    (LOST + "wait for recovery to complete",
     ("connection_lost", "", "client", OST, ("10.9.0.3@o2ib",))),
    (LOST + "fail", ("connection_lost", "", "client", OST, ("10.9.0.3@o2ib",))),
    ("MGC10.9.0.1@o2ib: Connection to MGS (at 10.9.0.1@o2ib) was lost; in progress operations "
     "using this service will fail", ("connection_lost", "", "", "MGS", ("10.9.0.1@o2ib",))),
    (f"{OSC}: Connection restored to {OST} (at 10.9.0.3@o2ib)",              # up to 2.7
     ("connection_restored", "", "client", OST, ("10.9.0.3@o2ib",))),
    (f"{OSC}: Connection restored to 10.9.0.3@o2ib (at 10.9.0.4@o2ib)",
     ("connection_restored", "", "client", OST, ("10.9.0.4@o2ib",))),
    (f"{OST}: Client {UUID} (at 10.9.0.11@o2ib2) reconnecting",
     ("client_reconnecting", "", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: Client {UUID} (at 10.9.0.11@o2ib2) reconnected, waiting for 41 clients in recovery "
     "for 4:37", ("client_reconnecting", "", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: Will be in recovery for at least 5:00, or until 41 clients reconnect",
     ("recovery", "", "server", OST, ())),
    (f"{OST}: Will be in recovery for at least 5:00, or until 1 client reconnects",
     ("recovery", "", "server", OST, ())),
    (f"{OST}: Recovery over after 1:37, of 41 clients 18 recovered and 23 were evicted.",
     ("recovery", "", "server", OST, ())),
    (f"{OST}: recovery is timed out, evict stale exports", ("recovery", "", "server", OST, ())),
    (f"{OST}: Recovery already passed deadline 4:37, It is most likely due to DNE recovery is "
     "failed or stuck, please wait a few more minutes or abort the recovery.",
     ("recovery", "", "server", OST, ())),
    (f"{OST}: Denying connection for new client {UUID}(at 10.9.0.11@o2ib2), waiting for 41 known "
     "clients (18 recovered, 23 in progress, and 0 evicted) to recover in 4:37",
     ("recovery", "", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: Aborting recovery", ("recovery", "", "server", OST, ())),
    (f"### lock timed out (enqueued at 1795333340, 300s ago), entering recovery for "
     f"{OST}_UUID@10.9.0.3@o2ib ns: {OSC} lock: ffff88/0x7c lrc: 3",
     ("lock_timeout", "", "client", OST, ())),
    ("### lock timed out (enqueued at 1795333340, 300s ago); not entering recovery in server code, "
     "just going back to sleep ns: mdt-scratch-MDT0001_UUID lock: ffff88/0x7c lrc: 3",
     ("lock_timeout", "", "server", "scratch-MDT0001", ())),
    ("lock timed out (enqueued at 1795333340, 300s ago)", ("lock_timeout", "", "", "", ())),
    (TIMED_OUT, ("timeouts", "", "client", OST, ("10.9.0.3@o2ib",))),
    (TIMED_OUT.replace(f"{OSC}@10.9.0.3@o2ib", "MGC10.9.0.1@tcp@fd00:17::1@tcp"),
     ("timeouts", "", "", "", ("fd00:17::1@tcp",))),
    (TIMED_OUT.replace("timed out for slow reply", "failed due to network error"),
     ("timeouts", "", "client", OST, ("10.9.0.3@o2ib",))),
    ("scratch: dirty page discard: 10.9.0.1@o2ib:/scratch/fid: [0x200000007:0x1:0x0]/a may get "
     "corrupted (rc -108)", ("data_lost", "", "client", "", ())),
    (f"{OSC}: BAD WRITE CHECKSUM: changed on the client after we checksummed it - likely false "
     f"positive due to mmap IO (bug 11742): from 10.9.0.3@o2ib {EXTENT}, original client csum "
     "8c1d0f3a (type 20), server csum 5be2a417 (type 20), client csum now 5be2a417",
     ("checksum_error", "", "client", OST, ("10.9.0.3@o2ib",))),
    (f"{OSC}: BAD READ CHECKSUM: from 10.9.0.3@o2ib via 10.8.0.7@tcp {EXTENT}, client "
     "8c1d0f3a/8c1d0f3a, server 5be2a417, cksum_type 4",
     ("checksum_error", "", "client", OST, ("10.9.0.3@o2ib",))),
    (f"{OSC}: BAD READ CHECKSUM: from 10.9.0.3@o2ib inode [0:0x0:0x0] object 0:41 extent [0-0], "
     "client 8c1d0f3a, server 5be2a417, cksum_type 4",                        # up to 2.12
     ("checksum_error", "", "client", OST, ("10.9.0.3@o2ib",))),
    (f"{OST}: BAD READ CHECKSUM: should have changed on the client or in transit: from "
     f"10.9.0.11@o2ib2 {EXTENT}, client returned csum 8c1d0f3a (type 20), server csum 5be2a417 "
     "(type 20)", ("checksum_error", "", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: BAD WRITE CHECKSUM: from 12345-10.9.0.11@o2ib2 {EXTENT}: client csum 8c1d0f3a, "
     "server csum 5be2a417", ("checksum_error", "", "server", OST, ("10.9.0.11@o2ib2",))),
    (f"{OST}: device reported unhealthy", ("not_healthy", "", "server", OST, ())),
    ("ost_io: unhealthy - request has been waiting 1237s", ("not_healthy", "", "", "", ())),
    ("LBUG", ("lbug", "", "", "", ())),
    ("ASSERTION( atomic_read(&a->b) == 0 ) failed: 23", ("lbug", "", "", "", ())),
    ("ASSERTION( 0 ) failed: ", ("lbug", "", "", "", ())),
    (f"server umount {OST} complete", ("target_down", "", "server", OST, ())),
    (f"Failing over {OST}", ("target_down", "", "server", OST, ())),
    ("server umount MGS complete", ("target_down", "", "server", "MGS", ())),
    (f"{OST}: Imperative Recovery not enabled, recovery window 300-900",
     ("target_up", "", "server", OST, ())),
    (f"{OST}: Imperative Recovery enabled, recovery window shrunk from 300-900 down to 150-900",
     ("target_up", "", "server", OST, ())),
    (f"setting import {OST}_UUID INACTIVE by administrator request",
     ("deactivated", "", "", OST, ())),
    (f"{OSC}: operation ost_statfs to node 10.9.0.3@o2ib failed: rc = -107",
     ("other", "", "client", OST, ("10.9.0.3@o2ib",)))]


@pytest.mark.parametrize("text, expected", FORMS, ids=[
    f"{number}-{expected[0]}" for number, (_, expected) in enumerate(FORMS)])
def test_each_form_has_its_kind(text, expected):
    found = said(text, "LustreError")
    assert expected == (found.kind, found.cause, found.speaker, found.target, found.nids)
    assert found.file_system == ("scratch" if "scratch" in text else "")
    assert found.device in ("", text.partition(": ")[0]) or expected[0] == "timeouts"
    assert found == said(f"167-0: {text}", "LustreError")._replace(code="")
    assert found == said(f"23:0:(a.c:37:f()) {text}", "LustreError")._replace(place="", pid=None)


@pytest.mark.parametrize("text", [text for text, (kind, *_) in FORMS if kind != "other"])
def test_a_message_with_more_or_less_in_it_is_another(text):
    """So that the words alone, in a name or in a path, are no event."""
    assert "" == said("x" + text).kind or text.startswith(("scratch", "MGC", "ost_io"))
    assert "" == said(f"/mnt/{OST}: a file: {text}").kind
    assert "other" == said(f"a b: {text}", "LustreError").kind


def test_every_kind_has_a_form():
    assert set(kernel_log.KINDS) == {expected[0] for _, expected in FORMS}


def test_what_is_no_error_and_has_no_kind_is_no_event():
    for text in (f"Failing over {OSC}", "Lustre: Build Version: 2.17.57",
                 f"{OST}: new disk, initializing", "Mounted scratch-client",
                 "Evicted from MGS (at 10.9.0.1@o2ib) after server handle changed from 0x1 to 0x2"):
        assert "" == said(text).kind


def test_clients_clocks_and_counts():
    found = said(f"{SILENT} exp ffff88, cur 1795333379 deadline 1795333378 last 1795333340")
    assert (UUID, 1_795_333_379, 1) == (found.client, found.wall_s, found.count)
    assert 23 == said(f"{OST}: Recovery over after 1:37, of 41 clients 18 recovered and 23 were "
                      "evicted.").count
    assert 37 == said(f"{OST}: disconnecting 37 stale clients").count
    assert UUID == said(f"{OST}: evicting {UUID} at adminstrative request").client


@pytest.mark.parametrize("text, count", [("Skipped 1 previous similar message", 1),
                                         ("Skipped 237 previous similar messages", 237)])
def test_how_many_were_not_printed(text, count):
    """From 2.16 on, and before, with and without the place that skipped them."""
    for before in ("", "23:0:(ldlm_lib.c:1187:target_handle_connect()) "):
        found = said(before + text, "LustreError")
        assert ("skipped", count) == (found.kind, found.count)


@pytest.mark.parametrize("text, kind", [
    ("Received MDS connection from 10.9.0.4@o2ib, removing former export from 10.9.0.3@o2ib",
     "replaced"),
    ("Received new LWP connection from 10.9.0.4@o2ib, remove former export from same NID",
     "replaced"),
    ("Received new MDS connection from 10.9.0.4@o2ib, keep former export from same NID", ""),
])
def test_a_storage_server_that_came_back_is_no_client(text, kind):
    """2.15.8 to 2.17.0; `keep`: then nothing is evicted."""
    found = said(f"{OST}: {text}", "Lustre")
    assert (kind, OST) == (found.kind, found.device)


def test_a_path_in_a_message_names_no_storage_server():
    found = said("scratch: dirty page discard: 10.9.0.1@o2ib:/scratch/fid: [0x2:0x1:0x0]/ "
                 "1.2.3.4@tcp may get corrupted (rc -108)")
    assert ("data_lost", ()) == (found.kind, found.nids)


# -- hostile ones --------------------------------------------------------------------------------

def test_a_text_is_bounded_and_fit_for_a_terminal():
    found = parse_message(parse_record(rb"3,23,37,-;LustreError: \x1b[2J" + b"\xff\0@" * 500_000))
    assert "other" == found.kind
    assert is_printable(found.text) and len(found.text) <= 1000
    assert found.text.startswith("\\x1b[2J")
    assert None is parse_record(b"3,23,37,-" + b"a" * 1_000_000)


@given(st.one_of(st.binary(max_size=300), st.builds(
    lambda text, at, junk: (text[:at] + junk + text[at:]).encode("utf-8", "surrogateescape"),
    st.sampled_from([text for text, _ in FORMS]), st.integers(0, 200), st.text(max_size=20))),
    st.sampled_from([b"3,23,37,-;LustreError: ", b"[    0.000037] Lustre: ", b""]))
def test_any_bytes_are_a_message_or_none(data, head):
    for found in (parse_record(head + data), parse_dmesg_line(head + data)):
        told = found and parse_message(found)
        if told:
            assert told.kind in (*kernel_log.KINDS, "skipped", "replaced", "")
            assert is_printable(told.text) and len(told.text) <= 1000
            assert told.kind or not told.label.endswith("Error") or not told.text
            assert len(told.nids) <= 4 and all(len(nid) <= 100 for nid in told.nids)


# -- real ones -----------------------------------------------------------------------------------

def messages(path, read):
    records = [read(line) for line in path.read_bytes().splitlines()]
    assert None not in records
    return [(one, parse_message(one)) for one in records]


def test_the_log_of_a_server_that_lost_a_client():
    """Killed at 07:42:23.657; evicted 39 and 82 s after its last ping at 07:42:20."""
    boot_ns = 1_795_333_379_000_000_000 - 758_211_829_000
    found = [(one, told) for one, told in messages(shared(
        "captures", "2.17.57-c", "s09_killed_and_evicted", "server", "kmsg.txt"), parse_record)
        if told.kind not in ("", "target_up")]
    assert [
        (426, "skipped", "", (), "", None, 1),
        (444, "evicted", "lustre-MDT0000", ("10.77.0.12@tcp",), UUID, 1_795_333_379, 1),
        (445, "skipped", "", (), "", None, 1),
        (446, "evicted", "lustre-OST0001", ("10.77.0.12@tcp",), UUID, 1_795_333_422, 1)] == [
        (one.sequence, told.kind, told.target, told.nids, told.client, told.wall_s, told.count)
        for one, told in found]
    # Two clocks, 43.15 s later by the one and 43 s by the other.
    assert 43_154_454 == found[3][0].usec - found[1][0].usec
    assert 1_795_333_422 == (boot_ns + found[3][0].usec * 1000) // 10**9


def test_its_other_client_saw_nothing():
    for log in ("kmsg.txt", "dmesg.txt"):
        path = shared("captures", "2.17.57-c", "s09_killed_and_evicted", "c1", log)
        found = messages(path, parse_record if log == "kmsg.txt" else parse_dmesg_line)
        assert ["", "", "", ""] == [told.kind for _, told in found]


def test_dmesg_and_dev_kmsg_say_the_same():
    path = shared("captures", "2.17.57-c", "s09_killed_and_evicted", "server")
    kmsg, dmesg = messages(path / "kmsg.txt", parse_record), messages(path / "dmesg.txt",
                                                                      parse_dmesg_line)
    assert [(one.usec, told) for one, told in kmsg] == [(one.usec, told) for one, told in dmesg]


EVICTION = [("other", "MDT0000"), ("connection_lost", "MDT0000"), ("evicted", "MDT0000"),
            ("other", ""), ("connection_restored", "MDT0000")]


@pytest.mark.parametrize("release, expected", [
    ("2.15.8", [*EVICTION, ("evicted", "OST0001")]),
    ("2.17.57-client", None), ("2.17.57", [
        ("evicted", "OST0001"), *EVICTION, ("other", "OST0001"), ("connection_lost", "OST0001"),
        ("evicted", "OST0001"), ("connection_restored", "OST0001")])])
def test_an_eviction_by_the_administrator(release, expected):
    """OST0001 and the MDT forgot the client; what the log of its node has of it."""
    path = shared("captures", release, "s16_evicted", "dmesg.txt")
    found = [(told.kind, told.target.rpartition("-")[2]) for _,
             told in messages(path, parse_dmesg_line)
             if told.kind not in ("", "skipped", "target_up")]
    if expected is None:
        assert {"MDT0000", "OST0001"} == {target for kind, target in found if kind == "evicted"}
    else:
        assert expected == found


@pytest.mark.parametrize("path", samples("captures", "*/s19_idle/dmesg.txt"))
def test_every_line_of_a_real_log_is_lustres_own(path):
    """And each error in it has a kind, a target and a speaker, or is of llite."""
    for _, told in messages(path, parse_dmesg_line):
        assert told is not None
        if told.kind in ("evicted", "connection_lost", "connection_restored", "target_down"):
            assert told.file_system == "lustre" and told.target.startswith("lustre-")
            assert told.speaker in ("client", "server")
