"""
Authentication of a connection: secret words from files, credentials from munged.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct

from iostats.base.errors import ConfigError
from iostats.wire import munge
from iostats_ldms.control.errors import AuthenticationFailed
from iostats_ldms.control.protocol import Authentication

_SHORTEST, _LONGEST = 8, 512                 # MIN_SECRET_WORD_LEN, MAX_SECRET_WORD_LEN


def load_authentication(plugin: str, conf: str = "") -> Authentication:
    """
    Prepare authentication by `plugin` (none, ovis, munge).

    `conf`: for ovis the file with the secret word, for munge the socket of munged.  Raises
    ConfigError for an unknown plugin or an unusable file.
    """
    if plugin in ("", "none"):
        return Authentication()
    if plugin == "ovis":
        return Authentication("ovis", secret=read_secret_word(conf))
    if plugin == "munge":
        return Authentication("munge", socket=conf)
    raise ConfigError(f"auth: expected none, ovis or munge, got {plugin!r}, which is "
                      f"insecure or not supported over TCP")


def read_secret_word(path: str) -> str:
    """
    Read the secret word of ovis, under the conditions of ovis_auth_get_secretword() in
    lib/src/ovis_auth: an absolute path, 8 to 512 bytes, no access by others.

    An unprivileged unit cannot read that file.  A systemd credential of the same name
    (systemd.exec(5), LoadCredential) replaces it; systemd decides who may read it.
    """
    if not path.startswith("/"):
        raise ConfigError(f"{path or 'auth ovis'}: expected the absolute path of a file with a line"
                          f" secretword=WORD (conf)")
    credential_path = os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", ""),
                                   os.path.basename(path))
    is_credential = os.path.isabs(credential_path) and os.path.isfile(credential_path)
    try:
        with open(credential_path if is_credential else path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{path}: not a regular file")
            if mode & 0o077 and not is_credential:
                raise ConfigError(f"{path}: others can read the secret word (mode "
                                  f"{stat.S_IMODE(mode):04o}), so ldmsd refuses the file; "
                                  "chmod 600")
            lines = file.read(65536).split(b"\n")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    for line in lines:
        if line.startswith(b"secretword="):
            # strtok_r(.., "# \t\n"): no other blanks end the word, not even a carriage return.
            word = next(filter(None, re.split(rb"[# \t]", line[11:])), b"")
            if not _SHORTEST <= len(word) <= _LONGEST:
                raise ConfigError(f"{path}: the secret word has {len(word)} bytes; expected "
                                  f"{_SHORTEST} to {_LONGEST}")
            return word.decode("utf-8", "surrogateescape")
    raise ConfigError(f"{path}: expected a line secretword=WORD, found none")


def make_credential(auth: Authentication, address: tuple[object, ...], where: str) -> str:
    """Return munge's credential for our socket address; blocks; AuthenticationFailed."""
    try:
        return munge.encode(_pack_address(address), auth.socket)
    except munge.MungeError as error:
        raise AuthenticationFailed(where, f"munge cannot make a credential: {error}") from None


def check_credential(auth: Authentication, text: str, where: str) -> tuple[int, int]:
    """
    Return (uid, gid) of the peer's credential; blocks; AuthenticationFailed.

    Like ldmsd, it accepts every user munge vouches for, from any address: behind NAT the address in
    the credential differs from the connection's.
    """
    try:
        _payload, uid, gid = munge.decode(text, auth.socket)
    except munge.MungeError as error:
        raise AuthenticationFailed(where,
                                   f"munge rejects its credential: {error}") from None
    return uid, gid


def _pack_address(address: tuple[object, ...]) -> bytes:
    """Return the sockaddr_in or sockaddr_in6 of an address as C lays it out on this machine."""
    host, port = str(address[0]), int(str(address[1]))
    if ":" not in host:
        return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port),
                           socket.inet_aton(host))
    scope = int(str(address[3])) if len(address) > 3 else 0
    return struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0,
                       socket.inet_pton(socket.AF_INET6, host.split("%")[0]), scope)
