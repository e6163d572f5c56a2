"""
A made tree of counter files, for --root: the places and forms of Lustre 2.15.

Per file system an llite directory (22 counters) and one MDT; per OST 14 counters and an rpc_stats
with four sections; as a node prints them that has worked for a while.  The numbers grow with
`work`, so that two trees of the same mounts are a start and a stop.  What programs have read and
written is what went over the network: nothing is a lower bound.
"""

import os

_DEBUG, _PROC, _SYS = "sys/kernel/debug/lustre", "proc/fs/lustre", "sys/fs/lustre"

_LLITE_TIMED = ("read", "write", "open", "close", "seek", "fsync", "readdir", "setattr", "getattr",
                "mkdir", "mknod", "unlink", "rename", "statfs", "mmap", "page_fault",
                "inode_permission")
_LLITE_COUNTED = ("ioctl", "opencount", "alloc_inode")
_RPC_COUNTED = ("req_active", "ldlm_extent_enqueue")
_OSC_TIMED = ("req_waittime", "ost_setattr", "ost_read", "ost_write", "ost_connect", "ost_punch",
              "ost_statfs", "ost_sync", "ldlm_cancel", "obd_ping")
_MDC_TIMED = ("req_waittime", "mds_getattr", "mds_close", "mds_sync", "mds_statfs", "ldlm_cancel",
              "seq_query", "obd_ping")
_MD_STATS = ("close", "create", "getattr", "intent_lock", "link", "rename", "setattr", "fsync",
             "unlink", "getxattr")


def make(root, file_systems, work, states=None):
    """
    Write the tree below `root`.

    `file_systems`: name -> how many OSTs.  `work`: how much was done since the mount, from 1.
    `states`: [(s since 1970, state)], the history of each target; None: without `state` and
    `import`, which are no counters.
    """
    mounts = []
    for number, (name, osts) in enumerate(file_systems.items()):
        instance = f"ff1100{number:02x}b3c36000"
        mount = f"{name}-{instance}"
        _write(root, f"{_DEBUG}/llite/{mount}/stats",
               _stats(_LLITE_TIMED, _LLITE_COUNTED, work, number, [number, *range(osts)]))
        _write(root, f"{_SYS}/llite/{mount}/uuid", f"0dcbf83e-1ca0-452a-b412-{number:012x}\n")
        mdt = f"{name}-MDT0000-mdc-{instance}"
        _write(root, f"{_DEBUG}/mdc/{mdt}/stats", _stats(_MDC_TIMED, _RPC_COUNTED, work, number))
        _write(root, f"{_PROC}/mdc/{mdt}/md_stats", _md_stats(work))
        if states is not None:
            _write_state(root, "mdc", mdt, states)
        for ost in range(osts):
            target = f"{name}-OST{ost:04x}-osc-{instance}"
            _write(root, f"{_DEBUG}/osc/{target}/stats",
                   _stats(_OSC_TIMED, _RPC_COUNTED, work, ost))
            _write(root, f"{_PROC}/osc/{target}/rpc_stats", _rpc_stats(work, ost))
            if states is not None:
                _write_state(root, "osc", target, states)
        mounts.append(f"10.99.0.2@tcp:/{name} /mnt/{name} lustre rw,checksum,flock 0 0\n")
    _write(root, "proc/mounts", "".join(mounts))


def counter_files(root):
    """All files below `root` that a snapshot reads, in the order of their directories."""
    return [os.path.join(directory, name) for directory, _, names in sorted(os.walk(root))
            for name in names if name != "mounts"]


def _write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _write_state(root, kind, name, states):
    _write(root, f"{_PROC}/{kind}/{name}/state",
           f"current_state: {states[-1][1]}\nstate_history:\n" + "".join(
               f" - [ {when}, {state} ]\n" for when, state in states))
    target = "-".join(name.split("-")[:2])
    _write(root, f"{_PROC}/{kind}/{name}/import", (
        f"import:\n    name: {name}\n    target: {target}_UUID\n    state: {states[-1][1]}\n"
        f"    connect_flags: [ {', '.join(f'a_flag_of_{n}' for n in range(28))} ]\n"
        "    connect_data:\n" + "".join(f"       a_number_{n}: {n * 4096}\n" for n in range(9))
        + "    import_flags: [ replayable, pingable, connect_tried ]\n    connection:\n"
        "       failover_nids: [ 10.99.0.3@tcp, 10.99.0.4@tcp ]\n"
        "       current_connection: 10.99.0.3@tcp\n"
        f"       connection_attempts: {len(states)}\n       generation: 1\n"
        "       in-progress_invalidations: 0\n       idle: 23 sec\n    rpcs:\n"
        "       inflight: 0\n       unregistering: 0\n       timeouts: 0\n"
        "       avg_waittime: 6054 usec\n" + "    service_estimates:\n       services: 1 sec\n"
        "       network: 1 sec\n    transactions:\n       last_replay: 0\n"))


def _header(work, colon=""):
    # start_time stays the same: the counters were not cleared between the two trees.
    return [f"{name + colon:<26}{seconds}.072094710 secs.nsecs"
            for name, seconds in (("snapshot_time", 1795225959 + work),
                                  ("start_time", 1795225959), ("elapsed_time", work))]


def _stats(timed, counted, work, salt, targets=None):
    """`targets`: the salts of those whose bytes are in it; None for its own alone."""
    lines = _header(work)
    for place, name in enumerate(("read_bytes", "write_bytes")):
        calls = work * sum(53 + place + one for one in ([salt] if targets is None else targets))
        lines.append(f"{name:<25} {calls} samples [bytes] 37888 1048576 {calls * 313209} "
                     f"{calls * 156210448508}")
    for place, name in enumerate(timed):
        calls = work * (23 + place + salt)
        lines.append(f"{name:<25} {calls} samples [usecs] 34 463793 {calls * 1889} "
                     f"{calls * 15988051}")
    lines += [f"{name:<25} {work * 37} samples [reqs] 1 3 {work * 41} {work * 47}"
              for name in counted]
    return "\n".join(lines) + "\n"


def _md_stats(work):
    return "\n".join(_header(work) + [f"{name:<25} {work * (70 + place)} samples [reqs]"
                                      for place, name in enumerate(_MD_STATS)]) + "\n"


def _rpc_stats(work, salt):
    lines = _header(work, ":") + ["read RPCs in flight:  0", "write RPCs in flight: 0",
                                  "pending write pages:  0", "pending read pages:   0"]
    for title, buckets, word in (
            ("pages per rpc", [1 << n for n in range(11)], "rpcs"),
            ("rpcs in flight", range(1, 9), "rpcs"),
            ("offset", [0] + [1 << n for n in range(11)], "rpcs"),
            ("RPC latency (us)", [1 << n for n in range(7, 19)], "count")):
        lines += ["", "\t\t\tread\t\t\twrite",
                  f"{title:<22}{word}   % cum % |       {word}   % cum %"]
        for place, bucket in enumerate(buckets):
            # Most buckets of a real histogram are empty.
            count = 0 if place % 4 else work * (12 + salt + place)
            lines.append(f"{bucket}:\t\t{count:10d}  25  50   | {count:10d}  25  50")
    return "\n".join(lines) + "\n"
