"""
A collector that does as it is told, for what a real one does seldom: it begins its numbers anew,
answers nonsense, is silent; and events as a site's server would have them.
"""
from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from processes import free_port

from iostats.events.event import as_json, make_event, merge_copies

# 12:00 UTC, three days ago: old events are shown with their year.
NOON = (time.time() // 86_400 - 3) * 86_400 + 43_200.0


def an_event(number=23, kind="evicted", at=NOON, node="oss1", **how):
    """An event, the same one for the same number."""
    return make_event("a-boot", node, ("test", str(number)), kind, at, **{
        "file_system": "scratch", "target": "scratch-OST0003", "message": f"event {number}", **how})


class ToldCollector:
    """
    A server that answers `events` as collectors do, of the events it was given.

    Attributes:
        asked: the params of all questions.
        places: the name of its numbering.
        answer: instead of an answer: (HTTP status, bytes); None.
        answers: so many, and then it closes connections; None: no limit.
    """

    def __init__(self, port=None):
        self.port = port or free_port()
        self.kept, self.place, self.places, self.names = {}, 0, "one", {}
        self.asked, self.answer, self.delay_s, self.dropped = [], None, 0.0, 0
        self.of_user = ""
        self.answers = None
        self._server = None
        self.start()

    @property
    def name(self):
        return f"http://127.0.0.1:{self.port}"

    def tell(self, *events):
        """Add these, or what they know more."""
        for event in events:
            before = self.kept.get(event.id)
            self.place += 1
            self.kept[event.id] = self.place, merge_copies(before[1], event) if before else event

    def begin_anew(self, *events, places="two"):
        """As one that has lost what it kept."""
        self.kept, self.place, self.places = {}, 0, places
        self.tell(*events)

    def start(self):
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(desk.delay_s)
                if desk.answers is not None:
                    desk.answers -= 1
                    if desk.answers < 0:
                        self.close_connection = True
                        return
                status, text = desk.answer or (200, desk._answer_to(json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self):
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer_to(self, request):
        assert "events" == request["method"]
        ask = request["params"]
        self.asked.append(ask)
        found = sorted((place, event) for place, event in self.kept.values()
                       if place > ask["after"] and event.severity >= ask.get("severity", 0)
                       and max(event.last, event.over or 0) >= ask.get("since", 0)
                       and event.time <= ask.get("until", 1e12))
        if ask.get("last"):
            found = sorted(sorted(found, key=lambda one: one[1].time)[-ask["last"]:])
        part = found[:ask["limit"]]
        more = len(found) > len(part)
        answer = {"events": [{**as_json(event), "place": place, "clients_names": [
            self.names.get(one, one) for one in event.clients]}
                             for place, event in part],
                  "next": part[-1][0] if more else self.place, "more": more,
                  "time": time.time(), "places": self.places, "dropped": self.dropped,
                  "of_user": self.of_user}
        return json.dumps({"jsonrpc": "2.0", "result": answer, "id": request["id"]}).encode()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()
