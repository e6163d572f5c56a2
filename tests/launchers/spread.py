"""
Launchers of batch systems, for tests: they run a command once for each of several "nodes", which
are all this machine.

    spread.py srun [--OPTION=VALUE ...] COMMAND ...      in its own environment, input to all
    spread.py pbsdsh [-n INDEX] -- COMMAND ...           without our environment and input
    spread.py flux exec [-n] [-j JOB] -- COMMAND ...     likewise
    spread.py ssh [-n] [-o OPTION] -- NAME COMMAND       likewise, COMMAND by a shell

The environment says how it goes:

    SPREAD_NODES    their names
    SPREAD_ROOT     NAME below it is the node's --root
    SPREAD_PIDS     a directory: the number of each node's process goes to its file NAME.ROLE, our
                    own to the file launcher.ROLE
    SPREAD_WRONG    [WHAT:NAME ...]  none: the command can't be run there; hang: it never begins,
                    and nothing ends it but SIGKILL; late: it begins when the file NAME.go is in
                    SPREAD_PIDS; fail: the launcher itself fails at once; noise: it says a lot of
                    what is no use to anybody
"""
import os
import subprocess
import sys
import threading

KIND, ARGUMENTS = sys.argv[1], sys.argv[2:]
ENVIRON = os.environ
NAMES = ENVIRON["SPREAD_NODES"].split()
WRONG = {tuple(one.split(":")) for one in ENVIRON.get("SPREAD_WRONG", "").split()}
PASSED_ON = ("PATH", "HOME", "SPREAD_NODES", "SPREAD_ROOT", "SPREAD_PIDS", "SPREAD_WRONG")


def read_command():
    """(names of the nodes, the command as a list, its environment)."""
    words, bare = list(ARGUMENTS), {name: ENVIRON[name] for name in PASSED_ON if name in ENVIRON}
    if KIND == "srun":
        while words[0].startswith("-"):
            words.pop(0)
        return NAMES, words, dict(ENVIRON)
    before, after = words[:words.index("--")], words[words.index("--") + 1:]
    if KIND == "flux":
        return NAMES, after, bare
    if KIND == "pbsdsh":
        return ([NAMES[int(before[1])]] if before else NAMES), after, bare
    return [after[0]], after[1:], bare


def write_pid(name, command, pid):
    if "SPREAD_PIDS" in ENVIRON:
        role = next((word for word in ("attend", "start", "stop") if word in " ".join(command)), "")
        path = os.path.join(ENVIRON["SPREAD_PIDS"], f"{name}.{role}")
        beside = f"{path}.{os.getpid()}"
        with open(beside, "w") as file:
            file.write(str(pid))
        os.rename(beside, path)


def begin(name, command, environ):
    """The process of one node."""
    options = ["--node", name]
    if "SPREAD_ROOT" in ENVIRON:
        options += ["--root", os.path.join(ENVIRON["SPREAD_ROOT"], name)]
    if ("none", name) in WRONG:
        command = ["/no/such/python"]
    elif ("hang", name) in WRONG:
        command = ["/bin/sh", "-c", "trap '' HUP INT TERM; exec sleep 1000"]
    elif KIND == "ssh":
        command = ["/bin/sh", "-c", "exec " + " ".join((*command, *options))]
    else:
        command = [*command, *options]
    if ("late", name) in WRONG:
        go = os.path.join(ENVIRON["SPREAD_PIDS"], name + ".go")
        command = ["/bin/sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"', go,
                   *command]
    if KIND == "srun":
        environ["SLURMD_NODENAME"] = name
    try:
        one = subprocess.Popen(command, env=environ, cwd=None if KIND == "srun" else "/",
                               stdin=subprocess.PIPE if KIND == "srun" else subprocess.DEVNULL)
    except OSError as error:
        print(f"{KIND}: error: {name}: {command[0]}: {error.strerror}", file=sys.stderr)
        return None
    write_pid(name, command, one.pid)
    return one


def main():
    if any(what == "fail" for what, _ in WRONG):
        sys.exit(f"{KIND}: error: no such partition")
    if any(what == "noise" for what, _ in WRONG):
        for number in range(1000):
            print(f"{KIND}: line {number}: \x1b[31m\xff", file=sys.stderr)
        os.write(1, bytes(range(256)) * 400)
        os.write(2, bytes(range(128, 256)) * 1000)
        os.write(1, b"\n")
        os.write(2, b"\n")
    names, command, environ = read_command()
    write_pid("launcher", command, os.getpid())
    running = [begin(name, command, environ) for name in names]

    def to_all():
        while KIND == "srun" and os.read(0, 4096):
            pass
        for one in running:
            if one and one.stdin:
                one.stdin.close()
    threading.Thread(target=to_all, daemon=True).start()
    sys.exit(max((127 if one is None else abs(one.wait())) for one in running))


main()
