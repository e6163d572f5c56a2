"""
One ldmsd as a state machine: a statement in, an errno and a text out.

It has no network: who runs it says which producers are connected (producers.connected, .lost) and
what their directories show (producers.took), and asks which are to be connected.
"""

from __future__ import annotations

import time

from iostats_ldms.statements.dialect import Statement

from .asked import (
    EEXIST,
    EINVAL,
    ENOENT,
    ENOEXEC,
    ENOSYS,
    ENOTSUP,
    Asked,
    Crashed,
    Refused,
    Reply,
    as_json,
)
from .plugins import Plugins
from .policies import Policies
from .producers import Producers
from .sets import MetricSet
from .updaters import Updaters

VERSIONS = ("4.5.3", "4.4.6")
OF_4_5 = ("stream_enable", "stream_disable", "msg_enable", "msg_disable", "msg_stats",
          "msg_client_stats", "log_level", "bridge_add")


class Daemon:
    """
    Attributes:
        name: as -n gave it.
        config_counter: changes that were carried out since it started.
        auth: {name of an authentication domain: (its plugin, its conf)}.
        listening: {(transport, port): name of its authentication}.
        crashed: why it died of a statement; "" while it lives.
        log: (errno, statement) of all that it was told to change.
        verbs: all that it knows.
    """

    def __init__(self, name: str, version: str = VERSIONS[0], *, clock=time.time, makes=None):
        if version not in VERSIONS:
            raise ValueError(f"no simulated ldmsd {version}; there are {', '.join(VERSIONS)}")
        self.name, self.version, self.clock = name, version, clock
        self.is_4_5 = version.startswith("4.5")
        self.config_counter = 0
        self.auth: dict[str, tuple[str, str]] = {}
        self.listening: dict[tuple[str, int], str] = {}
        self.has_streams = not self.is_4_5
        self.has_messages = False
        self.crashed = ""
        self.log: list[tuple[int, Statement]] = []
        self.plugins = Plugins(self, makes)
        self.producers = Producers(self)
        self.updaters = Updaters(self)
        self.policies = Policies(self)
        self._changes, self._questions = self._verbs()
        self.verbs = sorted({*self._changes, *self._questions})
        self.can_listen = lambda transport, port, host, auth: True

    def handle(self, statement: Statement) -> Reply:
        """
        Carry out a statement.  errno is 0 and the counter of changes rises where it was done;
        ENOSYS for a verb that this release has not.  Crashed where the real one dies of it.
        """
        asked = Asked(statement)
        if asked.verb in self._questions:
            do, changes = self._questions[asked.verb], False
        elif asked.verb in self._changes:
            do, changes = self._changes[asked.verb]
            if not self.is_4_5 and asked.verb in OF_4_5:
                return Reply(ENOSYS, "The request is not implemented")
        else:
            return Reply(ENOSYS, "The request is not implemented")
        try:
            reply = Reply(0, do(asked) or "")
            self.config_counter += changes
        except Refused as refused:
            reply = refused.reply
        except Crashed as crashed:
            self.crashed = str(crashed)
            raise
        if asked.verb in self._changes:
            self.log.append((reply.errno, statement))
        return reply

    def is_change(self, verb: str) -> bool:
        """Whether it is to change something: not a question."""
        return verb in self._changes

    def turn(self) -> None:
        """The loop's turn is over: what was stopped in it is closed."""
        for producer in self.producers.all.values():
            producer.is_closing = False

    def directory(self) -> list[MetricSet]:
        """The sets that it shows: its samplers', and those that it collected."""
        self.plugins.sample()
        return self.plugins.sets() + [one.held for _, one in self.producers.collected()]

    def find_set(self, instance: str) -> MetricSet | None:
        for one in self.plugins.sets():
            if one.instance == instance:
                return one
        for producer in self.producers.all.values():
            found = producer.sets.get(instance)
            if found is not None and found.held is not None:
                return found.held
        return None

    def collecting(self, since_s: float) -> dict[str, int]:
        """{instance: how many times it was updated here since then}; 0 for one that is held."""
        return {one.source.instance: sum(at >= since_s for at in one.updates)
                for _, one in self.producers.collected()}

    def _verbs(self):
        """({verb: (what does it, whether it counts as a change)}, {question: what answers})."""
        plugins, producers = self.plugins, self.producers
        updaters, policies = self.updaters, self.policies
        counted = {
            "load": plugins.load, "term": plugins.term, "config": plugins.config,
            "start": plugins.start, "stop": plugins.stop,
            "prdcr_add": producers.add, "bridge_add": producers.add,
            "prdcr_del": producers.delete,
            "prdcr_start": producers.start, "prdcr_stop": producers.stop,
            "prdcr_start_regex": producers.start_regex, "prdcr_stop_regex": producers.stop_regex,
            "prdcr_subscribe": producers.subscribe, "prdcr_unsubscribe": producers.unsubscribe,
            "prdcr_listen_start": producers.listen_start,
            "prdcr_listen_stop": producers.listen_stop,
            "updtr_add": updaters.add, "updtr_del": updaters.delete,
            "updtr_prdcr_add": updaters.producers_add, "updtr_prdcr_del": updaters.producers_del,
            "updtr_match_add": updaters.match_add, "updtr_match_del": updaters.match_del,
            "updtr_start": updaters.start, "updtr_stop": updaters.stop,
            "strgp_add": policies.add, "strgp_del": policies.delete,
            "strgp_prdcr_add": policies.producers_add, "strgp_prdcr_del": policies.producers_del,
            "strgp_metric_add": policies.metrics_add, "strgp_metric_del": policies.metrics_del,
            "strgp_start": policies.start, "strgp_stop": policies.stop,
            "listen": self._listen, "auth_add": self._auth_add, "env": _nothing,
            "metric_sets_default_authz": _nothing, "set_sec_mod": _nothing,
            "stream_enable": self._stream_enable, "stream_disable": self._stream_disable,
            "msg_enable": self._msg_enable, "msg_disable": self._msg_disable,
        }
        uncounted = {
            "advertiser_add": producers.add, "advertiser_del": producers.delete,
            "advertiser_start": producers.advertiser_start, "advertiser_stop": producers.stop,
            "prdcr_listen_add": producers.listen_add, "prdcr_listen_del": producers.listen_del,
            "log_level": self._log_level, "option": _nothing, "set_memory": _nothing,
        }
        questions = {
            "cfg_cntr": lambda asked: str(self.config_counter),
            "daemon_status": lambda asked: '{"state":"ready"}',
            "version": self._version, "greeting": lambda asked: "Hello",
            "plugn_status": plugins.status, "plugn_sets": plugins.of_sets,
            "prdcr_status": producers.status, "prdcr_set_status": producers.set_status,
            "prdcr_stream_status": producers.stream_status,
            "prdcr_listen_status": producers.listen_status,
            "updtr_status": updaters.status, "updtr_match_list": updaters.matches,
            "strgp_status": policies.status, "stream_status": self._stream_status,
            "stream_client_dump": self._stream_clients, "msg_stats": self._msg_stats,
            "msg_client_stats": self._msg_stats, "set_stats": self._set_stats,
        }
        changes = {verb: (do, True) for verb, do in counted.items()}
        changes.update((verb, (do, False)) for verb, do in uncounted.items())
        return changes, questions

    # Verbs of the daemon itself.

    def _version(self, asked) -> str:
        if self.is_4_5:
            return as_json({"LDMSD Version": self.version, "LDMS Protocol Version": "4.2.0.0",
                               "LDMSD Plugin Interface Version": "3.2.2.0"})
        return "LDMS Version: 4.2.0.0\nLDMSD Version: 3.2.2.0"

    def _auth_add(self, asked) -> None:
        name = asked.needed("name")
        if name in self.auth:
            raise Refused(EEXIST, f"auth_add: '{name}' exists already")
        self.auth[name] = (asked.get("plugin") or name, asked.get("conf") or "")

    def _listen(self, asked) -> None:
        transport, port = asked.needed("xprt"), asked.get("port") or "411"
        auth = asked.get("auth") or ""
        if auth and auth not in self.auth:
            raise Refused(ENOENT, f"listen: there is no authentication '{auth}'")
        if not port.isdecimal() or not 1 <= int(port) <= 65_535:
            raise Refused(EINVAL, f"listen: '{port}' is no port")
        if (transport, int(port)) in self.listening:
            raise Refused(EEXIST, f"listen: {transport}:{port} is listened on already")
        if transport not in ("sock", "rdma", "fabric", "ugni"):
            raise Refused(ENOENT, f"listen: there is no transport '{transport}'")
        if not self.can_listen(transport, int(port), asked.get("host") or "", auth):
            raise Refused(ENOEXEC, f"listen: cannot listen on {transport}:{port}")
        self.listening[transport, int(port)] = auth

    def _log_level(self, asked) -> None:
        if asked.needed("level").upper() not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL",
                                                 "QUIET"):
            raise Refused(EINVAL, f"log_level: '{asked.get('level')}' is invalid")

    def _stream_enable(self, asked) -> str:
        self.has_streams = True
        return "OK"

    def _stream_disable(self, asked) -> str:
        self.has_streams = False
        return "OK"

    def _msg_enable(self, asked) -> str:
        self.has_messages = True
        return "OK"

    def _msg_disable(self, asked) -> str:
        self.has_messages = False
        return "OK"

    def _stream_status(self, asked) -> str:
        if not self.has_streams:
            raise Refused(ENOSYS, "The stream service is DISABLED on this system.")
        return "{}"

    def _stream_clients(self, asked) -> str:
        self._stream_status(asked)
        return '{"streams":[]}'

    def _set_stats(self, asked) -> str:
        if not self.is_4_5:
            raise Crashed("set_stats")
        return "{}"

    def _msg_stats(self, asked) -> str:
        if not self.is_4_5:
            raise Refused(ENOSYS, "The request is not implemented")
        if not self.has_messages:
            raise Refused(ENOTSUP, "The message service is disabled.")
        return "{}"


def _nothing(asked) -> None:
    """It is taken, and changes nothing that is simulated."""
