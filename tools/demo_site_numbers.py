"""
What is done at `make demo-site`, and whether the numbers that come of it are right.

    WORK, JOBS, OF_NODES       what each job does, and what has to be known of it, by hand
    HIT, EVICTED, STOPPED      the job that something happens to, and what
    Checks, check_...          what is known, compared with that
"""

from __future__ import annotations

MIB = 1 << 20
NODES = {"node1": ["10.77.0.11@tcp"], "node2": ["10.77.0.12@tcp", "10.78.0.12@tcp1"],
         "node3": ["10.77.0.13@tcp"], "node4": ["10.77.0.14@tcp"]}

# What is done on each node: (job, script), in the directory of the file system.
WORK = {
    "node1": ("4711", "for i in $(seq 23); do dd if=/dev/zero of=ensemble/a$i bs=1M count=2; done"),
    "node2": ("4711", "for i in $(seq 37); do dd if=/dev/zero of=ensemble/b$i bs=1M count=2; done"),
    "node3": ("4712", "for i in $(seq 41); do dd if=images/$i of=/dev/null bs=1M; done"),
    "node4": ("4713", "mkdir untar/{1..13}\n"
                      "for i in {1..97}; do head -c 8192 /dev/zero >untar/1/$i; done\n"
                      "rm untar/1/{1..53}"),
}
# The step of its job that runs on each node, and what those of the first job have written.
STEPS = {"node1": 0, "node2": 1, "node3": 0, "node4": 0}
OF_STEPS = {"0": 23 * 2 * MIB, "1": 37 * 2 * MIB}
WITHOUT_JOB = ("node4", "dd if=/dev/zero of=copy bs=1M count=19")
BEFORE = ("mkdir ensemble images untar\n"
          "for i in $(seq 41); do dd if=/dev/zero of=images/$i bs=1M count=4; done")


class Job:
    """A job, and what the tables have to say of it; bytes, and counts of requests to the MDT."""

    def __init__(self, job, user, name, nodes, does, read=0, written=0, rpcs=(0, 0),
                 **operations):
        self.job, self.user, self.name, self.nodes, self.does = job, user, name, nodes, does
        self.read, self.written, self.rpcs, self.operations = read, written, rpcs, operations


JOBS = [
    Job("4711", "alice", "ensemble", ["node1", "node2"], "23 + 37 files of 2 MiB written",
        written=60 * 2 * MIB, rpcs=(0, 60), open=60, close=60, mknod=60),
    Job("4712", "bob", "train", ["node3"], "41 files of 4 MiB read, by 1 MiB",
        read=41 * 4 * MIB, rpcs=(164, 0), open=41, close=41),
    Job("4713", "alice", "untar", ["node4"],
        "13 mkdir, 97 files of 8 KiB, 53 rm", written=97 * 8192, rpcs=(0, 97),
        open=97, close=97, mknod=97, mkdir=13, unlink=53),
]
OF_NOBODY = 19 * MIB
# The job after these: while it runs, a target evicts a node of it, and another one is stopped.
HIT = Job("4714", "bob", "restart", ["node1", "node3"], "23 + 37 files of 1 MiB written",
          written=60 * MIB)
HIT_WORK = {"node1": "for i in $(seq 23); do dd if=/dev/zero of=restart/a$i bs=1M count=1; done",
            "node3": "for i in $(seq 37); do dd if=/dev/zero of=restart/b$i bs=1M count=1; done"}
EVICTED, STOPPED = ("node1", "scratch-OST0002"), "scratch-OST0001"
# {node: (bytes read, bytes written)}
OF_NODES = {"node1": (0, 46 * MIB), "node2": (0, 74 * MIB), "node3": (164 * MIB, 0),
            "node4": (0, 97 * 8192 + OF_NOBODY)}


class Checks:
    """Numbers that were compared with what they have to be; what differs is said at the end."""

    def __init__(self):
        self.count, self.wrong = 0, []

    def equal(self, what, expected, found):
        self.count += 1
        if expected != found:
            self.wrong.append(f"{what}: expected {expected}, got {found}")

    def close(self, what, expected, found):
        """
        Within 10 %: a rate is of the time between two readings of a target, and on a busy machine
        these are some tenths of a second apart from the sweep's own 4 s.
        """
        self.count += 1
        if abs(found - expected) > 0.1 * max(expected, 1):
            self.wrong.append(f"{what}: expected about {expected:.0f}, got {found:.0f}")


def check_record(checks, job, record, truth):
    """What the nodes and what the storage servers have counted of a job; `truth`: of truths()."""
    what = f"job {job.job}"
    checks.equal(f"{what}, user", job.user, record["job"]["user"])
    checks.equal(f"{what}, nodes that reported", len(job.nodes), record["coverage"]["reported"])
    [nodes], [servers] = record["file_systems"], record["harvest"]["file_systems"]
    for name, amount in (("read_bytes", job.read), ("write_bytes", job.written)):
        checks.equal(f"{what}, {name} of the application", amount, nodes["application"][name])
        checks.equal(f"{what}, {name} over the network", amount, nodes["network"][name])
        checks.equal(f"{what}, {name} at the storage servers", amount, servers[name])
    checks.equal(f"{what}, read and write RPCs", job.rpcs,
                 (servers["read_rpcs"], servers["write_rpcs"]))
    for where, is_bound in (("nodes", nodes["lower_bound"]), ("servers", servers["lower_bound"])):
        checks.equal(f"{what}, is a lower bound by the {where}", False, is_bound)
    # A job that is shorter than a sweep may have done all or nothing of what its nodes did in it.
    [by_node] = record["by_node"]["file_systems"]
    for name, amount in (("read_bytes", job.read), ("write_bytes", job.written)):
        low, high = by_node["low"][name], (by_node["high"] or {}).get(name, 0)
        checks.equal(f"{what}, {name} by its nodes are {amount}, within {low} and {high}", True,
                     low <= amount <= high)
    operations = {name: one["count"] for name, one in servers["operations"].items()}
    for name, count in job.operations.items():
        checks.equal(f"{what}, {name} at the MDS", count, operations.get(name))
    # Target by target, with the stat() that rm and others do: as the mounts have counted it.
    for target in servers["targets"]:
        sent = {}
        for node in job.nodes:
            for name, (samples, amount) in truth[node][job.job].get(target, {}).items():
                rpcs = name.replace("_bytes", "_rpcs")
                for what_of, count in ((name, amount), (rpcs, samples)) if rpcs != name else (
                        [(name, samples)] if name not in ("read", "write") else []):
                    sent[what_of] = sent.get(what_of, 0) + count
        found = {name: servers["targets"][target].get(name) for name in sent}
        checks.equal(f"{what}, all requests to {target}", sent, found)


def check_sweeps(checks, answers, of_nobody):
    """
    The rates of all sweeps, times their seconds: by job, without one, and by node.  A machine that
    was too busy to look at each of them says so.
    """
    for of_sweeps in answers.values():
        moments = sorted(of_sweeps)
        if any(later - of_sweeps[later]["span_s"] > earlier + 1
               for earlier, later in zip(moments, moments[1:])):
            print("A sweep was missed here, on a busy machine: rates are not compared.\n")
            return
    seen = {"(no job)": [0.0, 0.0]}
    for by, of_sweeps in answers.items():
        for answer in of_sweeps.values():
            rows = [(row[by], row) for row in answer["rows"]]
            if by == "job":
                rows += [("(no job)", one["no_job"]) for one in answer["file_systems"]]
            for name, row in rows:
                had = seen.setdefault(name, [0.0, 0.0])
                had[0] += row["read_bytes_per_s"] * answer["span_s"]
                had[1] += row["write_bytes_per_s"] * answer["span_s"]
    expected = {**{job.job: (job.read, job.written) for job in JOBS}, **OF_NODES,
                "(no job)": (0, of_nobody)}
    for name, amounts in expected.items():
        for what, amount, found in zip(("read", "written"), amounts, seen.get(name, (0, 0))):
            checks.close(f"top, {name}: {what}", amount, found)


def check_nodes(checks, rows, before, truth):
    """
    Nodes, by the storage servers' exports: bytes, and all requests as the mounts have counted
    them, less what came `before` the agents did.
    """
    rows = {row["node"]: row for row in rows}
    checks.equal("nodes, names", sorted([*NODES, "mds1"]), sorted(rows))
    for node, (read, written) in OF_NODES.items():
        row, sent = rows.get(node, {}), [requests_of(one[node]) for one in (truth, before)]
        checks.equal(f"{node}, NIDs", sorted(NODES[node]), sorted(row.get("nids", [])))
        checks.equal(f"{node}, bytes read", read, row.get("read_bytes"))
        checks.equal(f"{node}, bytes written", written, row.get("write_bytes"))
        checks.equal(f"{node}, is a lower bound", False, row.get("lower_bound"))
        checks.equal(f"{node}, requests that read, wrote, asked OSTs, asked the MDT",
                     [after - had for after, had in zip(*sent)], [row.get(name) for name in (
                         "reads", "writes", "ost_operations", "mdt_operations")])


def check_text(checks, what, text, amounts):
    """What stands on the screen: {first word of a line: amounts in it}."""
    for name, several in amounts.items():
        for amount in filter(None, several):
            form = f"{amount / MIB:.1f} MiB" if amount >= MIB else f"{amount / 1024:.1f} KiB"
            checks.equal(f"{what}, {name}: {form} is shown, and not as a bound", True, any(
                line.startswith(f"{name} ") and f" {form} " in line and f">= {form}" not in line
                for line in text.splitlines()))


def requests_of(jobs):
    """[reads, writes, other requests to OSTs, to MDTs] of {job id: {target: what was sent}}."""
    found = [0, 0, 0, 0]
    for targets in jobs.values():
        for target, counters in targets.items():
            for name, (samples, _) in counters.items():
                if name in ("read_bytes", "write_bytes"):
                    found[name == "write_bytes"] += samples
                elif name not in ("read", "write"):
                    found[2 + target.startswith("MDT")] += samples
    return found


def check_events(checks, rows, done):
    """
    What `iostats events --json` has of the time in which HIT ran; `done`: {"evicted", "stopped",
    "started": (when that was begun, when it was done)}.
    """
    def those(kind, **has):
        return [row for row in rows if row["kind"] == kind
                and all(row[name] == value for name, value in has.items())]

    def about(what, moments, found):
        checks.equal(f"{what} from {moments[0]:.1f} to {moments[1]:.1f} is told for {found:.1f}",
                     True, moments[0] - 1 <= found <= moments[1] + 2)
    node, target = EVICTED
    told = those("evicted", node="oss1")
    checks.equal("evictions that oss1 reports", [(target, "administrator", [node], 1)], [
        (row["target"], row["cause"], row["clients_names"], row["count"]) for row in told])
    for row in told:
        about("the eviction", done["evicted"], row["time"])
    checks.equal("evictions that nodes tell of", [(node, target)], [
        (row["node"], row["target"]) for row in those("evicted") if row not in told])
    down = those("target_down")
    checks.equal("targets that were down", [("oss1", STOPPED)],
                 [(row["node"], row["target"]) for row in down])
    for row in down:
        about("the stop", done["stopped"], row["time"])
        checks.equal("the target that was down is back", True, row["over"] is not None)
        about("the start", done["started"], row["over"] or 0.0)
    checks.equal("targets that came back", [STOPPED],
                 [row["target"] for row in those("target_up") if row["last"] >= done["evicted"][0]])
    checks.equal("recoveries, and that they are over", [(STOPPED, True)], [
        (row["target"], row["over"] is not None) for row in those("recovery")])
    checks.equal("nodes that lost a target, for a moment by the eviction",
                 sorted([EVICTED, *((one, STOPPED) for one in HIT.nodes)]), sorted(
                     (row["node"], row["target"]) for row in those("connection_lost")))
    checks.equal("events that are critical", 3, sum(row["severity"] >= 2 for row in rows))


def check_job_events(checks, records, text):
    """The same in HIT's record and on the screen, and in no other job's."""
    node, target = EVICTED
    found = records[HIT.job]["events"] or []
    checks.equal(f"job {HIT.job}, bytes written over the network", HIT.written,
                 records[HIT.job]["file_systems"][0]["network"]["write_bytes"])
    checks.equal(f"job {HIT.job}, evictions", [(target, node, "administrator")], [
        (one["target"], one["nodes"], one["cause"]) for one in found if one["kind"] == "evicted"])
    checks.equal(f"job {HIT.job}, targets that were down", [STOPPED], [
        one["target"] for one in found if one["kind"] == "target_down"])
    table = text.partition("Events during this job:")[2].splitlines()
    for what, where in (("evicted by an admin", (node, target)), ("target down", (STOPPED,))):
        checks.equal(f"job {HIT.job}: {what} is in its report, of {where}", True, any(
            what in line and all(word in line for word in where) for line in table))
    for job in JOBS:            # what a node had not sent when its job ended may be lost too
        if node not in job.nodes:
            checks.equal(f"job {job.job}, events", [], records[job.job]["events"] or [])
