"""
iostats_client.py: start, stop and show, on a compute node; standard library only.

The command line is read by hand, and what only `stop` and `show` need is imported there: a
`start` runs on every node of a job in the same second, and argparse, json and dataclasses
would make it three times as dear (benchmarks/README.md).
"""

import os
import sys

from iostats import config as site
from iostats import node as this_node
from iostats import sources, state
from iostats.errors import (
    DONE,
    UNREADABLE,
    IostatsError,
    NoStart,
    NotDelivered,
    NotReadable,
    StateError,
    UsageError,
)

HELP = """\
usage: iostats_client.py start|stop|show|doctor [options]
       iostats_client.py mark NAME [options]
       iostats_client.py watch --every SECONDS [options] &

Measure this node's Lustre I/O for one job and send it to the job's server.

  start                 keep the counters as they are before the work begins
  mark NAME             a part of the job begins here, NAME in the report
  watch                 look now and then until the job ends, for its rates
  stop                  read them again, and send what changed to the server
  show                  print this node's counters now; needs no server and
                        changes nothing
  doctor                say what is in the way here, and the command that mends
                        it; changes nothing

options:
  --job ID              the job (default: SLURM_JOB_ID, PBS_JOBID, LSB_JOBID,
                        JOB_ID, FLUX_JOB_ID, COBALT_JOBID; see site.cfg)
  --node NAME           this node's name (default: SLURMD_NODENAME, or the host
                        name without its domain)
  --server HOST[:PORT]  stop, doctor: where the job's server runs (default:
                        site.cfg)
  --secret FILE         stop, doctor: the job's secret (default: in ~/.iostats)
  --state-dir DIR       where the start is kept (default: site.cfg, or a private
                        folder below /tmp)
  --root DIR            read proc/ and sys/ below DIR (default: /)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  --every SECONDS       watch: pause between two looks (1 to 86400)
  --again               start: forget an earlier start of this job
  --public              start, as root in a prolog: keep it where the job's user
                        can use it, but not change it (see site.cfg)
  --json                show, doctor: as JSON
  --quiet               say nothing but errors
  --never-fail          exit with 0 whatever happens, for prologs
  -h, --help            this text

examples:
  iostats_client.py show
  iostats_client.py show --root tests/data/lustre-2.15     from saved files
  iostats_client.py start
  iostats_client.py stop --server login1
  iostats_client.py doctor --server login1
  iostats_client.py 1                    as lustre_iostats had it: start
  iostats_client.py 2 login1             as lustre_iostats had it: stop

exit status:
  0 done   1 counters not readable, or a problem that the doctor found
  2 bad usage or site.cfg
  3 server not reached (the delta is kept; `stop` again sends it)
"""

_WITH_VALUE = ("--job", "--node", "--server", "--secret", "--state-dir", "--root", "--config",
               "--every")
_LONGEST_MARK, _MOST_MARKS = 60, 99
_FLAGS = ("--again", "--public", "--json", "--quiet", "--never-fail")
_ROLES = ("start", "mark", "watch", "stop", "show", "doctor")


def main(arguments=None):
    """Run one command; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    never_fail = "--never-fail" in arguments
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except IostatsError as error:
        print(f"iostats: {error}", file=sys.stderr)
        status = error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = DONE
    except KeyboardInterrupt:
        status = 130
    except OSError as error:
        print(f"iostats: {error}", file=sys.stderr)
        status = UNREADABLE
    return DONE if never_fail else status


def parse(arguments):
    """(role, {option: value}) of a command line; UsageError."""
    given, words = {}, []
    arguments = list(arguments)
    while arguments:
        word = arguments.pop(0)
        option, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            return "help", {}
        if option in _WITH_VALUE:
            if not equals:
                if not arguments:
                    raise UsageError(f"{option}: expected a value after it (see --help)")
                value = arguments.pop(0)
            given[option] = value
        elif word in _FLAGS:
            given[word] = True
        elif word.startswith("-"):
            raise UsageError(f"no option {word!r}; there are: "
                             f"{' '.join(_WITH_VALUE + _FLAGS)} (see --help)")
        else:
            words.append(word)
    if words == ["1"]:
        words = ["start"]
    elif words[:1] == ["2"] and len(words) <= 2:
        if len(words) == 2:
            given.setdefault("--server", words[1])
        words = ["stop"]
    if words[:1] == ["mark"] and len(words) == 2:
        given["mark"] = words.pop()
    if words == ["mark"] and "mark" not in given:
        raise UsageError("mark: expected the name of the part that begins, got nothing")
    if len(words) != 1 or words[0] not in _ROLES:
        raise UsageError(f"expected one of {' '.join(_ROLES)}, got "
                         f"{' '.join(words) or 'nothing'!r} (see --help)")
    return words[0], given


def _run(arguments):
    role, given = parse(arguments)
    if role == "help":
        print(HELP, end="")
        return DONE
    root = given.get("--root", "/")
    if not os.path.isdir(root):
        raise UsageError(f"--root: expected a folder, got {root!r}")
    if role == "doctor":
        return _doctor(given, root)
    config = site.load(given.get("--config"))
    if "--server" in given:
        config.take("server.host", given["--server"], "--server")
    if "--state-dir" in given:
        config.take("node.state_dir", given["--state-dir"], "--state-dir")
    return {"start": _start, "mark": _mark, "watch": _watch, "stop": _stop, "show": _show}[role](
        given, config, root)


def _snapshot(given, root, config, *about, **more):
    return this_node.snapshot(root, config, *about, say=lambda text: _say(given, text), **more)


def _say(given, text):
    if "--quiet" not in given:
        print(f"iostats: {text}", file=sys.stderr)


# -- start -----------------------------------------------------------------------------------

def _start(given, config, root):
    from iostats import snapshot as snapshots
    if "--public" in given and (os.geteuid() or not config["node.public_dir"]):
        raise UsageError("start --public: expected root, whose files the job's user can't change, "
                         f"got user {os.geteuid()}; use `start` alone" if os.geteuid() else
                         "start --public: [node] public_dir in site.cfg is empty; name a folder")
    node, job = this_node.name(given.get("--node")), this_node.job(given.get("--job"), config)
    kept = _state(config, job, node)
    known = sources.of_side("node")
    now = _snapshot(given, root, config, known, job, node, os.urandom(8).hex())
    if "--public" in given:
        kept.leave()
        kept.keep_public_start(snapshots.encode(now))
        return _readable(given, now, known)
    again = "--again" in given
    if again:
        kept.forget_start()
    if not kept.keep_start(snapshots.encode(now), replace=again):
        earlier = _earlier_start(kept)
        if earlier is not None and earlier.boot_id == now.boot_id:
            _say(given, f"job {job} was started on {node} already, "
                        f"{max(0, now.wall_ns - earlier.wall_ns) / 1e9:.0f} s ago; that start is "
                        f"kept (--again forgets it)")
            return DONE
        _say(given, f"an earlier start of job {job} on {node} is "
                    f"{'damaged' if earlier is None else 'from another boot'}; begun again")
        kept.forget_start()
        kept.keep_start(snapshots.encode(now), replace=True)
    return _readable(given, now, known)


def _mark(given, config, root):
    from iostats import snapshot as snapshots
    node, job = this_node.name(given.get("--node")), this_node.job(given.get("--job"), config)
    mark = given["mark"].strip()
    if not mark.isprintable() or not 0 < len(mark) <= _LONGEST_MARK:
        raise UsageError(f"mark: expected a name of 1 to {_LONGEST_MARK} printable characters, got "
                         f"{given['mark'][:40]!r}")
    kept = _state(config, job, node)
    start = _begun(kept, job, node, "the first mark")
    if len(kept.marks()) >= _MOST_MARKS:
        raise UsageError(f"mark: expected at most {_MOST_MARKS} marks in a job, got one more; "
                         f"mark larger parts")
    known = sources.of_side("node")
    now = _snapshot(given, root, config, known, job, node, start.seq, mark)
    kept.keep_mark(snapshots.encode(now))
    return _readable(given, now, known)


def _watch(given, config, root):
    from iostats import watch
    every = given.get("--every", "")
    if not (every.isascii() and every.isdigit() and len(every) <= 5 and 1 <= int(every) <= 86400):
        raise UsageError(f"watch: expected --every with 1 to 86400 seconds, got {every[:40]!r}")
    node, job = this_node.name(given.get("--node")), this_node.job(given.get("--job"), config)
    kept = _state(config, job, node)
    seq = _begun(kept, job, node, "`watch`").seq
    llite = {"llite": sources.of_side("node")["llite"]}
    watch.run(kept, seq,
              lambda: _snapshot({"--quiet": True}, root, config, llite, job, node, seq),
              llite, int(every))
    return DONE


def _begun(kept, job, node, what):
    """The start snapshot, without which `what` makes no sense."""
    from iostats import snapshot as snapshots
    begun = kept.load_start()
    if begun is None:
        kept.leave()
        raise NoStart(f"{node}: job {job} was not started here: no snapshot in {kept.folder}; run "
                      f"`iostats_client.py start` before {what}")
    return snapshots.decode(begun, kept.loaded_from)


def _state(config, job, node):
    return state.open_state(config["node.state_dir"], job, node, config["node.public_dir"])


def _earlier_start(kept):
    from iostats import snapshot as snapshots
    try:
        return snapshots.decode(kept.load_start(), kept.start_path)
    except IostatsError:
        return None


def _readable(given, now, known):
    """DONE when at least one counter file was read, or there is none to read."""
    counters = [file for file in now.files if hasattr(known.get(file.source), "parse")]
    if not counters:
        _say(given, f"{now.node}: no Lustre file system is mounted")
    elif all(file.errno for file in counters):
        from iostats.snapshot import reason
        why = reason(counters[0].errno)
        raise NotReadable(f"{now.node}: none of {len(counters)} counter files could be read: "
                          f"{why}; {_advice(why)}")
    return DONE


def _advice(why):
    if why.startswith("permission denied"):
        return "start the client as root (see README, \"Who may read the counters\")"
    return "`iostats_client.py doctor` tells more"


# -- stop ------------------------------------------------------------------------------------

def _stop(given, config, root):
    import json
    from iostats import post, secret
    node, job = this_node.name(given.get("--node")), this_node.job(given.get("--job"), config)
    if not config["server.host"]:
        raise UsageError("no server: give --server HOST, or set [server] host in site.cfg")
    post.split_server(config["server.host"])            # a typo shows before anything is done
    kept = _state(config, job, node)
    waiting = kept.deltas()
    failed = None
    try:
        begun = kept.load_start()
        if begun is not None:
            report, path = _report_of(given, begun, kept, config, root, job, node, waiting)
            waiting.setdefault(path, report)
            if os.path.exists(path):
                kept.forget_start()
    except IostatsError as error:
        failed = error
    password = secret.where(given.get("--secret"), config["secret.dir"], job)
    if failed is not None or not waiting:
        _tell_no_start(job, node, failed, config, password)
        if not waiting:
            raise failed or NoStart(f"{node}: job {job} was not started here: no snapshot in "
                                    f"{kept.folder}; run `iostats_client.py start` before the "
                                    f"work")
    reports = {}
    for path, data in waiting.items():
        try:
            reports[path] = json.loads(data)
        except ValueError:
            failed = StateError(f"{path}: the report is cut off or damaged, and cannot be sent; "
                                f"remove the file")
    for path, report in reports.items():
        try:
            answer = post.deliver(report, config["server.host"], password, config,
                                  lambda text: _say(given, text))
        except (NotDelivered, StateError) as error:     # the secret can be in a bad state
            where = path if os.path.exists(path) else kept.loaded_from
            later = ", `stop` again sends it" if getattr(error, "later", True) else ""
            raise NotDelivered(f"{error}; kept in {where}{later}") from None
        if isinstance(answer, dict) and answer.get("why"):
            _say(given, str(answer["why"]))
        state.forget(path)
    if failed is not None:
        raise failed
    kept.forget_start()                                 # still there if the disk was full
    kept.forget_public_start()
    kept.leave()
    return _status(given, list(reports.values()))


def _report_of(given, begun, kept, config, root, job, node, waiting):
    """(the report as it is sent, where it waits) of the start snapshot `begun`."""
    import json
    from iostats import snapshot as snapshots
    start = snapshots.decode(begun, kept.loaded_from)
    path = kept.delta_path(start.seq)
    if path in waiting:                                 # stopped before, between two steps
        return waiting[path], path
    known = sources.of_side("node")
    end = _snapshot(given, root, config, known, job, node, start.seq)
    marks = []
    for at in kept.marks():
        try:
            marks.append(snapshots.decode(kept.load(at) or b"", at))
        except StateError:                              # the start and the end still stand
            _say(given, f"{at}: the mark is cut off or damaged; its part is in the one before")
    marks = [mark for mark in marks if mark.seq == start.seq]
    found = report([start, *marks, end], known, root, config)
    watched = kept.load(kept.watch_path)
    if watched:
        from iostats import watch
        found["series"] = watch.with_tail(watched, found)
    data = json.dumps(found, separators=(",", ":")).encode()
    try:
        kept.keep_delta(start.seq, data)
    except IostatsError as error:
        # The disk is full: the start snapshot still stands, and the report may yet arrive.
        _say(given, error)
    return data, path


def report(snapshots, known, root, config):
    """
    The params of the method `report`, docs/wire.md, for what lies between the snapshots: the
    start, the marks, and the end.
    """
    from iostats import delta, files, wire
    start, end = snapshots[0], snapshots[-1]
    pairs = list(zip(snapshots, snapshots[1:]))
    parts = [delta.between(before, after, known) for before, after in pairs]
    dirty = sources.of_side("node, at the end")["dirty"]
    return {
        "protocol": wire.PROTOCOL, "job": end.job, "node": end.node, "seq": start.seq,
        "boot_id": end.boot_id, "user": _user(), "reason": "", "ended": end.wall_ns / 1e9,
        "elapsed_s": _seconds(start, end), "clock_ahead_s": 0.0, "uptime_s": end.boot_ns / 1e9,
        "mounts": files.mount_points(root),
        "deltas": _as_sent(_without_osts(
            delta.over(snapshots, known) if parts[1:] else parts[0], delta.merged)),
        "dirty_bytes": dirty.by_file_system(dirty.read(root, config)),
        "other_jobs": this_node.other_jobs(end.job, start, end),
        "phases": [{"name": before.mark or f"(before {after.mark})",
                    "elapsed_s": _seconds(before, after),
                    "deltas": _as_sent(one for one in part if one.source == "llite")}
                   for (before, after), part in zip(pairs, parts)] if parts[1:] else [],
    }


def _without_osts(deltas, merged):
    """The deltas with one of rpc_stats for each file system: no report shows it by OST."""
    return merged([[one._replace(target="", instance="")] if one.source == "rpc_stats" else [one]
                   for one in deltas])


def _as_sent(deltas):
    """The deltas by name, without what is "", false, or of no use to the server."""
    return [{name: value for name, value in one._replace(why=one.why[:500])._asdict().items()
             if name == "values" or (value and name != "instance")} for one in deltas]


def _seconds(before, after):
    """Seconds between two snapshots; by the clock that nobody sets, where there is one."""
    if before.boot_id == after.boot_id and before.boot_ns and after.boot_ns:
        return max(0, after.boot_ns - before.boot_ns) / 1e9
    return max(0, after.wall_ns - before.wall_ns) / 1e9


def _tell_no_start(job, node, failed, config, password):
    """Let the server know, in one try, that this node has no numbers; it need not wait."""
    import time
    from iostats import post, wire
    message = {
        "protocol": wire.PROTOCOL, "job": job, "node": node, "seq": os.urandom(8).hex(),
        "boot_id": this_node.boot_id(), "user": _user(),
        "reason": "the start snapshot is damaged" if failed else "no start",
        "ended": time.time(), "elapsed_s": 0.0, "clock_ahead_s": 0.0, "mounts": {}, "deltas": [],
    }
    try:
        post.deliver(message, config["server.host"], password, {**config, "node.try_for": 0})
    except IostatsError:
        pass                                            # the user is told of the greater trouble


def _user():
    for variable in ("SLURM_JOB_USER", "USER", "LOGNAME"):
        if os.environ.get(variable, "").isprintable() and os.environ.get(variable):
            return os.environ[variable][:64]
    return str(os.geteuid())


def _status(given, reports):
    """Exit status for what was delivered; says what could not be read."""
    deltas = [one for each in reports for one in each["deltas"]]
    broken = [one["why"] for one in deltas if one["values"] is None and "/" in one["why"]]
    for why in broken:
        _say({}, why)
    if not deltas:
        _say(given, f"{reports[0]['node']}: no Lustre file system is mounted")
    elif all(one["values"] is None for one in deltas):
        raise NotReadable(f"none of {len(deltas)} counter files could be read: "
                          f"{deltas[0]['why']}; {_advice(deltas[0]['why'])}")
    return UNREADABLE if broken else DONE


# -- show ------------------------------------------------------------------------------------

def _show(given, config, root):
    from iostats import show
    known, by_reader = sources.of_side("node"), set()
    now = _snapshot(given, root, config, known, "-", this_node.name(given.get("--node")), "-",
                    by_reader=by_reader)
    if "--json" in given:
        import json
        # All of it, also where nothing could be read: this is the reader's answer, too.
        print(json.dumps(show.as_json(now, known, root), indent=2))
    status = _readable({"--quiet": True}, now, known)
    if "--json" not in given:
        print(show.as_text(now, known, root, config, by_reader), end="")
    broken = show.broken(now, known)
    for why in broken:
        _say({}, why)
    return UNREADABLE if broken else status


# -- doctor ----------------------------------------------------------------------------------

def _doctor(given, root):
    from iostats import doctor
    checks = doctor.examine(given, root, sources.of_side("node"))
    if "--json" in given:
        import json
        print(json.dumps(doctor.as_json(checks), indent=2))
    else:
        print(doctor.as_text(checks), end="")
    return UNREADABLE if any(one.state == doctor.PROBLEM for one in checks) else DONE


if __name__ == "__main__":
    sys.exit(main())
