"""The collector's port: XML-RPC and JSON-RPC by HTTP, from outside; see collector_desk.py."""
from __future__ import annotations

import http.client
import json
import socket
import subprocess
import xmlrpc.client

import pytest
from collector_desk import NODE, NOW, KnownMachine, collector, evicted
from processes import until

CALL = xmlrpc.client.dumps((0,), "getTraps")


@pytest.fixture
def desk():
    with collector() as one:
        yield one


# -- getTraps -----------------------------------------------------------------------------------

def test_traps_are_triples_and_a_time_stamp_as_the_specification_has_them(desk):
    desk.take(evicted(23), evicted(37, count=41))
    traps, stamp = desk.proxy.getTraps(0)
    assert [[2, NODE], [2, NODE]] == [[category, node] for _, category, node in traps]
    assert all("evicted scratch-OST0003" in message for message, _, _ in traps)
    assert [False, True] == ["41x" in message for message, _, _ in traps] and stamp == NOW


def test_who_passes_the_time_stamp_on_misses_none_and_gets_none_twice(desk):
    """Also within one second, and where the clock is set back."""
    desk.take(evicted(1))
    _, stamp = desk.proxy.getTraps(0)
    seen = []
    for number in range(2, 23):
        desk.take(evicted(number, count=number))
        if number % 5 == 0:
            desk.clock.now += 1
        if number == 13:
            desk.clock.now -= 3600
        if number % 3 == 0:
            traps, stamp = desk.proxy.getTraps(stamp)
            seen += [message for message, _, _ in traps]
    traps, stamp = desk.proxy.getTraps(stamp)
    seen += [message for message, _, _ in traps]
    assert [f"{number}x" for number in range(2, 23)] == [
        next(word for word in message.split() if word.endswith("x")) for message in seen]
    assert [[], stamp] == desk.proxy.getTraps(stamp)


def test_an_event_that_grew_is_given_again_and_says_from_what(desk):
    desk.take(evicted(23, count=23))
    _, stamp = desk.proxy.getTraps(0)
    desk.take(evicted(23, count=23))                   # the same again
    assert [] == desk.proxy.getTraps(stamp)[0]
    desk.take(evicted(23, count=41))
    [[message, _, _]], later = desk.proxy.getTraps(stamp)
    assert message.endswith("[was 23x, is 41x]")
    assert [] == desk.proxy.getTraps(later)[0]
    desk.take(evicted(23, count=37))                   # an older copy
    assert [] == desk.proxy.getTraps(later)[0]
    desk.take(evicted(23, count=41, over=NOW + 2.0))   # the client is back
    [[message, _, _]], _ = desk.proxy.getTraps(later)
    assert "over after 43 s" in message and message.endswith("[reported before]")


def test_the_traps_of_the_last_two_hours_are_those_that_happened_then(desk):
    """When a collector begins, the log has what is older, too."""
    desk.take(evicted(1, at=NOW - 9000), evicted(2, at=NOW - 7100), evicted(3, at=NOW - 1))
    assert [2, 3] == sorted(3 if f":{(NOW - 1) % 60:02} " in message else 2
                            for message, _, _ in desk.proxy.getTraps(NOW - 7200)[0])
    assert 3 == len(desk.proxy.getTraps(0)[0])


def test_of_too_many_the_gravest_and_newest_are_given_and_the_rest_is_counted():
    with collector(maxtraps=5) as desk:
        desk.take(*(evicted(number, at=NOW - 100 + number) for number in range(37)))
        desk.take(evicted(99, at=NOW - 200)._replace(severity=3, kind="lbug"))
        traps, stamp = desk.proxy.getTraps(0)
        assert [2, 2, 2, 3, 2] == [category for _, category, _ in traps]
        assert traps[-1][0].startswith("events_dropped: 34 more events, which are not in this "
                                       "answer (maxtraps 5): 34 evicted")
        assert [[], stamp] == desk.proxy.getTraps(stamp)


def test_what_is_no_longer_kept_since_the_time_stamp_is_said():
    with collector(maxtraps=5, keep=10) as desk:
        desk.take(evicted(99))
        _, stamp = desk.proxy.getTraps(0)
        desk.take(*map(evicted, range(23)))
        traps, later = desk.proxy.getTraps(stamp)
        assert 5 == len(traps) and traps[-2][0].startswith("events_dropped: 7 more events")
        assert traps[-1][0].startswith("events_dropped: 13 more events were received since then")
        assert [] == desk.proxy.getTraps(later)[0]


def test_exactly_as_many_as_may_be_given_are_given():
    with collector(maxtraps=5) as desk:
        desk.take(*map(evicted, range(5)))
        assert 5 == len(desk.proxy.getTraps(0)[0])
        assert not any("more events" in message for message, _, _ in desk.proxy.getTraps(0)[0])


def test_after_2038_a_time_stamp_is_a_double_and_is_taken_back(desk):
    desk.clock.now = 2**31 + 41
    desk.take(evicted(1, at=2**31))
    traps, stamp = desk.proxy.getTraps(0)
    assert (1, 2.0**31 + 41, float) == (len(traps), stamp, type(stamp))
    desk.take(evicted(2, at=2**31))
    assert 1 == len(desk.proxy.getTraps(stamp)[0])


# -- the others ---------------------------------------------------------------------------------

ABOUT = {"fileSystems": ["home", "scratch"], "freeDiskSpace": 23 << 40, "health": "healthy",
         "targets": [{"name": "scratch-MDT0000", "state": "up", "clients": None}]}


@pytest.fixture
def known():
    with collector(source=KnownMachine(**ABOUT)) as one:
        one.take(evicted(23), evicted(37, "data-OST0001", "10.9.0.37@o2ib2"))
        yield one


def test_names_of_nodes_are_those_that_are_known_of_a_file_system(known):
    assert ["10.9.0.11@o2ib2", "10.9.0.37@o2ib2", NODE] == known.proxy.getNodesNames("")
    assert ["10.9.0.37@o2ib2", NODE] == known.proxy.getNodesNames("data")
    assert [] == known.proxy.getNodesNames("nothing")
    assert known.proxy.getNodesNames("") == known.call("getNodesNames", "")


def test_a_nodes_info_has_its_space_and_its_last_trap(known):
    info = known.proxy.getNodeInfo(NODE)
    assert float(23 << 40) == info["freeDiskSpace"] and 2 == info["traps"]
    assert ["data", "home", "scratch"] == info["fileSystems"]
    assert [{"name": "scratch-MDT0000", "state": "up"}] == info["targets"]
    assert "evicted" in info["lastTrap"] and NOW - 41 == info["lastTrapTime"]
    client = known.proxy.getNodeInfo("10.9.0.37@o2ib2")
    assert (1, ["data"]) == (client["traps"], client["fileSystems"])
    assert "freeDiskSpace" not in client               # not 0: it is not known


@pytest.mark.parametrize("method, name", [("getNodeInfo", "nid4711"), ("getNodeInfo", ""),
                                          ("getFileSystemInfo", "nothing"),
                                          ("getFileSystemInfo", "")])
def test_a_node_or_file_system_that_is_not_known_is_a_fault(known, method, name):
    with pytest.raises(xmlrpc.client.Fault) as failed:
        getattr(known.proxy, method)(name)
    assert -32010 == failed.value.faultCode and "is known" in failed.value.faultString
    assert failed.value.faultString == known.call(method, name)["message"]


def test_file_systems_are_names_and_without_one_an_empty_text(known):
    assert ["data", "home", "scratch"] == known.proxy.getFileSystems()
    with collector(source=KnownMachine()) as none:
        assert "" == none.proxy.getFileSystems()
        assert [] == none.call("getFileSystems")


def test_a_file_systems_info_counts_traps_and_names_who_does_not_respond(known):
    known.take(evicted(41, count=53, skipped=7, client="10.9.0.41@o2ib2"))
    info = known.proxy.getFileSystemInfo("scratch")
    assert (2, 54, 7) == (info["traps"], info["happenings"], info["notLogged"])
    assert {"info": 0, "warning": 0, "critical": 2, "fatal": 0} == info["bySeverity"]
    assert ["10.9.0.11@o2ib2", "10.9.0.41@o2ib2"] == info["notResponding"]
    assert 52 == info["notRespondingMore"]             # the 53 name one
    known.take(evicted(41, count=53, skipped=7, client="10.9.0.41@o2ib2", over=NOW + 3.0))
    assert ["10.9.0.11@o2ib2"] == known.proxy.getFileSystemInfo("scratch")["notResponding"]


# -- errors -------------------------------------------------------------------------------------

@pytest.mark.parametrize("method, params", [
    ("getTraps", ()), ("getTraps", (1, 2)), ("getFileSystems", (1,)), ("getNodeInfo", ()),
    ("getNodesNames", ("a", "b")), ("getFileSystemInfo", ())])
def test_a_wrong_number_of_arguments_is_an_error(desk, method, params):
    with pytest.raises(xmlrpc.client.Fault) as failed:
        getattr(desk.proxy, method)(*params)
    assert -32602 == failed.value.faultCode
    assert failed.value.faultString.endswith(f"got {len(params)}")
    assert -32602 == desk.call(method, *params)["code"] or not params


@pytest.mark.parametrize("method, params, code", [
    ("getTraps", ("today",), -32602), ("getTraps", (-1,), -32602), ("getTraps", (True,), -32602),
    ("getTraps", (2.0**53,), -32602), ("getNodeInfo", (23,), -32602),
    ("getNodesNames", ([],), -32602), ("shutdown", (), -32601), ("events", (), -32601),
    ("system.listMethods", (), -32601)])
def test_a_wrong_argument_or_method_is_a_fault_of_one_line(desk, method, params, code):
    with pytest.raises(xmlrpc.client.Fault) as failed:
        getattr(desk.proxy, method)(*params)
    assert code == failed.value.faultCode and failed.value.faultString.isprintable()


@pytest.mark.parametrize("method, value, why", [
    ("getTraps", "x", "time: expected a number, got a string"),
    ("getTraps", True, "time: expected a number, got true or false"),
    ("getNodeInfo", 23, "nodeName: expected a string, got an integer")])
def test_a_wrong_argument_is_told_by_its_name_in_the_monitors_words(desk, method, value, why):
    with pytest.raises(xmlrpc.client.Fault) as failed:
        getattr(desk.proxy, method)(value)
    assert f"{method}: {why}" == failed.value.faultString
    assert f"Invalid params: {why}" == desk.call(method, value)["message"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_only_post_is_answered(desk, method):
    status, headers, _ = desk.post(None, "", method)
    assert (405, "POST") == (status, headers["allow"])


def test_only_get_has_the_stream(desk):
    assert (405, "GET") == (lambda found: (found[0], found[1]["allow"]))(
        desk.post(None, "", "HEAD", "/events"))


@pytest.mark.parametrize("kind, body, status", [
    ("text/xml", CALL, 200), ("application/xml; charset=utf-8", CALL, 200),
    ("TEXT/XML", CALL, 200), ("application/json", "{}", 200),
    ("text/plain", CALL, 415), ("application/x-www-form-urlencoded", CALL, 415),
    ("multipart/form-data; boundary=a", CALL, 415), ("", CALL, 415)])
def test_what_a_page_may_send_without_asking_is_refused(desk, kind, body, status):
    """A form with enctype=text/plain can have any body."""
    assert status == desk.post(body, kind)[0]


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:8980"},
    {"Sec_Fetch_Site": "cross-site"}])
def test_a_page_in_a_browser_is_refused(desk, headers):
    """Whatever it asks for, the stream too."""
    assert 403 == desk.post(CALL, "text/xml", **headers)[0]
    assert 403 == desk.post(None, "", "GET", "/events", **headers)[0]
    assert 200 == desk.post(CALL, "text/xml", Host="mds1:8980")[0]


def test_an_address_that_is_not_allowed_is_refused_before_its_request_is_read():
    with collector(allow=["10.0.5.0/24", "::1"]) as desk:
        status, headers, body = desk.post(CALL, "text/xml")
        assert 403 == status and b"[collector] allow" in body and "close" == headers["connection"]
        with socket.create_connection(("127.0.0.1", desk.port), 30) as raw:
            raw.sendall(b"\0\xff no HTTP at all")
            assert raw.recv(65536).startswith(b"HTTP/1.1 403 ")
        with pytest.raises(xmlrpc.client.ProtocolError):
            desk.proxy.getTraps(0)


def test_ipv6_and_localhost_are_listened_at_together():
    if not socket.has_ipv6:
        pytest.skip("needs IPv6")
    with collector(host="localhost") as desk:
        ports = {one.getsockname()[:2] for one in desk._bound}
    assert {"127.0.0.1"} <= {address for address, _ in ports} <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize("address, allow, status", [
    ("::1", ["::1"], 200), ("::1", ["127.0.0.1"], 403), ("127.0.0.1", ["127.0.0.0/8"], 200),
    ("127.0.0.1", ["::ffff:127.0.0.0/104"], 200), ("127.0.0.1", ["::/0"], 403)])
def test_at_all_addresses_ipv4_comes_in_ipv6_and_is_known_as_what_it_is(address, allow, status):
    if ":" in address:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("needs IPv6")
    with collector(host="", allow=allow) as desk:
        connection = http.client.HTTPConnection(address, desk.port, timeout=30)
        connection.request("POST", "/", CALL, {"Content-Type": "text/xml"})
        assert status == connection.getresponse().status
        connection.close()


def test_a_call_that_is_too_long_is_told_the_limit_and_no_key_that_does_not_change_it():
    with collector() as desk:
        connection = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=30)
        connection.request("POST", "/", b"x" * 65537, {"Content-Type": "text/xml"})
        answer = connection.getresponse()
        assert 413 == answer.status
        assert answer.read().endswith(b'expected at most 65536 bytes"},"id":null}')
        connection.close()


@pytest.mark.parametrize("raw, status", [
    (b"GARBAGE\r\n\r\n", 400), (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
    (b"POST / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nContent-Type: text/xml\r\nContent-Encoding: gzip\r\n"
     b"Content-Length: 0\r\n\r\n", 415),
    (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"GET /events?after=-1 HTTP/1.1\r\n\r\n", 400),
    (b"GET /events?x=1 HTTP/1.1\r\n\r\n", 400),
    (b"GET /events HTTP/1.1\r\nLast-Event-ID: " + b"9" * 60 + b"\r\n\r\n", 400)])
def test_bad_http_is_answered_with_its_status_and_the_connection_ends(desk, raw, status):
    with socket.create_connection(("127.0.0.1", desk.port), 30) as one:
        one.sendall(raw)
        assert one.makefile("rb").read().startswith(b"HTTP/1.1 %d " % status)
    assert [[], NOW] == desk.proxy.getTraps(0)


def test_a_huge_body_in_chunks_is_refused_while_it_comes(desk):
    with socket.create_connection(("127.0.0.1", desk.port), 30) as one:
        one.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(40):
                one.sendall(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
        except OSError:
            pass                                       # it was closed by then
    until(lambda: 0 == desk.on_loop(lambda: desk.server.connections.held))


# -- connections --------------------------------------------------------------------------------

def test_one_connection_serves_many_calls(desk):
    """HTTP/1.1 persistent connections, as the specification has it."""
    connection = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=30)
    own = set()
    for number in range(23):
        connection.request("POST", "/RPC2", CALL, {"Content-Type": "text/xml"})
        answer = connection.getresponse()
        assert (200, "text/xml") == (answer.status, answer.headers["content-type"])
        xmlrpc.client.loads(answer.read())
        own.add(connection.sock.getsockname()[1])
        desk.take(evicted(number))
    connection.close()
    assert 1 == len(own)


def test_server_proxy_keeps_its_connection(desk):
    proxy = desk.proxy
    for _ in range(5):
        proxy.getTraps(0)
        assert 1 == desk.on_loop(lambda: len(desk.server.connections._open))
    with pytest.raises(xmlrpc.client.Fault):
        proxy.getNodeInfo("nid4711")
    assert 1 == desk.on_loop(lambda: len(desk.server.connections._open))     # a fault ends nothing


def test_a_client_of_http_1_0_is_answered_and_closed(desk):
    with socket.create_connection(("127.0.0.1", desk.port), 30) as one:
        one.sendall(f"POST / HTTP/1.0\r\nContent-Type: text/xml\r\nContent-Length: {len(CALL)}"
                    f"\r\n\r\n{CALL}".encode())
        head, _, body = one.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and [[], NOW] == xmlrpc.client.loads(body)[0][0]


def test_requests_that_come_together_are_answered_in_their_order(desk):
    each = ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: {}\r\n\r\n{}").format
    calls = [json.dumps({"jsonrpc": "2.0", "id": number, "method": "getTraps", "params": [0]})
             for number in range(37)]
    with socket.create_connection(("127.0.0.1", desk.port), 30) as one:
        one.sendall("".join(each(len(call), call) for call in calls).encode())
        file, found = one.makefile("rb"), []
        while len(found) < 37:
            length = 0
            for line in file:
                if line.lower().startswith(b"content-length"):
                    length = int(line.split()[1])
                if not line.strip():
                    break
            found.append(json.loads(file.read(length))["id"])
    assert [*range(37)] == found


def test_curl_is_answered(desk):
    desk.take(evicted(23))
    done = subprocess.run(
        ["curl", "-sS", "-H", "Content-Type: text/xml", "-d", CALL,
         f"http://localhost:{desk.port}/"], capture_output=True, timeout=60)
    assert (0, b"") == (done.returncode, done.stderr)
    assert 1 == len(xmlrpc.client.loads(done.stdout)[0][0][0])
    done = subprocess.run(["curl", "-sS", "-d", CALL, f"http://localhost:{desk.port}/"],
                          capture_output=True, timeout=60, text=True)
    assert "expected Content-Type: text/xml" in done.stdout


# -- JSON-RPC -----------------------------------------------------------------------------------

def test_the_five_are_answered_by_json_rpc_too(known):
    traps, stamp = known.call("getTraps", 0)
    assert known.proxy.getTraps(0)[0] == traps and NOW == stamp
    assert [traps, NOW] == known.call("getTraps", time=0)
    for method, *params in (("getNodesNames", "scratch"), ("getFileSystems",),
                            ("getFileSystemInfo", "scratch")):
        assert getattr(known.proxy, method)(*params) == known.call(method, *params)


def test_events_are_asked_for_as_of_the_sites_server(desk):
    desk.take(evicted(1, at=NOW - 41), evicted(2, "home-OST0001", at=NOW - 37),
              evicted(3, at=NOW - 23, client="nid00041")._replace(severity=1, kind="timeouts"))

    def asked(**params):
        return [int(one["time"]) - NOW for one in desk.call("events", **params)["events"]]
    assert [-41, -37, -23] == asked()
    assert [-37, -23] == asked(since=NOW - 40) and [-41, -37] == asked(until=NOW - 30)
    assert [-41, -37] == asked(severity=2)
    assert [-37] == asked(file_systems=["home"]) and [-37] == asked(targets=["home-OST0001"])
    assert [-23] == asked(kinds=["timeouts"]) and [-23] == asked(nodes=["nid00041"])
    assert [-41, -37, -23] == asked(nodes=[NODE]) and [] == asked(nodes=["nid1"])
    assert [-37, -23] == asked(last=2)
    first = desk.call("events", limit=2)
    assert first["more"] and 2 == len(first["events"])
    rest = desk.call("events", after=first["next"], limit=2)
    assert not rest["more"] and [-23] == [int(one["time"]) - NOW for one in rest["events"]]
    assert [] == desk.call("events", after=rest["next"])["events"]
    assert first["places"] == rest["places"] and NOW == rest["time"]
    assert -32602 == desk.call("events", severity=9)["code"]
    assert "jobs" in desk.call("events", job="4711")["message"]


def test_who_follows_learns_of_growth_and_of_what_was_dropped():
    with collector(keep=5) as desk:
        desk.take(*(evicted(number, at=NOW - 100 + number) for number in range(5)))
        next = desk.call("events")["next"]
        desk.take(evicted(2, at=NOW - 98, count=23))
        [grown] = desk.call("events", after=next)["events"]
        assert 23 == grown["count"] and grown["place"] > next
        desk.take(*(evicted(number) for number in range(10, 17)))
        found = desk.call("events", after=grown["place"])
        assert 5 == len(found["events"]) and 2 == found["dropped"]
        assert 0 == desk.call("events", after=found["next"])["dropped"]
