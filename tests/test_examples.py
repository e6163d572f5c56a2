"""
The examples of the documents and of the help texts: each is run here, or NOT_RUN says why not.

An example is a line of a block of a document (indented, or fenced) that begins with a program, or
a line below "examples:" of a help text, or a command in the text between backticks that has
arguments.  The lines of one block are one script.  The site of these examples has a running
server with the jobs and storage servers that they name; `srun` and the names of hosts are
stand-ins.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from events_messages import event, params
from processes import BEFORE, new_job, until, write_tree
from site_desk import SiteDesk, a_report, script
from storage import StorageServer, moved
from trees import ROOT

import docs
from iostats.wire import client, protocol

COMMANDS = {"client": "iostats_client.py", "server": "iostats_server.py", **{
    name: f"iostats {name}" for name in ("run", "report", "jobs", "top", "collector", "events",
                                         "query", "why", "web", "store", "mail")}}
HELP = {program: docs.find_commands()[name].format_help() for name, program in COMMANDS.items()}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(
            page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "tutorial"),
         ROOT / "benchmarks/README.md"]

# What a line of a block begins with when it is a command.
PROGRAMS = (r"(?:iostats|(?:\./)?iostats_(?:client|server)\.py|make|python3?|\S*bin/(?:python|pip)"
            r"|srun|mpirun|sbatch|scp|mkdir|systemctl|sacct|qmgr|lctl|mount|wait)")

NOT_RUN = {
    r"make (demo|docs|test|postgresql|quick|pythons|coverage|bench|chaos|fuzz|soak|score|lock"
    r"|audit)"
    r"\b.*":
        "a whole run of its own; tests/test_setup.py and tests/cli/test_sample_job.py have parts",
    r"make install-\w+.*|systemctl .*|mkdir -p /etc/iostats|scp .*":
        "changes the machine; tests/test_setup.py and tests/test_systemd.py install each role",
    r"python3 -m venv .*|(\S*/)?bin/pip .*|mkdir /opt/iostats/.*":
        "needs PyPI; tests/test_setup.py installs from wheels",
    r"sbatch .*":
        "tests/run/test_slurm_run.py and tests/cli/test_sample_job.py run these jobs",
    r"sacct .*":
        "needs Slurm's plugin and its nodes; tests/cluster.py has the cluster it was measured on",
    r"mpirun .*":
        "tests/node/test_mpi_reduce.py runs them under mpiexec",
    r"(\S+=\S+ )*(\.venv/bin/)?python -m pytest .*":
        "these are tests themselves",
    r"(\.venv/bin/)?python (tools/licences|tools/docs|benchmarks/run|benchmarks/curves)\.py.*":
        "tests/test_docs.py, tests/test_benchmarks.py and tests/test_curves.py run these programs",
    r"iostats_client\.py start --public":
        "writes to /run/iostats; tests/node/test_start_files.py",
    r"venv/bin/python -m simlustre\.demo":
        "needs that environment; tests/test_packages.py runs it from a wheel",
    r"(\S+=\S+ )?\S*python -m simlustre .*|.* --root /tmp/oss1/root.*":
        "needs FUSE; tests/simlustre/test_storage_servers.py mounts these",
    r"(\S*bin/)?python -m simldms .*":
        "goes on until it is killed; tests/simldms/test_simldms.py runs it as a process",
    r"iostats collector.*|curl -N http://localhost:8980/.*"
    r"|iostats events --server (HOST:8980|A --server B)":
        "root may not, and other users not read this log; tests/collector has a collector",
    r"iostats web.*|curl --unix-socket .*":
        "root may not, and it goes on until it is stopped; tests/web has the pages",
    r"iostats ldms (check|convert) .*":
        "tests/iostats_ldms/test_documented.py runs these on the page's description",
    r"iostats ldms generate .*":
        "tests/iostats_ldms/test_worked_example.py runs these on the page's first description",
    r"iostats ldms (run|plan|status)\b.*":
        "needs LDMS' daemons; tests/iostats_ldms and tools/demo_ldms.py run them",
    r"iostats ldms (load|history|rollback)\b.*":
        "needs etcd; tests/iostats_ldms/test_load_command.py compares them with the document",
    r"iostats import .*":
        "needs an InfluxDB of jobHarvest; tests/jobs/test_imported.py",
    r"iostats store --rebuild":
        "needs a damaged store; tests/cli/test_store_command.py",
}
# Those that go on until they are stopped; they are stopped when they have begun.
ENDLESS = (r"iostats_client\.py harvest admin1 .*", r"iostats_server\.py (?!--print-port).*",
           r"iostats top (?!.*(--once|--help|--json|--statsfile)).*", r"iostats events -f.*")
# Exit status of those that do not end with 0.
STATUS = {r"iostats(_client\.py)? doctor.*": "[01]",      # it finds that there is no reader here
          r"iostats(_client\.py)? events --local.*": "[01]"}         # and no kernel's log there


def commands_of(block):
    """[command] of the lines of a block: without the prompt, and without what explains them."""
    found = []
    for line in block:
        line = re.sub(r"^\s*(\$ )?", "", line)
        if re.match(rf"(?:[A-Z_]+=\S+ )*{PROGRAMS}(?: |$)", line):
            found.append(re.split(r"\s{3,}|\s+# ", line)[0])
    return found


def blocks_of(text):
    """[[line]] of the indented and fenced blocks of a document, but those of tools/docs.py."""
    text = re.sub(r"<!-- [\w-]+ -->\n.*?<!-- end -->", "", text, flags=re.S)
    found, block, fenced = [], [], False
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            fenced = not fenced
        if fenced or line.startswith("    "):
            block.append(line)
        elif block:
            found.append(block)
            block = []
    return found


def inline_of(text):
    """[command] between backticks that has arguments, none of them a word in capitals."""
    text = re.sub(r"<!-- [\w-]+ -->\n.*?<!-- end -->", "", text, flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    found = re.findall(r"`(iostats(?:_client\.py|_server\.py)? [^`]+)`", text.replace("\n", " "))
    found = [re.sub(r"\s+", " ", command) for command in found]
    return [command for command in found
            if len(command.split()) > 2
            and not re.search(r"\s[A-Z_]{2,}\b|\.\.\.|\s\|\s", command)]


def examples():
    """[pytest.param(script's commands)] of all documents and help texts."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(ROOT)
        found += [(f"{name}: {commands[0]}", commands)
                  for commands in map(commands_of, blocks_of(text)) if commands]
        found += [(f"{name}: {command}", [command]) for command in dict.fromkeys(inline_of(text))]
    for name, text in HELP.items():
        part = re.search(r"(?m)^examples:\n((?:  .*\n)+)", text)
        if part:
            found.append((f"{name} --help", [re.split(r"\s{3,}", line.strip())[0]
                                             for line in part[1].splitlines()]))
    return [pytest.param(commands, id=name) for name, commands in found]


def matches(table, command):
    return next((one for one in table if re.fullmatch(one, command)), None)


EXAMPLES = examples()


# -- the site of these examples --------------------------------------------------------------

_CLIENT = f"""#!{sys.executable} -B
import os, sys
sys.path.insert(0, {str(ROOT)!r})
words = [os.environ["LOGIN1"] if word == "login1" else os.environ["ADMIN1"] if word == "admin1"
         else word for word in sys.argv[1:]]
if "--root" not in words and words[:1] not in (["1"], ["2"]):
    words += ["--root", os.environ["OSS" if words[0] == "harvest" else "NODE"]]
from iostats.cli.node import main
sys.exit(main(words))
"""
_IOSTATS = f"""#!{sys.executable} -B
import os, sys
sys.path.insert(0, {str(ROOT)!r})
words = sys.argv[1:]
if "--local" in words:
    words += ["--root", os.environ["OSS"]]
    words += ["--every", "1"] * (words[0] == "top")                # the last one counts
from iostats.__main__ import main
sys.exit(main(words))
"""
_SERVER = f"""#!{sys.executable} -B
import sys
sys.path.insert(0, {str(ROOT)!r})
from iostats.cli.server import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    A site's server that knows jobs 4711, 4711_3, 4712 and 4733, a storage server's sweeps, and an
    event.
    """
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.configure(site_deadline="0.3", harvest_interval=1, harvest_spool_dir=desk.directory)
        desk.site()
        parts = [{"name": name, "elapsed_s": 18.5, "deltas": a_report()["deltas"]}
                 for name in ("solve", "write")]
        series = {"scratch": {"began": 1_795_225_030.0, "every_s": 10.0, "read_bytes": [41_003, 0],
                              "write_bytes": [0, 0], "operations": [23, 0]}}
        for job in ("4711", "4711_3", "4712", "4733"):
            desk.send(a_report(job, "nid1", about={"nodes": "nid1"}, phases=parts, series=series))
            until(lambda job=job: desk.records(job), what=f"the record of {job}")
        for one in params([event(23, at=time.time() - 41)], made_at=time.time()):
            client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), "oss1",
                        "packed_events", one)
        # Under the name of those who run the examples: two agents of one target are one too many.
        desk.oss = StorageServer(desk, "login1")
        others = {f"io.{number}": moved(37) for number in range(100)}        # two pages of query a
        for ost in ({}, {"4733": moved(41_003, 53_007), **others}):
            desk.oss.show("OST0000", ost)
            assert 0 == desk.oss.sweep().status
        until(lambda: desk.query(level="b"), what="a sweep")
        for name, text in (("iostats", _IOSTATS), ("iostats_client.py", _CLIENT),
                           ("iostats_server.py", _SERVER),
                           ("hostname", "#!/bin/sh\necho login1\n"),
                           *((name, '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                              'exec "$@"\n') for name in ("srun", "mpirun"))):
            script(desk.bin / name, text)
        yield desk


_EXPORT = """snapshot_time             1795332839.005385497 secs.nsecs
write_bytes               4 samples [bytes] 120000 2097152 4434304
"""


@pytest.fixture
def here(site, tmp_path):
    """
    (directory to run examples in, their environment), with a program, and a storage server's
    counters by job and by client, saved.
    """
    for name in ("iostats_client.py", "iostats_server.py"):
        (tmp_path / name).symlink_to(site.bin / name)
    for name in ("app", "prepare", "solve"):
        script(tmp_path / name, "#!/bin/sh\nexit 0\n")
    (tmp_path / "Makefile").write_text("all:\n")
    for name in ("4711.json", "before.json", "prepare.json", "solve.json"):
        (tmp_path / name).write_text(json.dumps(site.record("4711")))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    target = site.oss.root / "proc/fs/lustre/obdfilter/scratch-OST0000"
    for name in ("before.txt", "after.txt", "FILE", "BEFORE", "AFTER"):
        (tmp_path / name).write_text(
            f"obdfilter.scratch-OST0000.job_stats=\n{(target / 'job_stats').read_text()}"
            f"obdfilter.scratch-OST0000.exports.10.77.0.11@tcp.stats=\n{_EXPORT}")
    return tmp_path, {
        "PATH": f"{site.bin}:{os.environ['PATH']}", "HOME": str(site.home), "LC_ALL": "C.UTF-8",
        "TMPDIR": str(tmp_path), "LOGIN1": "127.0.0.1", "SLURMD_NODENAME": "login1",
        "ADMIN1": f"127.0.0.1:{site.port}", "OSS": str(site.oss.root),
        "NODE": str(write_tree(tmp_path / "node", **BEFORE)),
        "IOSTATS_NODE_STATE_DIR": str(tmp_path / "state"), "IOSTATS_NODE_RETRY_TIMEOUT": "9",
        "IOSTATS_HARVEST_SPOOL_DIR": str(tmp_path / "spool"),
        "IOSTATS_NODE_HOOK_DIR": str(tmp_path / "hooks"),
        "IOSTATS_SITE_STORE": str(tmp_path / "other.sqlite"),
        **{f"IOSTATS_SITE_{key}": str(site.choices[f"site.{key.lower()}"])
           for key in ("HOST", "PORT", "SECRET")},
    }


@pytest.mark.parametrize("commands", [
    one for one in EXAMPLES if any(not matches(NOT_RUN, command) for command in one.values[0])])
def test_an_example_runs(site, here, commands):
    """In its block's order, with exit status 0 unless STATUS says another one."""
    directory, environ = here
    if "jq" in " ".join(commands) and not shutil.which("jq"):
        pytest.skip("needs jq")
    if not any(command.startswith("iostats run") for command in commands):
        environ.update(SLURM_JOB_ID=new_job(), SLURM_JOB_NODELIST="login1")
    if not any("iostats_server.py" in command for command in commands):
        site.server("--nodes", "2", job=environ.get("SLURM_JOB_ID"), listen="")
    ends = [command for command in commands
            if not matches(NOT_RUN, command) and not matches(ENDLESS, command)]
    lines = []
    for command in ends:
        if command.endswith("&") or command == "wait":
            lines.append(command)
        else:
            status = STATUS.get(matches(STATUS, command), "0")
            lines.append(f"{command}\ncase $? in {status}) ;; *) echo \"status $?\" >&2; exit 99;; "
                         f"esac")
    printed = directory / "printed"
    with printed.open("w") as file:                # what goes on in the background has it open
        process = subprocess.Popen(["bash", "-c", "\n".join(lines)], cwd=directory, env=environ,
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                   start_new_session=True)
    try:
        process.wait(300)
    finally:
        _end_all(process)
    out = printed.read_text()
    assert 0 == process.returncode and "Traceback" not in out, out
    for number, command in enumerate(one for one in commands if matches(ENDLESS, one)):
        _starts(command, directory, environ, number)


def _starts(command, directory, environ, number):
    """It prints something, or the agent's spool is there; no mistake is in its command line."""
    printed = directory / f"endless{number}"
    with printed.open("w") as file:
        process = subprocess.Popen(["bash", "-c", f"exec {command.rstrip('& ')}"], cwd=directory,
                                   env={**environ, "SLURM_JOB_ID": new_job()},
                                   stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=file, start_new_session=True)
    try:
        until(lambda: printed.stat().st_size or process.poll() is not None
              or ("harvest" in command and (directory / "spool").is_dir()), what=command)
        process.terminate()
        assert process.wait(60) in (0, 3, -signal.SIGTERM, 143), printed.read_text()
        assert "Traceback" not in printed.read_text()
    finally:
        _end_all(process)


def _end_all(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def test_every_reason_for_an_example_that_is_not_run_is_used_and_names_files_that_are_there():
    """A reason that no example needs any more, or a test that was renamed, shows here."""
    commands = [command for one in EXAMPLES for command in one.values[0]]
    assert [] == [pattern for pattern in (*NOT_RUN, *ENDLESS, *STATUS)
                  if not any(re.fullmatch(pattern, command) for command in commands)]
    named = re.findall(r"tests/[\w/]+\.py", " ".join(NOT_RUN.values()))
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_a_path_of_the_checkout_in_an_example_is_there():
    """`show --root tests/data/lustre-2.15` named a directory that does not exist."""
    named = {path for one in EXAMPLES for command in one.values[0]
             for path in re.findall(r"(?:tests|tools|benchmarks|docs)/[\w./-]+", command)}
    assert named and set() == {path for path in named if not (ROOT / path).exists()}
