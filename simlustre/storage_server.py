"""
A simulated OSS or MDS: some targets, and a thread that counts what clients ask of them.

What it does by itself: an MDS asks the OSTs for objects when files are made and destroys them when
they are unlinked, as `0@lo` where it has that OST itself, else by its own NID and without a job
(a connection of an MDT has no job ids, so job_stats of OSTs show nothing of it).  Objects are made
in advance, 32 at a time for each OST.  Nothing is sent by a timer: no ping, no statfs.

What Lustre says in the kernel's log (kernel_log.py):

    start   X: Imperative Recovery not enabled, recovery window 300-900
            server_calc_timeout(), obdclass/obd_mount_server.c; in 2.17 target/tgt_mount.c
    stop    server umount X complete
            server_put_super(), the same files
    evict   X: evicting UUID (at NID) by administrative request
            obd_export_evict_by_nid(), obdclass/genops.c: `lctl set_param *.X.evict_client=nid:NID`

and in a recovery what recovery.py has; all are the same from 2.10 to 2.17.
"""
from __future__ import annotations

import socketserver
import threading
import time
import uuid

from .counters import RELEASES
from .kernel_log import INFO, WARNING, KernelLog
from .network import COMMANDS, Network, NetworkError, decoded, encoded
from .recovery import Recovery
from .server_metrics import BULK, OF_MDT, OTHER, QUOTA_KINDS, ServiceMetrics, requests_by_service
from .target import Target

PRECREATED = 32
_LOOK_EVERY_S = 0.2
LOCAL = "0@lo"


class StorageServer:
    """
    Attributes:
        targets: name -> Target; those that are started.
        lock: for all of them, between the thread that counts and the one that shows.
        log: the KernelLog.
        services: {name: ServiceMetrics}; all three, whatever targets there are.
        quotas: {file system: {(kind, id): (KiB of the hard limit, KiB granted)}}.
        pools: {OST: the error for which the MDTs here get no objects of it}.
        messages, dropped, resent, routers, lnet_health: of LNet.  Each request is a message, and
            so is its answer.
        waiting, most_waiting: messages that wait for a credit of each client, now and at most.
        boot_id: of this simulated machine, which "boots" when it is started.
    """

    def __init__(self, name: str, nid: str, release: str, network: Network, targets: list,
                 cleanup_s: int = 600, jobid_var: str = "SLURM_JOB_ID", recovery_s: float = 0):
        """`recovery_s`: how long a target that starts waits for its clients; 0: not at all."""
        self.name, self.nid, self.network = name, nid, network
        self.release, self.jobid_var = RELEASES[release], jobid_var
        self._release, self._recovery_s, self.log = release, recovery_s, KernelLog()
        self.lock = threading.RLock()
        self.health, self.boot_id = "healthy", str(uuid.uuid4())
        self.messages = self.dropped = self.resent = self.waiting = self.most_waiting = 0
        self.lnet_health = 1000
        self.routers: dict = {}             # NID -> "up" or "down"
        self.services = {name: ServiceMetrics(self.release) for name in (BULK, OTHER, OF_MDT)}
        self.quotas: dict = {}
        self.pools: dict = {}
        self.version = 0                    # goes up when targets come or go
        self.targets: dict = {}
        self._stopped: dict = {}            # name -> cleanup_s, {uuid: NID} of its clients
        self._objects: dict = {}            # (MDT, OST) -> objects that are made and not used
        self._for_osts: list = []           # messages that wait for their OST
        self._listening = network.listen(name)
        for target in targets:
            if network.server_of(target) not in ("", name) and self._runs(target):
                raise NetworkError(f"{target}: {network.server_of(target)} has it")
            self._start(target, cleanup_s, {})
        threading.Thread(target=self._serve, daemon=True).start()
        if recovery_s:
            threading.Thread(target=self._look_after_recoveries, daemon=True).start()

    def _runs(self, target: str) -> bool:
        try:
            return target in self.network.ask(target, {"do": "hello"})["targets"]
        except OSError:
            return False

    # -- targets

    def _start(self, target: str, cleanup_s: int, clients: dict) -> None:
        recovery = Recovery(target, clients if self._recovery_s else {}, self._recovery_s,
                            self._release, self.log.emit)
        self.targets[target] = Target(target, self.release, time.time_ns(), cleanup_s,
                                      self.network.count_start(target), recovery)
        self._stopped.pop(target, None)
        self.log.emit(INFO, f"{target}: Imperative Recovery not enabled, recovery window 300-900")
        self.network.announce(target, self.name)
        self.version += 1

    def _stop(self, target: str) -> tuple:
        one = self._own(target)
        had = self._stopped[target] = one.cleanup_s, {**one.recovery.missing, **one.clients()}
        del self.targets[target]
        self.log.emit(WARNING, f"server umount {target} complete")
        self.version += 1
        return had

    def _look_after_recoveries(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_S)
            with self.lock:
                for target in self.targets.values():
                    target.evict_uuids(target.recovery.scan(time.time()))

    def _own(self, target: str) -> Target:
        if target not in self.targets:
            raise NetworkError(f"{target}: not on {self.name}; there are: "
                               + (", ".join(self.targets) or "none"))
        return self.targets[target]

    # -- what it is asked

    def _serve(self) -> None:
        server = self

        class Client(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    try:
                        self.wfile.write(encoded(server.answer(decoded(line))))
                    except OSError:
                        return
        serving = socketserver.ThreadingUnixStreamServer("", Client, bind_and_activate=False)
        serving.daemon_threads = True
        serving.socket.close()
        serving.socket = self._listening
        serving.serve_forever()

    def answer(self, message: dict) -> dict:
        """The answer to one message of a client, another storage server, or --ctl."""
        what = message["do"]
        self.messages += 1
        if what == "hello":
            return {"is": "ok", "targets": list(self.targets)}
        if what == "ctl":
            try:
                return {"is": "ok", "say": self._told(message["words"])}
            except NetworkError as error:
                return {"is": "refused", "say": str(error)}
        if what == "take":
            with self.lock:
                self._start(message["target"], message["cleanup_s"], message["clients"])
            return {"is": "ok"}
        with self.lock:
            answer = self._of_client(what, message)
        if self._for_osts:
            self._ask_osts()
        return answer

    def _of_client(self, what: str, message: dict) -> dict:
        target = self.targets.get(message["target"])
        if target is None:
            return {"is": "elsewhere"}
        nid, uuid = message["nid"], message["uuid"]
        if what == "connect":
            target.connect(nid, uuid)
            target.recovery.came_back(uuid, time.time())
            return {"is": "ok", "nid": self.nid}
        if what == "disconnect":
            target.disconnect(nid, uuid)
        elif target.was_evicted(uuid):
            return {"is": "evicted"}
        elif not target.is_connected(nid, uuid):
            return {"is": "unknown"}
        elif not target.recovery.is_over and uuid[-12:] != "-mdtlov_UUID":
            return {"is": "recovering"}
        elif what == "count":
            target.count(time.time_ns(), nid, message["job"], message["counts"])
            for service, requests in requests_by_service(target.kind, message["counts"]).items():
                self.services[service].count(requests)
            if message["objects"]:
                self._plan(message["target"], *message["objects"])
        return {"is": "ok"}

    # -- an MDT's requests of OSTs

    def _plan(self, mdt: str, what: str, osts: list) -> None:
        for ost in osts:
            if what == "create":
                left = self._objects.get((mdt, ost), 0)
                self._objects[mdt, ost] = (left or PRECREATED) - 1
                if left:
                    continue
            self._for_osts.append((mdt, ost, what))

    def _ask_osts(self) -> None:
        """What cannot be asked now is asked later, with the next request."""
        with self.lock:
            waiting, self._for_osts = self._for_osts, []
        for mdt, ost, what in waiting:
            local = ost in self.targets
            message = {"target": ost, "nid": LOCAL if local else self.nid,
                       "uuid": f"{mdt}-mdtlov_UUID", "job": "", "objects": [],
                       "counts": [[what, 0, 1]]}
            try:
                for do in ("connect", "count"):
                    message["do"] = do
                    said = self.answer(message) if local else self.network.ask(ost, message)
                    if said["is"] != "ok":
                        raise OSError
            except OSError:
                with self.lock:
                    self._for_osts.append((mdt, ost, what))

    # -- commands

    def _told(self, words: list) -> str:
        commands = {                        # words behind it: at least, at most
            "stop": (self._told_stop, 1, 1), "start": (self._told_start, 1, 1),
            "restart": (self._told_restart, 0, 1), "failover": (self._told_failover, 2, 2),
            "evict": (self._told_evict, 1, 2), "health": (self._told_health, 1, 99),
            "fill": (self._fill, 2, 2), "lnet": (self._lnet, 2, 2),
            "changelog": (self._changelog, 2, 2), "hsm": (self._hsm, 3, 3),
            "wait": (self._wait, 2, 2), "quota": (self._quota, 5, 5),
            "precreate": (self._precreate, 2, 2)}
        command, *rest = words
        if command not in commands:
            raise NetworkError(f"no command {command!r}; there are: {', '.join(commands)}")
        do, least, most = commands[command]
        if not least <= len(rest) <= most:
            raise NetworkError(f"{' '.join(words)}: expected {COMMANDS[command]}")
        return do(*rest)

    def _told_stop(self, target: str) -> str:
        with self.lock:
            self._stop(target)
        return f"{target}: stopped"

    def _told_start(self, target: str) -> str:
        with self.lock:
            if target not in self._stopped:
                raise NetworkError(f"{target}: was not stopped on {self.name}")
            self._start(target, *self._stopped[target])
        return f"{target}: started"

    def _told_restart(self, *targets: str) -> str:
        with self.lock:
            chosen = targets or tuple(self.targets)
            for target in chosen:
                self._start(target, *self._stop(target))
        return f"{', '.join(chosen)}: started again"

    def _told_failover(self, target: str, server: str) -> str:
        if server == self.name:
            raise NetworkError(f"{target}: is on {server} already")
        self._ask_server(server, {"do": "hello"})
        with self.lock:
            cleanup_s, clients = self._stop(target)
        self._ask_server(server, {"do": "take", "target": target, "cleanup_s": cleanup_s,
                                  "clients": clients})
        del self._stopped[target]
        return f"{target}: now on {server}"

    def _ask_server(self, server: str, message: dict) -> None:
        try:
            self.network.ask(f"{server}.sock", message)
        except OSError:
            raise NetworkError(f"no storage server {server!r} answers") from None

    def _told_evict(self, nid: str, *targets: str) -> str:
        with self.lock:
            chosen = [self._own(one) for one in targets] or list(self.targets.values())
            gone = {one.name: one.evict(nid) for one in chosen}
            for target, uuids in gone.items():
                for uuid in uuids:
                    self.log.emit(WARNING, f"{target}: evicting {uuid} (at {nid}) by "
                                  f"administrative request")
        if not any(gone.values()):
            raise NetworkError(f"{nid}: not connected to {', '.join(gone)}")
        return f"{nid}: evicted by {', '.join(name for name, uuids in gone.items() if uuids)}"

    def _told_health(self, *words: str) -> str:
        self.health = " ".join(words)
        return f"health_check: {self.health}"

    def _fill(self, target: str, percent: str) -> str:
        if not (percent.isdigit() and int(percent) <= 100):
            raise NetworkError(f"{target}: expected 0 to 100 percent, got {percent!r}")
        with self.lock:
            self._own(target).fill(int(percent))
        return f"{target}: {percent} % of its space is used"

    def _changelog(self, target: str, records: str) -> str:
        if not records.isdigit():
            raise NetworkError(f"{target}: expected a number of records, got {records!r}")
        with self.lock:
            self._own(target).changelog_records = int(records)
        return f"{target}: cl1 has {records} records to clear"

    def _hsm(self, target: str, done: str, failed: str) -> str:
        if not (done + failed).isdigit():
            raise NetworkError(f"{target}: expected two numbers of requests, got {done} {failed}")
        with self.lock:
            metrics = self._own(target).metrics
            metrics.hsm_done, metrics.hsm_failed = int(done), int(failed)
        return f"{target}: a copytool has completed {done} requests, and failed at {failed}"

    def _wait(self, service: str, us: str) -> str:
        if service not in self.services or not us.isdigit():
            raise NetworkError(f"wait {service} {us}: expected {COMMANDS['wait']}")
        self.services[service].wait_us = int(us)
        return f"{service}: requests wait {us} us for a thread"

    def _quota(self, file_system: str, kind: str, number: str, hard: str, granted: str) -> str:
        if kind not in QUOTA_KINDS or not (number + hard + granted).isdigit():
            raise NetworkError(f"quota: expected {COMMANDS['quota']}")
        with self.lock:
            self._own(f"{file_system}-MDT0000")
            self.quotas.setdefault(file_system, {})[kind, int(number)] = int(hard), int(granted)
        return f"{file_system}: {kind} {number} has {granted} of {hard} KiB"

    def _precreate(self, ost: str, error: str) -> str:
        if not error.isdigit() or not self.network.server_of(ost):
            raise NetworkError(f"precreate: expected {COMMANDS['precreate']}")
        with self.lock:
            self.pools[ost] = int(error)
        return f"{ost}: MDTs get no objects, error {error}" if int(error) else f"{ost}: no error"

    def objects(self, mdt: str, ost: str) -> int:
        """How many objects of an OST an MDT has for new files."""
        return 0 if self.pools.get(ost) else self._objects.get((mdt, ost)) or PRECREATED

    def _lnet(self, what: str, value: str) -> str:
        with self.lock:
            if what == "dropped" and value.isdigit():
                self.dropped += int(value)
                return f"LNet: {value} messages dropped"
            if what == "resent" and value.isdigit():
                self.resent += int(value)
                return f"LNet: {value} messages resent"
            if what == "waiting" and value.isdigit():
                self.waiting = int(value)
                self.most_waiting = max(self.waiting, self.most_waiting)
                return f"LNet: {value} messages wait for each client"
            if what == "health" and value.isdigit() and int(value) <= 1000:
                self.lnet_health = int(value)
                return f"LNet: the health of {self.nid} is {value}"
            if what in ("up", "down") and "@" in value:
                self.routers[value] = what
                return f"LNet: {value} is {what}"
        raise NetworkError(f"lnet {what} {value}: expected {COMMANDS['lnet']}")
