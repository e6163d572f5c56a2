"""
One instance in a process of its own, for tests: it commands as fast as it may, and does nothing
else.

    python tests/commander.py ENDPOINT,... PREFIX LEASE_S NAME PORT GROUP=DAEMONS ...

Each command is a datagram "TIME NAME FENCE GROUP" to PORT of this host, sent right after
may_command(); TIME is that of the call, by time.monotonic().
"""
import socket
import sys
import time

from iostats.etcd.client import Etcd
from iostats_ldms.membership import Membership


def main(endpoints, prefix, lease_s, name, port, *groups):
    wanted = {group: int(count) for group, _, count in (one.rpartition("=") for one in groups)}
    sends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sends.connect(("127.0.0.1", int(port)))
    one = Membership(Etcd(endpoints.split(","), prefix=prefix), int(lease_s),
                     lambda text: print(text, flush=True), name)
    one.set_groups(wanted)
    one.start()
    while True:
        one.record_heartbeat()
        for group, fence in one.groups_owned().items():
            now = time.monotonic()
            if one.may_command(group):
                sends.send(f"{now} {name} {fence} {group}".encode())
        time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
