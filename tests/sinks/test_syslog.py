"""
Events as syslog messages: their form by hand, by a parser of RFC 5424's grammar, and by a real
rsyslog; and what becomes of them while no log server is there.
"""
from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest
from event_desk import an_event
from hypothesis import given
from hypothesis import strategies as st
from processes import free_port, until
from sink_desk import Said, config_of, number_of

from iostats.base.addresses import Addresses
from iostats.base.errors import ConfigError
from iostats.sinks import syslog
from iostats.sinks.syslog import sender
from iostats.sinks.syslog.messages import add_length_prefix, format_local_message, format_message

# 2026-11-22 12:03:11.041 UTC
AT = 1795348991.041
NAMES = {"10.9.0.11@o2ib": "node11"}
EVICTED = dict(id="8c1d0f3a5be2a417", time=AT, last=AT + 2, severity=2, kind="evicted",
               cause="silent", node="oss3", file_system="scratch", target="scratch-OST0003",
               clients=("10.9.0.11@o2ib", "10.9.0.12@o2ib"), count=2, skipped=37,
               message="scratch-OST0003: haven't heard from client")


def test_an_event_by_rfc_5424():
    """Byte for byte, and with its length for TCP."""
    expected = (
        b'<26>1 2026-11-22T12:03:11.041000Z oss3 iostats - evicted [iostats@32473 '
        b'id="8c1d0f3a5be2a417" kind="evicted" cause="silent" fs="scratch" '
        b'target="scratch-OST0003" clients="node11 10.9.0.12@o2ib" count="2" skipped="37" '
        b'last="2026-11-22T12:03:13.041000Z"] scratch-OST0003: haven\'t heard from client')
    assert expected == format_message(an_event(**EVICTED), NAMES, 3, "iostats@32473")
    assert b"%d " % len(expected) + expected == add_length_prefix(expected)


def test_an_event_as_a_local_daemon_takes_it(monkeypatch):
    """The local time, which has no year; so its time stands in the data as well."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        found = format_local_message(an_event(**{**EVICTED, "time": AT - 13 * 86400}), NAMES, 17,
                                     "iostats@32473")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.startswith(b"<138>Nov  9 12:03:11 iostats: oss3: scratch-OST0003: haven't heard "
                            b"from client [iostats@32473 id=\"8c1d0f3a5be2a417\" "
                            b"time=\"2026-11-09T12:03:11.041000Z\" kind=")


@pytest.mark.parametrize("severity, priority", [(0, 30), (1, 28), (2, 26), (3, 25)])
def test_severities(severity, priority):
    """daemon.info, warning, crit, alert; emerg would be shown on all terminals."""
    assert format_message(an_event(severity=severity), {}, 3,
                          "a@1").startswith(b"<%d>1 " % priority)


def test_a_message_that_is_not_ascii_begins_with_the_mark():
    """RFC 5424, 6.4: MSG-UTF8 has a BOM."""
    assert format_message(an_event(message="Übertragung"), {}, 3, "a@1").endswith(
        b"] \xef\xbb\xbf" + "Übertragung".encode())


# SYSLOG-MSG of RFC 5424, 6, as a pattern.
GRAMMAR = re.compile(
    rb"<(?P<pri>[0-9]{1,3})>1 "
    rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)) "
    rb"(?P<host>[!-~]{1,255}) (?P<app>[!-~]{1,48}) (?P<proc>[!-~]{1,128}) (?P<msgid>[!-~]{1,32}) "
    rb"(?P<sd>(?:\[[!#-<>-\\^-~]{1,32}(?: [!#-<>-\\^-~]{1,32}=\"(?:[^\"\\\]]|\\[\"\\\]])*\")*\])+)"
    rb"(?: (?P<msg>.*))?", re.S)
TEXT = st.text(max_size=80)


@given(node=TEXT, target=TEXT, text=TEXT, clients=st.lists(TEXT, max_size=8),
       moment=st.floats(0, 2**53), names=st.dictionaries(TEXT, TEXT))
def test_whatever_an_event_has_the_message_keeps_to_the_grammar(node, target, text, clients, moment,
                                                               names):
    """Of RFC 5424; and it fits into the 2048 bytes that receivers take."""
    event = an_event(node=node, target=target, message=text, clients=tuple(clients), time=moment,
                     last=moment, over=moment)
    found = format_message(event, names, 3, "iostats@32473")
    parts = GRAMMAR.fullmatch(found)
    assert parts, found
    parts["sd"].decode("utf-8")
    assert len(found) < 8192
    format_local_message(event, names, 3, "iostats@32473")


def test_an_ordinary_message_fits_into_what_receivers_take():
    """2048 bytes: RFC 5424, 6.1."""
    event = an_event(**{**EVICTED, "message": "x" * 500, "over": AT + 43,
                        "clients": tuple(f"10.9.0.{n}@o2ib2" for n in range(8))})
    assert len(format_message(event, {}, 23, "iostats@32473")) < 2048


# -- the sink ------------------------------------------------------------------------------------

def made(where, said=None, **options):
    config = config_of(syslog_send_to=where, **{f"syslog_{k}": v for k, v in options.items()})
    return syslog.make(config, said if said is not None else Said(), lambda: AT + 23)


class Receiver:
    """A log server: what came, as it came."""

    def __init__(self, port=0):
        self.listening = socket.create_server(("127.0.0.1", port))
        self.port, self.parts, self.taken = self.listening.getsockname()[1], [], []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                one, _ = self.listening.accept()
            except OSError:
                return
            self.taken.append(one)
            threading.Thread(target=self._read, args=(one,), daemon=True).start()

    def _read(self, one):
        while True:
            try:
                data = one.recv(65536)
            except OSError:
                return
            if not data:
                return
            self.parts.append(data)

    def ids(self):
        return re.findall(rb'id="([0-9a-f]+)"', b"".join(self.parts))

    def close(self):
        if self.listening.fileno() < 0:
            return
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for one in self.taken:
            one.shutdown(socket.SHUT_RDWR)
            one.close()


def ids(*numbers):
    return [an_event(id=f"{number:016x}", time=AT, last=AT) for number in numbers]


def test_a_log_server_that_comes_later_gets_all(monkeypatch):
    """Each once and in order; it is said once that it was away, and once that it is back."""
    monkeypatch.setattr(sender, "AGAIN_S", (0.01, 0.02))
    port, said = free_port(), Said()
    sink = made(f"tcp://127.0.0.1:{port}", said)
    told = []
    thread = threading.Thread(target=lambda: told.append(sink.store_events(ids(23, 37, 41), {})))
    thread.start()
    until(lambda: number_of(sink, "iostats_syslog_failures") > 3, what="some tries")
    receiver = Receiver(port)
    thread.join(20)
    until(lambda: len(receiver.ids()) == 3, what="all are there")
    sink.close()
    receiver.close()
    assert [3] == told
    assert [b"%016x" % number for number in (23, 37, 41)] == receiver.ids()
    assert 2 == len(said)
    assert re.fullmatch(r"syslog: tcp://127\.0\.0\.1:\d+: Connection refused; events wait in the "
                        r"site's store \(\[syslog\] max_age\); .*", said[0])
    assert re.fullmatch(r"syslog: tcp://127\.0\.0\.1:\d+ takes messages again, after \d+ s",
                        said[1])


def test_a_log_server_that_was_restarted_gets_what_comes_then(monkeypatch):
    """Its end is seen before the next message is written into nothing."""
    monkeypatch.setattr(sender, "AGAIN_S", (0.01, 0.02))
    first = Receiver()
    sink = made(f"tcp://127.0.0.1:{first.port}")
    sink.store_events(ids(23), {})
    until(first.ids, what="the first")
    first.close()
    second = Receiver(first.port)
    assert 2 == sink.store_events(ids(37, 41), {})
    until(lambda: len(second.ids()) == 2, what="the others")
    sink.close()
    second.close()


def test_a_log_server_that_never_reads_is_two_lines(monkeypatch):
    """It takes some messages after each new connection; at the end nothing is said either."""
    monkeypatch.setattr(sender, "AGAIN_S", (0.01, 0.02))
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.bind(("127.0.0.1", 0))
    silent.listen(100)
    said = Said()
    sink = made(f"tcp://127.0.0.1:{silent.getsockname()[1]}", said, timeout=1)
    events = [an_event(id=f"{number:016x}", time=AT, last=AT, message="x" * 500)
              for number in range(200_000)]
    thread = threading.Thread(target=sink.store_events, args=(events, {}))
    thread.start()
    until(lambda: number_of(sink, "iostats_syslog_failures") >= 4, what="some tries")
    sink.close()
    thread.join(20)
    silent.close()
    assert ["timed out", "takes messages again"] == [
        text for line in said for text in ("timed out", "takes messages again") if text in line]


def test_a_name_that_hangs_is_given_up_after_the_timeout(monkeypatch):
    wake = threading.Event()
    monkeypatch.setattr(sender, "_addresses", Addresses(lambda *_, **__: wake.wait(60) and []))
    said = Said()
    sink = made("udp://log1:514", said, timeout=1)
    thread = threading.Thread(target=sink.store_events, args=(ids(23), {}))
    thread.start()
    until(lambda: said, what="a line")
    sink.close()
    thread.join(20)
    wake.set()
    assert "no address of log1 within 1 s: the name server does not answer" in said[0]


def test_the_end_keeps_what_is_not_sent(monkeypatch):
    """It says how many are; close() is called while it waits."""
    sink = made(f"tcp://127.0.0.1:{free_port()}")
    told = []
    thread = threading.Thread(target=lambda: told.append(sink.store_events(ids(23, 37), {})))
    thread.start()
    until(lambda: number_of(sink, "iostats_syslog_failures"), what="a try")
    sink.close()
    thread.join(20)
    assert [0] == told


def test_a_udp_port_without_a_receiver_is_seen_on_this_host(monkeypatch):
    """So no event is lost there; over a network UDP tells nothing."""
    monkeypatch.setattr(sender, "AGAIN_S", (0.01, 0.02))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    sink = made(f"udp://127.0.0.1:{port}")
    thread = threading.Thread(target=sink.store_events, args=(ids(23, 37), {}))
    thread.start()
    until(lambda: number_of(sink, "iostats_syslog_failures") > 2, what="some tries")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", port))
        receiver.settimeout(20)
        found = [receiver.recv(4096) for _ in range(2)]
    thread.join(20)
    sink.close()
    assert [b'id="0000000000000017"', b'id="0000000000000025"'] == [
        re.search(rb'id="\w+"', one)[0] for one in found]
    assert 2 == number_of(sink, "iostats_syslog_sent_events")


def test_what_is_too_old_or_too_small_is_left_out():
    """max_age by its last, severity by its number."""
    receiver = Receiver()
    sink = made(f"tcp://127.0.0.1:{receiver.port}", severity="warning", max_age=60)
    events = [an_event(id=f"{n:016x}", time=AT - age, last=AT - age, severity=severity)
              for n, age, severity in ((23, 0, 0), (37, 38, 1), (41, 36, 1), (43, 0, 3))]
    assert 4 == sink.store_events(events, {})
    until(lambda: len(receiver.ids()) == 2, what="the others")
    sink.close()
    receiver.close()
    assert [b"%016x" % 41, b"%016x" % 43] == receiver.ids()
    assert 1 == number_of(sink, "iostats_syslog_left_out_events")


@pytest.mark.parametrize("where", [
    "log1:514", "udp://", "http://log1:514", "udp://log1:0", "tcp://log1:70000",
    "tcp://log1", "udp://[fd00::7]", "udp://fd00::7:514", "tcp://a b:1"])
def test_an_address_that_is_none(where):
    """One line with what was expected."""
    with pytest.raises(ConfigError, match=re.escape(
            "the test: [syslog] send_to: expected udp://HOST:PORT, tcp://HOST:PORT or a path such "
            "as /dev/log, got " + repr(where))):
        made(where)


@pytest.mark.parametrize("sd_id", ["iostats", "io stats@1", "a@", "@1", "a=b@1", 'a"@1', "a@1x",
                                   "a" * 31 + "@1"])
def test_a_name_of_structured_data_that_is_none(sd_id):
    """RFC 5424, 6.3.2."""
    with pytest.raises(ConfigError, match=r"\[syslog\] sd_id: expected NAME@NUMBER"):
        made("/dev/log", sd_id=sd_id)


# -- a real one ----------------------------------------------------------------------------------

RSYSLOG = """
module(load="imuxsock" SysSock.Use="off")
module(load="imtcp")
module(load="imudp")
input(type="imuxsock" Socket="{directory}/log")
input(type="imtcp" port="{port}" address="127.0.0.1")
input(type="imudp" port="{port}" address="127.0.0.1")
template(name="json" type="list" option.jsonf="on") {{
  property(name="pri" outname="pri" format="jsonf")
  property(name="timereported" dateFormat="rfc3339" outname="time" format="jsonf")
  property(name="hostname" outname="host" format="jsonf")
  property(name="programname" outname="program" format="jsonf")
  property(name="msgid" outname="msgid" format="jsonf")
  property(name="structured-data" outname="sd" format="jsonf")
  property(name="msg" outname="msg" format="jsonf") }}
action(type="omfile" file="{directory}/out" template="json")
"""


@pytest.fixture
def rsyslog(tmp_path):
    """(directory, port) of one that runs."""
    if not shutil.which("rsyslogd"):
        pytest.skip("needs Debian's rsyslog")
    port = free_port()
    (tmp_path / "rsyslog.conf").write_text(RSYSLOG.format(directory=tmp_path, port=port))
    process = subprocess.Popen(["rsyslogd", "-n", "-f", tmp_path / "rsyslog.conf", "-i",
                                tmp_path / "pid"], stderr=subprocess.PIPE)
    until(lambda: (tmp_path / "log").exists() and _connects(port), what="rsyslog listens")
    yield tmp_path, port
    process.terminate()
    process.communicate(timeout=20)


def _connects(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.rsyslog
@pytest.mark.parametrize("way", ["udp", "tcp", "local"])
def test_a_real_rsyslog_understands_every_part(rsyslog, way):
    """Two events, of which one has a bracket, a quote and an umlaut."""
    directory, port = rsyslog
    sink = made(f"{directory}/log" if way == "local" else f"{way}://127.0.0.1:{port}",
                facility="local3")
    odd = an_event(**{**EVICTED, "target": 'a"b]\\', "message": "Über"})
    assert 2 == sink.store_events([an_event(**EVICTED), odd], NAMES)
    out = directory / "out"
    until(lambda: out.exists() and out.read_bytes().count(b"\n") == 2, what="both are written")
    sink.close()
    first, second = map(json.loads, out.read_text().splitlines())
    assert ("154", "iostats") == (first["pri"], first["program"])
    if way == "local":
        assert first["msg"].startswith(" oss3: scratch-OST0003: haven't heard from client [iostats@"
                                       "32473 id=\"8c1d0f3a5be2a417\" time=\"2026-11-22T12:03:11")
        return
    assert ("2026-11-22T12:03:11.041000Z", "oss3", "evicted") == (
        first["time"], first["host"], first["msgid"])
    assert ('[iostats@32473 id="8c1d0f3a5be2a417" kind="evicted" cause="silent" fs="scratch" '
            'target="scratch-OST0003" clients="node11 10.9.0.12@o2ib" count="2" skipped="37" '
            'last="2026-11-22T12:03:13.041000Z"]') == first["sd"]
    assert "scratch-OST0003: haven't heard from client" == first["msg"]
    assert 'target="a\\"b\\]\\\\"' in second["sd"]
    assert second["msg"].endswith("Über")
