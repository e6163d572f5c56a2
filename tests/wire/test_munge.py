"""
The binding of libmunge, with a real munged on a socket of its own, with a key of its own.

What munged says is compared with what munge's own commands (munge, unmunge) make and read.
"""
from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from processes import until

from iostats.wire import munge

pytestmark = pytest.mark.munge

NOBODY = 65534
MUNGED = shutil.which("munged", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]


class Munged:
    """A munged that was started here; its directory can be entered by everybody."""

    def __init__(self, key=None):
        if not MUNGED:
            pytest.skip("needs munged")
        self.directory = Path(tempfile.mkdtemp(prefix="munged-"))
        self.directory.chmod(0o755)
        self.socket = str(self.directory / "socket")
        self.key = key or os.urandom(64)
        path = self.directory / "key"
        path.write_bytes(self.key)
        path.chmod(0o600)
        self.process = None
        self.begin()

    def begin(self):
        """Start it, and wait until it answers."""
        options = {name: self.directory / name for name in ("socket", "key", "log", "pid", "seed")}
        self.process = subprocess.Popen(
            [MUNGED, "--foreground", "--force", f"--socket={options['socket']}",
             f"--key-file={options['key']}", f"--log-file={options['log']}",
             f"--pid-file={options['pid']}", f"--seed-file={options['seed']}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers, what="munged")

    def _answers(self):
        log = self.directory / "log"
        assert self.process.poll() is None, log.exists() and log.read_text()
        return munge.is_usable(self.socket)

    def munge(self, payload, *options, user=None):
        """A credential by munge's own command; `user`: of another user."""
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        return subprocess.run(["munge", f"--socket={self.socket}", *options], input=payload,
                              stdout=subprocess.PIPE, check=True, cwd="/",
                              **who).stdout.decode().strip()

    def unmunge(self, credential, *options):
        """The Done of unmunge."""
        return subprocess.run(["unmunge", f"--socket={self.socket}", *options],
                              input=credential, capture_output=True, text=True)

    def end(self):
        """End it; its socket goes with it."""
        self.process.terminate()
        self.process.wait()

    def close(self):
        self.end()
        shutil.rmtree(self.directory)


@pytest.fixture(scope="module")
def munged():
    """A munged for all tests of a file."""
    one = Munged()
    yield one
    one.close()


def refusal(credential, socket):
    """The MungeError of a credential that is refused."""
    with pytest.raises(munge.MungeError) as refused:
        munge.decode(credential, socket)
    return refused.value


@pytest.mark.parametrize("payload", [b"", b"23", b"a\0b\n\xff", b"x" * 60_000],
                         ids=["empty", "text", "binary", "60 kB"])
def test_what_is_encoded_is_decoded_with_the_user_of_this_process(munged, payload):
    """Every byte, and the ids that the kernel tells munged."""
    assert (payload, os.geteuid(), os.getegid()) == munge.decode(
        munge.encode(payload, munged.socket), munged.socket)


def test_our_credential_is_read_by_munges_own_command(munged):
    """STATUS, and the payload after an empty line."""
    done = munged.unmunge(munge.encode(b"thirty-seven", munged.socket))
    assert done.stdout.startswith("STATUS:          Success (0)\n")
    assert done.stdout.endswith("\n\nthirty-seven")


def test_a_credential_of_munges_own_command_is_read_by_us(munged):
    """The other way."""
    assert (b"forty-one", os.geteuid()) == munge.decode(munged.munge(b"forty-one"),
                                                        munged.socket)[:2]


@pytest.mark.parametrize("mark", [pytest.param(None, marks=as_root)], ids=["nobody"])
def test_another_users_credential_names_that_user(munged, mark):
    """65534, by munged's word alone."""
    assert (b"41", NOBODY, NOBODY) == munge.decode(munged.munge(b"41", user=NOBODY),
                                                   munged.socket)


def test_a_credential_is_decoded_once(munged):
    """Then it is replayed: error 17; what it says is still told, as only that is wrong."""
    credential = munge.encode(b"37", munged.socket)
    munge.decode(credential, munged.socket)
    error = refusal(credential, munged.socket)
    assert (munge.REPLAYED, "Replayed credential", b"37", os.geteuid(), os.getegid()) == (
        error.code, str(error), error.payload, error.uid, error.gid)


def test_a_credential_expires(munged):
    """Made to live for a second by munge's own command: error 15, and what it says."""
    credential = munged.munge(b"43", "--ttl=1")
    error = until(lambda: (lambda found: found.code == munge.EXPIRED and found)(
        refusal_or_replay(credential, munged.socket)), what="the end of its time")
    assert ("Expired credential", b"43", os.geteuid()) == (str(error), error.payload, error.uid)


def refusal_or_replay(credential, socket):
    """The MungeError of a credential that was decoded before; its first time is no error."""
    try:
        munge.decode(credential, socket)
    except munge.MungeError as error:
        return error
    return refusal(credential, socket)


@pytest.mark.parametrize("credential, code", [
    ("", 2), ("MUNGE:", 8), ("MUNGE:AwQD:", 8), ("IOSTATS-1 node=a", 8), ("M\xdcNGE:AwQD:", 8),
    ("MUNGE:" + "A" * 400 + ":", 9),
])
def test_what_is_no_credential_is_refused(munged, credential, code):
    """With munge's number, and nothing of what it may say."""
    error = refusal(credential, munged.socket)
    assert (code, None, None) == (error.code, error.payload, error.uid)


def test_an_altered_credential_is_refused(munged):
    """One character in the middle; error 14."""
    credential = munge.encode(b"x" * 300, munged.socket)
    place = len(credential) // 2
    other = "A" if credential[place] != "A" else "B"
    error = refusal(credential[:place] + other + credential[place + 1:], munged.socket)
    assert (munge.INVALID, "Invalid credential", None) == (error.code, str(error), error.payload)


def test_a_credential_of_another_key_is_refused(munged):
    """Another site's."""
    other = Munged()
    try:
        credential = munge.encode(b"23", other.socket)
    finally:
        other.close()
    assert (munge.INVALID, None) == (refusal(credential, munged.socket).code,
                                     refusal(credential, munged.socket).payload)


def test_two_machines_with_one_key_read_each_others_credentials(munged):
    """As the nodes of a cluster do; each remembers what it has decoded for itself."""
    other = Munged(munged.key)
    try:
        credential = munge.encode(b"23", other.socket)
        assert b"23" == munge.decode(credential, munged.socket)[0]
        assert b"23" == munge.decode(credential, other.socket)[0]
    finally:
        other.close()


def test_what_is_too_long_is_refused(munged):
    """More than munge's 1 MiB; error 3."""
    with pytest.raises(munge.MungeError, match="2000020 exceeds max of 1048576") as refused:
        munge.encode(b"x" * 2_000_000, munged.socket)
    assert 3 == refused.value.code


def test_without_munged_munges_own_message_names_the_socket(tmp_path):
    """Error 6."""
    path = str(tmp_path / "socket")
    why = f'Failed to access "{path}": No such file or directory'
    for ask in (lambda: munge.encode(b"", path), lambda: munge.decode("MUNGE:AwQD:", path)):
        with pytest.raises(munge.MungeError) as refused:
            ask()
        assert munge.SOCKET == refused.value.code
        assert str(refused.value).startswith(why)
    assert not munge.is_usable(path)


def test_where_munge_works_it_is_available(munged):
    """Nothing to say against it."""
    assert munge.is_usable(munged.socket)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    """A node that has no munge at all."""
    monkeypatch.setattr(munge, "_LIBRARY", "libmunge.so.23")
    monkeypatch.setattr(munge, "_libraries", [])
    assert not munge.is_usable()
    with pytest.raises(munge.MungeError, match=(
            r"^libmunge\.so\.23: .*install munge's library \(libmunge2, munge-libs\)$")):
        munge.encode(b"")


def test_nothing_is_left_in_memory(munged):
    """1000 credentials of 60 kB, each decoded twice: 200 MB, if they were not freed."""
    def once():
        credential = munge.encode(b"x" * 60_000, munged.socket)
        munge.decode(credential, munged.socket)
        refusal(credential, munged.socket)

    for _ in range(50):
        once()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        once()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
