"""
MUNGE credentials, by libmunge.so.2: munged of both machines vouches for the user who sent a text.

    encode(payload)  ->  "MUNGE:...:"       a credential of this process's user, valid for 300 s
    decode("MUNGE:...:")  ->  (payload, uid, gid)       once per munged, which remembers them

The library comes with munge, and is loaded when it is first needed: never where site.cfg's
[server] auth does not name munge.  A munged that was killed leaves its socket behind, to which
libmunge tries to connect for two seconds; without the socket it fails at once.

Source: munge.h, munge(3), munge_ctx(3) of munge 0.5.15; https://dun.github.io/munge/
"""

from __future__ import annotations

import ctypes

from iostats.base.errors import IostatsError

_LIBRARY = "libmunge.so.2"
_OPT_SOCKET = 8                                    # munge_opt_t: MUNGE_OPT_SOCKET, a string
# munge_err_t
NO_LIBRARY, BAD_CREDENTIAL = -1, 8
SOCKET, INVALID, EXPIRED, REWOUND, REPLAYED = 6, 14, 15, 16, 17

_libraries: list[tuple[ctypes.CDLL, ctypes.CDLL]] = []       # (libmunge, libc) once loaded


class MungeError(IostatsError):
    """
    munge's reason for rejecting a credential, or for not making one.

    Attributes:
        code: munge_err_t; NO_LIBRARY where there is no libmunge.
        payload, uid, gid: for EXPIRED, REWOUND and REPLAYED what decode would have returned, as
            only the time is off then; else None.
    """

    def __init__(self, code: int, message: str, payload: bytes | None = None,
                 uid: int | None = None, gid: int | None = None) -> None:
        super().__init__(message)
        self.code, self.payload, self.uid, self.gid = code, payload, uid, gid


def is_usable(socket: str = "") -> bool:
    """Whether munge works for this user; `socket`: as in encode."""
    try:
        encode(b"", socket)
    except MungeError:
        return False
    return True


def encode(payload: bytes, socket: str = "") -> str:
    """A credential with `payload` (bytes), as text; `socket`: of munged, "" for libmunge's own."""
    libmunge, libc = _load()
    made = ctypes.c_void_p()
    with _Context(libmunge, socket) as context:
        code: int = libmunge.munge_encode(ctypes.byref(made), context.handle, payload, len(payload))
        try:
            context.check(code)
            return ctypes.string_at(made).decode("ascii")
        finally:
            libc.free(made)


def decode(credential: str, socket: str = "") -> tuple[bytes, int, int]:
    """(payload, uid, gid) of a credential; MungeError if it is none, or was decoded before."""
    libmunge, libc = _load()
    try:
        text = credential.encode("ascii")
    except UnicodeEncodeError:
        raise MungeError(BAD_CREDENTIAL, "Invalid credential format") from None
    payload, length = ctypes.c_void_p(), ctypes.c_int()
    uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
    with _Context(libmunge, socket) as context:
        code: int = libmunge.munge_decode(text, context.handle, ctypes.byref(payload),
                                     ctypes.byref(length), ctypes.byref(uid), ctypes.byref(gid))
        try:
            decoded: tuple[bytes, int, int] | None = None
            if code in (0, EXPIRED, REWOUND, REPLAYED):
                data = ctypes.string_at(payload.value, length.value) if payload.value else b""
                decoded = data, uid.value, gid.value
            context.check(code, *(decoded or ()))
            return decoded  # type: ignore[return-value]     # it is set where code is 0
        finally:
            libc.free(payload)                     # set with some errors, too


class _Context:
    """A munge_ctx_t for one call, with its socket."""

    def __init__(self, libmunge: ctypes.CDLL, socket: str) -> None:
        self._libmunge, self._socket = libmunge, socket
        self.handle: int | None = None

    def __enter__(self) -> _Context:
        self.handle = self._libmunge.munge_ctx_create()
        if not self.handle:
            raise MemoryError
        if self._socket:
            code: int = self._libmunge.munge_ctx_set(
                self.handle, _OPT_SOCKET,
                ctypes.c_char_p(self._socket.encode("utf-8", "surrogateescape")))
            if code:
                try:
                    self.check(code)
                finally:
                    self._libmunge.munge_ctx_destroy(self.handle)
        return self

    def __exit__(self, *error: object) -> None:
        self._libmunge.munge_ctx_destroy(self.handle)

    def check(self, code: int, payload: bytes | None = None, uid: int | None = None,
              gid: int | None = None) -> None:
        """Raise the MungeError of `code`, in munge's own words; nothing for 0."""
        if not code:
            return
        words: bytes = (self._libmunge.munge_ctx_strerror(self.handle)
                 or self._libmunge.munge_strerror(code) or b"error %d" % code)
        raise MungeError(code, words.decode("utf-8", "replace"), payload, uid, gid)


def _load() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """Return (libmunge, libc); MungeError where there is no libmunge."""
    if not _libraries:
        pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        try:
            libmunge, libc = ctypes.CDLL(_LIBRARY), ctypes.CDLL(None)
            for name, result, *arguments in (
                    ("munge_encode", number, pointer, pointer, text, number),
                    ("munge_decode", number, text, pointer, pointer, pointer, pointer, pointer),
                    ("munge_strerror", text, number),
                    ("munge_ctx_create", pointer),
                    ("munge_ctx_destroy", None, pointer),
                    ("munge_ctx_strerror", text, pointer),
                    ("munge_ctx_set", number, pointer, number)):    # and what the option takes
                function = getattr(libmunge, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise MungeError(NO_LIBRARY, f"{_LIBRARY}: {error}; install munge's library "
                                         f"(libmunge2, munge-libs)") from None
        libc.free.restype, libc.free.argtypes = None, [pointer]
        _libraries.append((libmunge, libc))
    return _libraries[0]
