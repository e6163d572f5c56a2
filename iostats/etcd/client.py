"""
etcd, as a blocking client that any number of threads may use.

    etcd = from_config(site.load())
    etcd.put(etcd.key("agents"), b"{}")
    key_values, revision = etcd.range(etcd.below("instances"))
    won, _, _ = etcd.txn([compare_absent(key)], [make_put(key, b"me", lease)])
    for news in etcd.follow(etcd.key("agents"), stop): ...

A key that ends in "/" stands for all keys below it (answers.py).

Errors, each one line: EtcdAway (no member answers, or there is no quorum), EtcdRefused (password,
TLS, permission, too large), OutcomeUnknown (an EtcdAway: a transaction may have been done).

What the JSON gateway is: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/
"""

from __future__ import annotations

import os
from urllib.parse import quote, unquote

from iostats.base.errors import ConfigError
from iostats.base.private_files import find_unsafe_mode, read_text
from iostats.etcd import answers
from iostats.etcd.answers import (
    Compare,
    EtcdAway,
    EtcdRefused,
    KeyValue,
    Operation,
    OutcomeUnknown,
    compare_absent,
    compare_created,
    compare_modified,
    make_delete,
    make_get,
    make_put,
    value_is,
)
from iostats.etcd.follow import Away, Back, Changes, Loaded, Stop, follow
from iostats.etcd.members import Members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Optional, Union

    from iostats.base.config import Config
    from iostats.etcd.follow import News

__all__ = [
    "Away",
    "Back",
    "Changes",
    "Compare",
    "Etcd",
    "EtcdAway",
    "EtcdRefused",
    "KeyValue",
    "Loaded",
    "Operation",
    "OutcomeUnknown",
    "Stop",
    "compare_absent",
    "compare_created",
    "compare_modified",
    "from_config",
    "make_delete",
    "make_get",
    "make_put",
    "value_is",
]

PAGE = 1000                          # keys of one answer
LONGEST_PREFIX = 100


class Etcd:
    """
    The members of one etcd.

    `endpoints`: URLs, http or https; the member that answered last is asked first.  A member that
    does not answer within `timeout_s` is passed by; where some do and none can decide, such as
    before a new leader is elected, they are asked again for twice as long.  `ca`, `cert`, `key`:
    files (PEM).  `emit`: called when another member is asked from now on.  `prefix`: what all of
    key() and below() begin with.
    """

    def __init__(self, endpoints: Sequence[str], *, user: str = "", password: str = "",
                 ca: str = "", cert: str = "", key: str = "", timeout_s: float = 2.0,
                 emit: Callable[[str], object] = lambda text: None, prefix: str = "") -> None:
        self.members = Members(endpoints, user, password, ca, cert, key, timeout_s, emit)
        self.prefix = prefix

    def key(self, *parts: str) -> str:
        """Return the key /PREFIX/a/b for "a", "b"; special characters are quoted (%2F)."""
        return "/" + "/".join([self.prefix, *(quote(part, safe="") for part in parts)])

    def below(self, *parts: str) -> str:
        """Return /PREFIX/a/, the prefix of all keys below `parts`."""
        return self.key(*parts) + "/"

    @staticmethod
    def last_part(key: str) -> str:
        """Return the last part of a key."""
        return unquote(key.rpartition("/")[2])

    def get(self, key: str) -> Optional[KeyValue]:
        """The KeyValue of `key`, or None where there is none."""
        pairs = answers.parse_key_values(self.members.call("kv/range", answers.make_key_range(key)))
        return pairs[0] if pairs else None

    def range(self, prefix: str) -> tuple[list[KeyValue], int]:
        """
        Return (all KeyValues below `prefix`, in order, and the revision at which they were read).
        """
        return self._read_range(prefix, {})

    def keys(self, prefix: str) -> list[str]:
        """The names of all keys below `prefix`, in their order."""
        return [pair.key for pair in self._read_range(prefix, {"keys_only": True})[0]]

    def _read_range(self, prefix: str, how: dict[str, object]) -> tuple[list[KeyValue], int]:
        body: dict[str, object] = {**answers.make_key_range(prefix), "limit": PAGE, **how}
        for _ in range(5):
            try:
                answer = self.members.call("kv/range", body)
                revision, pairs = answers.parse_revision(answer), answers.parse_key_values(answer)
                while answer.get("more") and pairs:
                    after = answers.make_key_range(pairs[-1].key + "\0")["key"]
                    answer = self.members.call("kv/range", {**body, "key": after,
                                                            "revision": str(revision)})
                    pairs += answers.parse_key_values(answer)
                return pairs, revision
            except EtcdRefused as error:
                if error.code != answers.OUT_OF_RANGE:      # else it was compacted between pages
                    raise
        raise EtcdAway(f"etcd: {prefix} changes and is compacted faster than it can be read")

    def put(self, key: str, value: bytes, lease: int = 0) -> int:
        """
        Put `key`; the revision.

        Where no answer comes it is put at the next member again, so it may be put twice: for keys
        that have one writer, or whose value is the same from each.
        """
        return answers.parse_revision(
            self.members.call("kv/put", answers.put_request(key, value, lease)))

    def delete(self, key: str) -> int:
        """Delete `key`, or all keys below it; return their number, as far as the last try shows it.
        """
        return answers.get_number(self.members.call("kv/deleterange", answers.make_key_range(key)),
                                  "deleted")

    def txn(self, compares: Sequence[Compare], then: Sequence[Operation],
            otherwise: Sequence[Operation] = (), again: bool = False,
            ) -> tuple[bool, list[Union[list[KeyValue], int, None]], int]:
        """Do `then` if all of `compares` hold, else `otherwise`, as one atomic transaction.

        (whether they held, what each operation gave: KeyValues of getting, a count of deleting,
        None of putting, the revision).  OutcomeUnknown where it was sent and no answer came;
        with `again` it is asked of the next member then, and its compares may see its own doing.
        """
        answer = self.members.call("kv/txn", answers.make_txn_request(compares, then, otherwise),
                                   again)
        return (answer.get("succeeded") is True,
                [answers.parse_operation_answer(response)
                 for response in answers.get_objects(answer, "responses")],
                answers.parse_revision(answer))

    def grant(self, ttl_s: int) -> int:
        """Create a lease, which expires `ttl_s` seconds after its last renewal."""
        return answers.get_number(self.members.call("lease/grant", {"TTL": str(ttl_s)}), "ID")

    def keep_alive(self, lease: int) -> int:
        """Renew `lease` and return its remaining seconds; 0 if it has expired."""
        answer = self.members.call("lease/keepalive", {"ID": str(lease)})
        return max(0, answers.get_number(answers.get_object(answer, "result"), "TTL"))

    def revoke(self, lease: int) -> None:
        """End `lease`, with all its keys; an expired lease is no error."""
        try:
            self.members.call("lease/revoke", {"ID": str(lease)})
        except EtcdRefused as error:
            if error.code != answers.NOT_FOUND:
                raise

    def follow(self, name: str, stop: Stop,
               ask_every_s: float | None = None) -> Iterator[News]:
        """
        Yield the value at key `name`, or all below it where it ends in "/", and each change until
        `stop`.

        First Loaded; then Changes in their order, none twice and none left out; Loaded again where
        changes were compacted before they were seen.  Away(why) when no member serves it, Back()
        when one does again; it raises nothing.  Blocks; for a thread of its own.

        A member that was silent for `ask_every_s` (half of timeout_s) is asked whether it is there,
        which takes it 0.5 ms: where many follow, less often is enough.
        """
        return follow(self.members, name, stop, self.range,
                      self.members.timeout_s / 2 if ask_every_s is None else ask_every_s)

    def close(self) -> None:
        """Close the idle connections."""
        self.members.close()

    def __enter__(self) -> Etcd:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def from_config(config: Config, endpoints: str | None = None, prefix: str | None = None,
                emit: Callable[[str], object] = lambda text: None, timeout_s: float = 2.0) -> Etcd:
    """
    Make the Etcd of [etcd] in site.cfg; `endpoints` (URLs separated by commas or spaces) and
    `prefix` override its values.  Raises ConfigError.
    """
    urls = (endpoints.replace(",", " ").split() if endpoints is not None
            else list(config.etcd.endpoints))
    if not urls:
        raise ConfigError("no etcd is named; expected URLs such as http://mgmt1:2379 in [etcd] "
                          "endpoints of site.cfg, or with --etcd")
    name = prefix if prefix is not None else config.etcd.prefix
    user, path = config.etcd.user, config.etcd.password_file
    if bool(user) != bool(path):
        raise ConfigError("[etcd] user and [etcd] password_file go together, got "
                          f"{'user' if user else 'password_file'} alone")
    return Etcd(urls, user=user, password=_read_password(path) if path else "", ca=config.etcd.ca,
                cert=config.etcd.cert, key=config.etcd.key, timeout_s=timeout_s, emit=emit,
                prefix=check_prefix(name))


def check_prefix(name: str) -> str:
    """Return `name` where it can be the first part of keys; ConfigError."""
    name = name.strip("/")
    if not name or "/" in name or not name.isprintable() or len(name) > LONGEST_PREFIX:
        raise ConfigError(f"[etcd] prefix: expected the name of a cluster of up to "
                          f"{LONGEST_PREFIX} characters without '/', such as orion, got "
                          f"{name[:120]!r}; set it in site.cfg, or with --prefix")
    return name


def _read_password(path: str) -> str:
    try:
        mode = find_unsafe_mode(os.stat(path))
        if mode:
            raise ConfigError(f"{path}: expected a file of mode 0600, got {mode}; others could "
                              f"have read the password")
        password = read_text(path).encode("latin-1").decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a password in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if not password:
        raise ConfigError(f"{path}: expected a password, got an empty file")
    return password
