"""
kernel_log: a flood in the kernel's log, 10,000 clients of 40 targets, as a storage server's agent
takes it: one read(2) for each line, as of /dev/kmsg (here of a socket that keeps their borders).

    silent: evictions; locks: evictions with their two lines; reconnecting; other: an error without
    a kind; many: evictions at 100,000 targets of 100 file systems; foreign: lines of other drivers
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from measure import HERE, REPOSITORY, BenchmarkError, Table, environment, median_ratio, peak_mib

_KINDS = ("silent", "locks", "reconnecting", "other", "many", "foreign")
_RATE = 50_000
_AT_US = 758_000_000


def run(quick):
    """[Table]: CPU of a line, against a bare read(2); of a core at 50,000 lines a second."""
    rows = []
    lines, rounds = (10_000, 1) if quick else (100_000, 3)
    for kind in _KINDS:
        bare, ours, memory = [], [], 0
        for _ in range(rounds):
            bare.append(_child("bare", kind, lines)["cpu_s"])
            found = _child("ours", kind, lines)
            ours.append(found["cpu_s"])
            memory = max(memory, found["memory_kib"])
        cpu_us, bare_us = min(ours) / lines * 1e6, min(bare) / lines * 1e6
        rows.append([kind, f"{bare_us:.2f} us", f"{cpu_us:.2f} us",
                     f"{median_ratio(ours, bare):.1f}", f"{cpu_us * _RATE / 1e4:.0f} %",
                     f"{memory / 1024:.0f} MiB"])
    return [Table("A flood in the kernel's log", [
        "lines", "read(2) alone", "events", "ratio", "of a core, 50,000 lines/s", "peak memory"],
        rows, ["CPU (user and system) of the reading process; aim: 25 % and 32 MiB."])]


def _child(what, kind, lines):
    done = subprocess.run([sys.executable, "-S", f"{HERE}/kernel_log.py", what, kind, str(lines)],
                          env=environment(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchmarkError(f"kernel_log.py: exit status {done.returncode}")
    return json.loads(done.stdout)


def _texts(kind):
    """[text] of one burst, to be sent again and again."""
    target, client = "scratch-OST{:04x}", "10.9.{}.{}@o2ib2"
    found = []
    for number in range(100_000 if kind == "many" else 10_000):
        name = target.format(number % 40)
        nid = client.format(number // 250 % 250, number % 250)
        uuid = f"{number * 2654435761 % 2**32:08x}-8084-47f6-bb2e-{number * 40503 % 2**48:012x}"
        if kind == "many":
            name = f"fs{number % 100}-OST{number // 100:04x}"
        if kind in ("silent", "many"):
            found.append(f"Lustre: {name}: haven't heard from client {uuid} (at {nid}) in 229 "
                         "seconds. I think it's dead, and I am evicting it.")
        elif kind == "locks":
            found.append(f"LustreError: {name}: A client on nid {nid} was evicted due to a lock "
                         "blocking callback time out: rc -107")
            found.append(
                f"LustreError: 37:0:(ldlm_lockd.c:252:expired_lock_main()) ### lock callback timer "
                f"expired after 151s: evicting client at {nid}  ns: filter-{name}_UUID lock: "
                f"ffff{number:012x}/0x7cf5a8a9e1fbe3b6 lrc: 3/0,0 mode: PW/PW res: [0x2:0x0:0x0].0 "
                f"rrc: 3 type: EXT [0->18446744073709551615] flags: 0x60000000010020 nid: {nid} "
                "remote: 0x23 expref: 5 pid: 37 timeout: 41 lvb_type: 0")
        elif kind == "reconnecting":
            found.append(f"Lustre: {name}: Client {uuid} (at {nid}) reconnecting")
        elif kind == "other":
            found.append(
                f"LustreError: {number % 500}:0:(ldlm_lib.c:1187:target_handle_connect()) {name}: "
                f"not available for connect from {nid} (no target). If you are running an HA pair "
                "check that the target is mounted on the other server.")
        else:
            found.append(f"nfs: server {nid} not responding, still trying")
    return found


def _send(end, kind, lines):
    """Send `lines` records as fast as they are taken."""
    texts = [text.encode() for text in _texts(kind)]
    for number in range(lines):
        end.send(b"4,%d,%d,-;%s\n" % (number, _AT_US + number * (1_000_000 // _RATE),
                                      texts[number % len(texts)]))


def _main(what, kind, lines):
    reading, sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    writer = os.fork()
    if not writer:
        reading.close()
        try:
            _send(sending, kind, lines)
        finally:
            os._exit(0)
    sending.close()
    reading.setblocking(False)
    taken = 0
    if what == "bare":
        handle, read = reading.fileno(), os.read
        import select
        began = time.process_time()
        while True:
            try:
                if not read(handle, 8192):
                    break
                taken += 1
            except BlockingIOError:
                select.select([handle], [], [])
                time.sleep(0.01)
        cpu_s = time.process_time() - began
    else:
        cpu_s, taken = _gathered(reading)
    os.waitpid(writer, 0)
    if what == "bare" and taken != lines:
        sys.exit(f"{taken} of {lines} lines were read")
    least = {"foreign": 0, "locks": min(lines, 20_000) // 2}.get(kind, lines)    # a client once
    if what == "ours" and taken < least:
        sys.exit(f"{taken} of {lines} lines are in events")
    print(json.dumps({"cpu_s": cpu_s, "taken": taken,
                      "memory_kib": peak_mib() * 1024}))


def _gathered(reading):
    """(CPU seconds, lines in events) of a Gathering that reads from a socket until it ends."""
    import select
    sys.path.insert(0, REPOSITORY)
    from iostats.base.config import Config
    from iostats.events.gather import Gathering
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(f"{root}/dev")
        os.mkfifo(f"{root}/dev/kmsg")
        gathering = Gathering(root, Config(), "oss1", "a-boot", f"{root}/state", ("server",))
        log = gathering._log
        os.close(log.handle)
        log.handle, log._is_device = os.dup(reading.fileno()), True
        counts, is_open = {}, True
        began, looked = time.process_time(), time.monotonic()

        def scan():
            while True:
                found = gathering.scan()
                counts.update((event.id, event.count) for event in found.events)
                gathering.acknowledge()
                if not found.more:
                    return
        while is_open:
            select.select([log.handle], [], [])
            gathering.read_log()
            is_open = bool(_peeked(reading))
            if time.monotonic() - looked > 1:           # ten times as often as an agent looks
                scan()
                looked = time.monotonic()
            time.sleep(0.01)
        scan()
        return time.process_time() - began, sum(counts.values())


def _peeked(reading):
    try:
        return reading.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b"more"


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
