"""
A node without FUSE: plain directories, and counter files that change by `--move` only.

`--move` does not measure anything, it SIMULATES counters: "23 writes of 4096 bytes" and so on.
`root/.sim.json` keeps how the tree was made and all moves so far; each move counts them all
anew from zero and replaces the files, so that there is no second copy of the numbers.
"""
from __future__ import annotations

import fcntl
import json
import os

from . import tree
from .client import Client, Layout, Unsent
from .counters import LLITE_OPERATIONS, RELEASES
from .jobid import JobIds

STATE = "root/.sim.json"
BULK = ("read_bytes", "write_bytes")
OPERATIONS = tuple(name for name in LLITE_OPERATIONS if name not in ("read", "write"))


class StaticError(Exception):
    """What the user asked cannot be done; the message says what to do instead."""


def make(mount_point: str, options: dict) -> None:
    """Directories for each file system and a tree of counters at zero."""
    if os.path.exists(os.path.join(mount_point, STATE)):
        raise StaticError(f"{mount_point}: is a simulated node already; remove it first")
    clients = _clients(options)
    for client in clients:
        _restore(client, client.uuid, client.llite.start_ns)     # as each move will have it
        os.makedirs(os.path.join(mount_point, client.fs), exist_ok=True)
        os.chmod(os.path.join(mount_point, client.fs), 0o1777)
    os.makedirs(os.path.join(mount_point, "root"), exist_ok=True)
    state = {"options": options, "moves": [],
             "mounts": [[client.uuid, client.llite.start_ns] for client in clients]}
    _write(mount_point, state, clients)


def move(mount_point: str, fs: str, words: list) -> None:
    """
    Add to the counters: read_bytes=COUNTxSIZE, write_bytes=COUNTxSIZE, open=N, ...

    COUNTxSIZE@OST: all of it is on one OST, counted from 0.
    """
    moves = [_parsed(word) for word in words]
    path = os.path.join(mount_point, STATE)
    try:
        lock = os.open(os.path.dirname(path), os.O_RDONLY)
    except OSError:
        raise StaticError(f"{mount_point}: no tree made by --static there") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)            # one move at a time
        state = _state(path)
        if fs not in state["options"]["fs"]:
            raise StaticError(f"no file system {fs!r} there; there are: "
                              + ", ".join(state["options"]["fs"]))
        osts = state["options"]["osts"]
        for name, _, _, ost in moves:
            if ost is not None and ost >= osts:
                raise StaticError(f"{name}: no OST {ost} there; they are 0 to {osts - 1}")
        state["moves"] += [[fs, *one] for one in moves]
        clients = _clients(state["options"])
        for client, (uuid, start_ns) in zip(clients, state["mounts"]):
            _restore(client, uuid, start_ns)
            for _, *one in (m for m in state["moves"] if m[0] == client.fs):
                _count(client, *one)
        _write(mount_point, state, clients)
    finally:
        os.close(lock)


def _state(path: str) -> dict:
    try:
        with open(path) as file:
            state = json.load(file)
    except OSError:
        state = {}
    if "moves" not in state:                        # a FUSE mount counts by itself
        mount_point = os.path.dirname(os.path.dirname(path))
        raise StaticError(f"{mount_point}: no tree made by --static there")
    return state


def _clients(options: dict) -> list:
    return [Client(fs, options["instance"], RELEASES[options["release"]], options["osts"],
                   options["mdts"]) for fs in options["fs"]]


def _restore(client: Client, uuid: str, start_ns: int) -> None:
    """The same mount as before, not a new one."""
    client.uuid = uuid
    files = [client.llite]
    for target in client.osc:
        files += [target.stats, target.rpc_stats]
    for target in client.mdc:
        files += [target.stats, target.md_stats, target.rpc_stats]
    for file in files:
        file.start_ns = start_ns if file.start_ns else 0


def _count(client: Client, name: str, times: int, size_bytes: int, ost: int | None = None) -> None:
    """Calls are dealt to the OSTs in turn, or all to one; nothing was timed: all times are 0."""
    if name == "flock":
        client.locking(times)
    if name not in BULK:
        return client.did(name, times=times)
    used = client.osc if ost is None else client.osc[ost:ost + 1]
    for index, osc in enumerate(used):
        calls = (times - index + len(used) - 1) // len(used)
        if name == "read_bytes":
            client.read(Layout([osc]), 0, size_bytes, times=max(calls, 0))
            continue
        unsent = Unsent(Layout([osc]))
        for call in range(calls):
            client.wrote(unsent, call * size_bytes, size_bytes)
        unsent.send()


def _parsed(word: str):
    """
    ("write_bytes", 23, 4096, None) of "write_bytes=23x4096", (..., 1) of "write_bytes=23x4096@1",
    ("open", 23, 0, None) of "open=23".
    """
    name, _, value = word.partition("=")
    value, at, ost = value.partition("@") if name in BULK else (value, "", "")
    times, x, size_bytes = value.partition("x")
    if name not in BULK + OPERATIONS:
        raise StaticError(f"no counter {name!r} to move; there are: "
                          + ", ".join(BULK + OPERATIONS))
    form = "COUNTxSIZE" if name in BULK else "N"
    numbers = (times, *([size_bytes] if name in BULK else []), *([ost] if at else []))
    if bool(x) != (name in BULK) or not all(n.isascii() and n.isdigit() for n in numbers):
        raise StaticError(f"expected {name}={form}, got {word!r}")
    return name, int(times), int(size_bytes or 0), int(ost) if at else None


def _write(mount_point: str, state: dict, clients: list) -> None:
    """Each file is replaced at once, so that a reader never sees half of one."""
    release = RELEASES[state["options"]["release"]]
    texts = {path: (file.render(), file.mode)
             for path, file in tree.files_of(mount_point, release, clients, JobIds()).items()}
    texts[".sim.json"] = (json.dumps(state) + "\n", 0o644)
    for path, (content, mode) in texts.items():
        path = os.path.join(mount_point, "root", path)
        directory, name = os.path.split(path)
        os.makedirs(directory, exist_ok=True)
        new = os.path.join(directory, f".{name}.new")
        with open(new, "w") as file:
            file.write(content)
        os.chmod(new, mode)
        os.replace(new, path)
    debugfs = os.path.join(mount_point, "root", tree.DEBUGFS)
    if os.path.isdir(debugfs):
        os.chmod(debugfs, tree.DEBUGFS_MODE)
