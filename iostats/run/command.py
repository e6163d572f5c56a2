"""
One command, measured on all nodes of its job: `iostats run -- srun ./app`.

    server (in this process)  ->  start on every node  ->  the command  ->  stop  ->  totals

The command gets our standard input and output, open files and environment as they are, every
signal that we get, and its exit status is ours.  Nothing that fails here keeps it from running.
Nodes are reached by the batch system's launcher; where that takes no new work while a job is being
ended (schedulers: NO_LAUNCH_AT_END) one process on each node stays and sleeps, see wait_for_end.py;
elsewhere `start` and `stop` are launched one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import shlex
import shutil
import signal
import threading
import time
from asyncio.subprocess import DEVNULL, PIPE

from iostats.base.errors import one_line
from iostats.node import wait_for_end
from iostats.totals.job_totals import Totals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from iostats.base.config import Config
    from iostats.server.job_server import JobServer
    from iostats.totals.job_totals import Outcome

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGXCPU)
_IMPATIENT = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SI_KERNEL = 0x80                 # siginfo's si_code: from a terminal, which has told all its group

_END_WITHIN_S = 10.0              # for a launcher, when all nodes have reported
_KILLED_WITHIN_S = 0.5
_DRAINED_WITHIN_S = 0.2           # somebody else may hold a launcher's output open
_LOOK_EVERY_S = 0.02
_SAME_SIGNAL_S = 0.5
_MOST_SAID, _LONGEST_LINE = 20, 500
_CLOCKS_S = 1.0                   # a node's clock is known to this

_LEFT = "its client has ended before the command: what was done after that is not counted"
_LATE = "its start came after the command's: what was done before that is not counted"


class PartTotals(Totals):
    """
    Totals of nodes of which some may have looked too late, or not until the command's end: what
    they tell is a lower bound then, and says why.

    Attributes:
        why_cut: why what is reported now does not reach to the command's end; "" when it does.
        began: when the command began, where not all nodes were ready by then; None otherwise.
    """

    why_cut: str = _LEFT
    began: float | None = None

    def add(self, report: Any) -> Outcome:
        why = self.why_cut
        if not why and self.began is not None and (
                report.ended - report.elapsed_s > self.began - _CLOCKS_S):
            why = _LATE
        if why:
            for delta in (*report.deltas, *(one for phase in report.phases or ()
                                            for one in phase.deltas)):
                delta.lower_bound = True
                if why not in delta.why and not (           # the node's own word says more
                        why == _LEFT and wait_for_end.WENT_ON in delta.why):
                    delta.why = "; ".join(filter(None, (delta.why, why)))
        return super().add(report)


# -- the nodes -------------------------------------------------------------------------------

class Nodes:
    """
    The client on all nodes of the job.

    `launchers`: [argv prefix], from schedulers/; `client(role)`: the argv of the client;
    `environ`: what it needs in its environment; `stays`, `quotes`: as in schedulers/;
    `unblocked()`: a context in which our signals are as they were.
    """

    def __init__(self, launchers: list[list[str]], client: Callable[[str], list[str]],
                 environ: Mapping[str, str], stays: bool, quotes: bool, say: Callable[[str], None],
                 unblocked: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
                 ) -> None:
        self._launchers, self._client, self._environ = launchers, client, environ
        self._stays, self._quotes, self._say, self._unblocked = stays, quotes, say, unblocked
        self._running: list[_Launched] = []
        self._all: list[_Launched] = []
        self._stopping: asyncio.Future[None] | None = None
        self._said = 0
        self.ready = 0                   # nodes that have started, or said that they can't
        self.failed: set[tuple[str, ...]] = set()          # launchers whose trouble is told

    async def start(self, count: int, within_s: float, told: asyncio.Event) -> bool:
        """
        Launch, and wait until `count` nodes are ready, all launchers are done, or `told` is set;
        False where some nodes may yet start.
        """
        await self._launch("attend" if self._stays else "start")
        ends = time.monotonic() + within_s
        while not (self.done or told.is_set() or (self._stays and self.ready >= count)):
            if time.monotonic() >= ends:
                self._say_who_is_late(count, within_s)
                break
            await asyncio.sleep(_LOOK_EVERY_S / 2)
        if self._stays:
            return self.done or self.ready >= count
        return not await _kill_late(self._running)

    def _say_who_is_late(self, count: int, within_s: float) -> None:
        late, all_, what = count - self.ready, count, "nodes are not ready"
        if not self._stays:
            late, all_ = sum(not one.done for one in self._running), len(self._running)
            what = "launchers have not come back"
        self._say(f"{late} of {all_} {what} after {within_s:g} s; the command begins without them")

    async def stop(self) -> None:
        """Tell the nodes, once, that the command has ended."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._stays:
            for one in self._running:
                one.end_input()
        else:
            await self._launch("stop")

    @property
    def stay(self) -> bool:
        """True where the nodes' processes are there, as far as one sees from here."""
        return not self._stays or all(one.status is None for one in self._running)

    @property
    def done(self) -> bool:
        """True when nobody is left who could start or report."""
        return all(one.done for one in self._running)

    async def end(self, within_s: float = _END_WITHIN_S) -> None:
        """End the launchers."""
        await _until(lambda: self.done, within_s)
        await _kill_late(self._all)
        for one in self._all:
            one.close()
        if self._said > _MOST_SAID:
            self._say(f"and {self._said - _MOST_SAID} more lines of the nodes")

    def say_some(self, line: str) -> None:
        """Pass on what a node or a launcher says: of a thousand nodes with one trouble, a few."""
        self._said += 1
        if self._said <= _MOST_SAID:
            self._say(one_line(line[:_LONGEST_LINE]))

    async def _launch(self, role: str) -> None:
        self._running = []
        for launcher in self._launchers:
            command = self._client(role)
            if self._quotes and launcher:
                command = [shlex.join(command)]
            one = _Launched(self, role, tuple(launcher) or (command[0],))
            try:
                with self._unblocked():
                    # A session of its own: Ctrl-C is for the command alone.
                    await asyncio.get_running_loop().subprocess_exec(
                        lambda one=one: one, *launcher, *command,  # type: ignore[misc]
                        env=self._environ,
                        start_new_session=True, stdin=PIPE if self._stays else DEVNULL,
                        stdout=PIPE, stderr=PIPE)
            except OSError as error:
                one.cannot_be_run(error)
                continue
            self._running.append(one)
            self._all.append(one)


class _Launched(asyncio.SubprocessProtocol):
    """
    A launcher that runs, or has run.

    Attributes:
        status: its exit status; None while it runs.
    """

    def __init__(self, nodes: Nodes, role: str, launcher: tuple[str, ...]) -> None:
        self._nodes, self._role, self._launcher = nodes, role, launcher
        self._hushed, self._said = launcher in nodes.failed, False
        self._rest = {1: b"", 2: b""}
        self._lines: list[str] = []
        self._transport: Any = None
        self._ended_at = 0.0
        self.status: int | None = None

    def cannot_be_run(self, error: OSError) -> None:
        if not self._hushed:
            self._nodes.failed.add(self._launcher)
            self._nodes.say_some(f"{self._launcher[0]}: cannot be run: {error.strerror}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._rest[fd] + data).split(b"\n")
        self._rest[fd] = rest[:_LONGEST_LINE]              # of a line without an end its begin
        for line in lines:
            self._line(fd, line)

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        rest = self._rest.pop(fd, b"")
        if rest:
            self._line(fd, rest)
        self._tell()

    def process_exited(self) -> None:
        self.status, self._ended_at = self._transport.get_returncode(), time.monotonic()
        self._tell()

    def _line(self, fd: int, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode("utf-8", "replace").strip()
        if fd == 1:
            self._nodes.ready += text in ("started", "not started")
        elif text.startswith("iostats: "):
            self._said = True
            self._nodes.say_some(text[len("iostats: "):])
        elif text and len(self._lines) < _MOST_SAID:
            self._lines.append(text)

    def _tell(self, at_last: bool = False) -> None:
        """What a launcher itself says is shown when it fails, once; a client's errors always."""
        if self.status is None or self._hushed or not (at_last or not self._rest):
            return
        self._hushed = True
        if self.status:
            self._nodes.failed.add(self._launcher)
            for line in self._lines or ([] if self._said else [
                    f"{self._launcher[0]}: {self._role}: expected exit status 0, got "
                    f"{self.status}"]):
                self._nodes.say_some(line)

    @property
    def done(self) -> bool:
        """True when it has ended, and all that it said is here."""
        return self.status is not None and (
            not self._rest or time.monotonic() > self._ended_at + _DRAINED_WITHIN_S)

    def end_input(self) -> None:
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    def kill(self, number: int) -> None:
        """Send a signal to it, and to all that it has started."""
        self._hushed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    def close(self) -> None:
        self._tell(at_last=True)
        self._transport.close()


async def _kill_late(launched: Iterable[_Launched]) -> int:
    """End those that have not ended, and what they leave behind; how many there were."""
    late = [one for one in launched if one.status is None]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for one in late:
            one.kill(number)
        await _until(lambda: all(one.status is not None for one in late), _KILLED_WITHIN_S)
    return len(late)


async def _until(true: Callable[[], object], within_s: float) -> None:
    """Wait until `true()`, or for so many seconds."""
    ends = time.monotonic() + within_s
    while not true() and time.monotonic() < ends:
        await asyncio.sleep(_LOOK_EVERY_S / 2)


# -- the command -----------------------------------------------------------------------------

class Command:
    """
    The user's command.

    Its signals are blocked here, and a thread waits for them: that way is told who has sent one.
    What a terminal sends goes to its whole foreground group, so the command has had it.

    Attributes:
        returncode: as of subprocess; None while it has not ended.
        failed: the OSError why it can't be run; None otherwise.
        told: an asyncio.Event, set when any signal has come.
        ending: an asyncio.Event, set when we were told to end (SIGTERM).
        impatient: True when somebody has told us to end while there was no command any more.
    """

    def __init__(self, argv: list[str], environ: dict[bytes, bytes]) -> None:
        self._argv, self._environ = argv, environ
        self._pid: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: threading.Thread | None = None
        self._early: list[int] = []
        self._caught: Sequence[int] = ()
        self._mask: Iterable[int] = ()
        self._released = False
        self.returncode: Any = None                               # an int, once it has ended
        self.failed: OSError | None = None
        self.told: Any = None                                     # Events, from `attach` on
        self.ending: Any = None
        self.impatient, self._ended_at = False, 0.0

    # -- signals

    def catch(self) -> None:
        """Take over the command's signals, from now on; one that is ignored stays so."""
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)         # or there is no exit status
        self._caught = [number for number in FORWARDED
                        if signal.getsignal(number) != signal.SIG_IGN]
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._caught)
        for number in self._caught:                               # while they are not blocked
            signal.signal(number, lambda number, frame: self._post(number, False))
        if self._caught:
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()

    def attach(self) -> None:
        """From now on the running loop is told of signals."""
        self.told, self.ending = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in self._early[:]:
            self._note(number)

    def release(self) -> None:
        """
        Listen no more.  The signals stay blocked: what comes while we end must not take the place
        of the command's exit status.
        """
        self._released = True
        if self._listener:
            signal.pthread_kill(self._listener.ident,  # type: ignore[arg-type]     # it runs
                                self._caught[0])
            self._listener.join()

    @contextlib.contextmanager
    def unblocked(self) -> Iterator[None]:
        """Signals as they were before, for a process that is started meanwhile."""
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _listen(self) -> None:
        while True:
            found = signal.sigwaitinfo(self._caught)
            if self._released:
                return
            self._post(found.si_signo, found.si_code == _SI_KERNEL)

    def _post(self, number: int, had_it: bool) -> None:
        if self._loop is None:
            self._early.append(number)
        else:
            with contextlib.suppress(RuntimeError):               # the loop is closed
                self._loop.call_soon_threadsafe(self._came, number, had_it)

    def _note(self, number: int) -> None:
        self.told.set()
        if number == signal.SIGTERM:
            self.ending.set()

    def _came(self, number: int, had_it: bool) -> None:
        self._note(number)
        if self.returncode is not None or self.failed is not None:
            # What has ended the command may have been for us as well, and come a bit later.
            if number in _IMPATIENT and time.monotonic() > self._ended_at + _SAME_SIGNAL_S:
                self.impatient = True
        elif self._pid is None:
            self._early.append(number)
        elif not had_it:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)

    # -- its life

    async def run(self) -> None:
        """Run it to its end."""
        if self._early:
            self.returncode = -self._early[0]                     # it was ended before it began
            return
        try:
            self._pid = self._spawned()
        except OSError as error:
            self.failed = error
            return
        # Its process number stays its own until we have its status: no signal goes astray.
        await asyncio.get_running_loop().run_in_executor(
            None, os.waitid, os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._ended_at = time.monotonic()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def wait(self) -> None:
        """Until it has ended, where nobody else waits for it."""
        if self.returncode is None and self._pid is not None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def become(self) -> None:
        """Be the command, without anybody who waits for it; returns only where it can't be run."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvpe(self._argv[0], self._argv, self._environ)
        except OSError as error:
            self.failed = error

    @property
    def has_run(self) -> bool:
        """True when it has run, or runs."""
        return self._pid is not None

    def _spawned(self) -> int:
        """
        The number of its process.

        posix_spawn, since it leaves all else as it is: files that were open for us stay so (such
        as a shell's <(...)), and what was ignored or blocked.
        """
        def spawn(path: str, argv: list[str]) -> int:
            return os.posix_spawnp(path, argv, self._environ, setsigmask=self._mask,
                                   setsigdef=_IGNORED_BY_PYTHON)
        if not self._argv[0]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            return spawn(self._argv[0], self._argv)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
        # A script without "#!" is the shell's, as for execvp(3).
        script = shutil.which(self._argv[0]) or self._argv[0]
        return spawn("/bin/sh", ["/bin/sh", script, *self._argv[1:]])


async def measured(command: Command, nodes: Nodes | None, server: JobServer | None, config: Config,
                   report: Callable[[], None], say: Callable[[str], None]) -> None:
    """
    Run `command`, with its nodes' start before and stop after it.

    `server`: a JobServer that listens, with PartTotals; `report()`: prints what is known, when the
    command has ended, or the job is being ended and the command goes on.  `nodes` and `server` are
    None for a command that can't be measured.
    """
    if nodes is None or server is None:
        await command.run()
        return
    totals: PartTotals = server.totals  # type: ignore[assignment]     # as the caller made it
    in_time = False
    with _whatever_happens(say):
        in_time = await nodes.start(totals.expected_count or 1, config["run.start_timeout"],
                                    command.told)
    totals.began = None if in_time else time.time()
    early = asyncio.ensure_future(_early(command, nodes, totals, config, report, say))
    await command.run()
    early.cancel()
    with _whatever_happens(say):
        if totals.why_cut == _LEFT and nodes.stay:
            totals.why_cut = ""
        _raise_open_files()
        await nodes.stop()
        await _heard(command, nodes, server, config)
        if command.has_run:
            report()
        await nodes.end(_END_WITHIN_S if totals.all_heard else 0)


@contextlib.contextmanager
def _whatever_happens(say: Callable[[str], None]) -> Iterator[None]:
    """The command and its exit status come first, whatever is wrong with us."""
    try:
        yield
    except Exception as error:
        say(f"going on without: {error!r}")


async def _early(command: Command, nodes: Nodes, totals: PartTotals, config: Config,
                 report: Callable[[], None], say: Callable[[str], None]) -> None:
    """A job that is being ended has little time: its command may be killed with us any moment."""
    await command.ending.wait()
    await asyncio.sleep(config["run.grace"])
    with _whatever_happens(say):
        totals.why_cut = wait_for_end.CUT.format(config["run.grace"])
        _raise_open_files()
        await nodes.stop()
        await _until(lambda: totals.all_heard or nodes.done, config["run.deadline"])
        report()


async def _heard(command: Command, nodes: Nodes, server: JobServer, config: Config) -> None:
    """
    Wait until all nodes have reported, none is left who could, or time is over; where the job is
    being ended that is sooner.
    """
    began, hurries_at = time.monotonic(), None
    while not (server.totals.all_heard or nodes.done or command.impatient):
        now = time.monotonic()
        if command.ending.is_set() and hurries_at is None:
            hurries_at = now
        if now >= began + config["server.deadline"] or (
                hurries_at is not None and now >= hurries_at + config["run.deadline"]):
            return
        server.heard.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.heard.wait(), _LOOK_EVERY_S)


def _raise_open_files() -> None:
    """As many open files as the system allows; once the command has its own limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
