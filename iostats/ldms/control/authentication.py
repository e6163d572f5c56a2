"""
What a connection authenticates itself with: secret words from files, credentials from munged.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct

from iostats.base.errors import ConfigError
from iostats.ldms.control.errors import RefusedAuth
from iostats.ldms.control.protocol import Authentication
from iostats.wire import munge

_SHORTEST, _LONGEST = 8, 512                 # MIN_SECRET_WORD_LEN, MAX_SECRET_WORD_LEN


def authentication(plugin: str, conf: str = "") -> Authentication:
    """
    How to authenticate by `plugin` (none, ovis, munge); `conf`: ovis' file with the secret word,
    munge's socket.  Raises ConfigError: no such plugin here, no usable file.
    """
    if plugin in ("", "none"):
        return Authentication()
    if plugin == "ovis":
        return Authentication("ovis", secret=secret_word(conf))
    if plugin == "munge":
        return Authentication("munge", socket=conf)
    raise ConfigError(f"auth: expected none, ovis or munge, got {plugin!r}; this connection is by "
                      f"TCP, where {plugin!r} proves nothing or cannot be spoken")


def secret_word(path: str) -> str:
    """
    The secret word of ovis in the file `path`: as ovis_auth_get_secretword() of lib/src/ovis_auth
    reads it, and with its conditions: an absolute path, of 8 to 512 bytes, and no access by others.

    A unit that is not root cannot read that file: a credential of the file's name that systemd gave
    to it (systemd.exec(5), LoadCredential) is read in its place; who may read it, systemd decided.
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
                raise ConfigError(f"{path}: is no file")
            if mode & 0o077 and not is_credential:
                raise ConfigError(f"{path}: others may read the secret word (mode "
                                  f"{stat.S_IMODE(mode):04o}), and ldmsd refuses it; chmod 600")
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


def credential(auth: Authentication, address: tuple[object, ...], where: str) -> str:
    """munge's credential over our socket's own `address` (getsockname); blocks; RefusedAuth."""
    try:
        return munge.encode(_packed(address), auth.socket)
    except munge.MungeError as error:
        raise RefusedAuth(where, f"munge makes no credential for it: {error}") from None


def check(auth: Authentication, text: str, where: str) -> tuple[int, int]:
    """
    (uid, gid) of the user whose credential the other end sent; blocks; RefusedAuth.

    Like ldmsd, all that munge vouches for are accepted, from any address: behind NAT the
    address in the credential is another one than the connection's.
    """
    try:
        _payload, uid, gid = munge.decode(text, auth.socket)
    except munge.MungeError as error:
        raise RefusedAuth(where, f"munge does not accept its credential: {error}") from None
    return uid, gid


def _packed(address: tuple[object, ...]) -> bytes:
    """The sockaddr_in, or sockaddr_in6, of a host and port, as C has it on this machine."""
    host, port = str(address[0]), int(str(address[1]))
    if ":" not in host:
        return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port),
                           socket.inet_aton(host))
    scope = int(str(address[3])) if len(address) > 3 else 0
    return struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0,
                       socket.inet_pton(socket.AF_INET6, host.split("%")[0]), scope)
