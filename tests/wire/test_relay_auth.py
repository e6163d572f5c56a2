"""
A relay is proved by its own secret alone; a file that is wrong is told once, and read again.
"""

import os

import pytest

from iostats.base.errors import NotDelivered, StateError
from iostats.wire import protocol
from iostats.wire.auth import AuthenticationError, Secret
from iostats.wire.relays import (
    Destination,
    RelaySecret,
    RelaySecrets,
    Source,
    load_destination_secret,
)

NONCE, BODY, NOW = "23" * 16, b'{"jsonrpc":"2.0"}', 1_795_000_000
OURS, OTHER = b"0123456789abcdef", b"fedcba9876543210"


class Desk:
    """RelaySecrets over files in a directory, with a clock that is set."""

    def __init__(self, directory):
        self.directory, self.said, self.steady = directory, [], 0.0
        self.write("site", OTHER)
        self.secrets = None

    def write(self, name, password, mode=0o600):
        path = self.directory / f"{name}.secret"
        path.write_bytes(password + b"\n")
        path.chmod(mode)
        return path

    def start(self, *names):
        self.secrets = RelaySecrets(
            {name: Source(name, frozenset({"gdata"}), frozenset({"o2ib2"}), (),
                          str(self.directory / f"{name}.secret")) for name in names},
            str(self.directory / "site.secret"), 300.0, lambda: NOW, self.said.append,
            lambda: self.steady)

    def asks(self, header):
        """The node of a message with this header; AuthenticationError."""
        return self.secrets.of(header).check(header, BODY)[0]


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def header(name="alkindi", password=OURS, nonce=NONCE, at=NOW):
    return RelaySecret(name, password).authorization(name, at, nonce, BODY)


def test_a_relay_with_the_secret_is_known_and_so_is_the_server(desk):
    """Both ways."""
    desk.write("alkindi", OURS)
    desk.start("alkindi")
    assert desk.asks(header()) == "alkindi"
    name, mac = desk.secrets.of(header()).answer_header(NONCE, b"yes")
    relay = RelaySecret("alkindi", OURS, cluster="xe")
    assert relay.verify_answer({name.lower(): mac}, NONCE, b"yes")
    assert not relay.verify_answer({name.lower(): mac}, NONCE, b"no!")
    assert relay.reject_reason == ("the server of cluster xe has another secret for relay alkindi, "
                                   "or does not know it (site.cfg there: [relay_from])")


@pytest.mark.parametrize(("made", "code"), [
    (header(password=OTHER), protocol.NOT_AUTHENTICATED),
    (header("unknown"), protocol.NOT_AUTHENTICATED),
    (header().replace("alkindi", "beside"), protocol.NOT_AUTHENTICATED),
    (header(at=NOW - 301), protocol.STALE),
    (header(at=NOW - 23), protocol.STALE),
    ("IOSTATS-RELAY-1 node=alkindi", protocol.NOT_AUTHENTICATED),
    ("IOSTATS-RELAY-1", protocol.NOT_AUTHENTICATED),
], ids=["another secret", "unknown", "another relay's name", "stale", "before the start", "half",
        "empty"])
def test_what_does_not_prove_the_relay_is_refused(desk, made, code):
    """Whatever stands in the header."""
    desk.write("alkindi", OURS)
    desk.write("beside", OURS)
    desk.start("alkindi", "beside")
    with pytest.raises(AuthenticationError) as error:
        desk.asks(made)
    assert error.value.code == code


def test_the_very_message_is_taken_once(desk):
    """As of nodes."""
    desk.write("alkindi", OURS)
    desk.start("alkindi")
    desk.asks(header())
    with pytest.raises(AuthenticationError, match="this very message was here before"):
        desk.asks(header())


def test_the_same_secret_proves_no_node_and_a_nodes_no_relay():
    """Their schemes and their keys are different."""
    node = Secret(protocol.SITE, OURS, now=lambda: NOW)
    with pytest.raises(AuthenticationError):
        node.check(header(), BODY)
    with pytest.raises(AuthenticationError):
        node.check(header().replace(protocol.RELAY_SCHEME, protocol.SCHEME), BODY)
    relay = RelaySecret("alkindi", OURS, now=lambda: NOW)
    of_node = node.authorization("alkindi", NOW, NONCE, BODY)
    with pytest.raises(AuthenticationError):
        relay.check(of_node.replace(protocol.SCHEME, protocol.RELAY_SCHEME), BODY)


def test_a_secret_that_is_missing_or_readable_by_others_is_told_once_and_read_later(desk):
    """The other relay goes on; no restart is needed."""
    path = desk.write("alkindi", OURS, mode=0o640)
    desk.write("other", OTHER[::-1])
    desk.start("alkindi", "other")
    assert desk.asks(header("other", OTHER[::-1])) == "other"
    for nonce in ("31" * 16, "37" * 16):
        desk.steady += 6
        with pytest.raises(AuthenticationError):
            desk.asks(header(nonce=nonce))
    [line] = desk.said
    assert line == (
        f"relay alkindi is refused: {path}: expected a file of mode 0600, got mode 0640; others "
        f"could have read it: chmod 600 {path}, or if they may have: remove it on alkindi, "
        f"systemctl restart iostats-site.service there, which makes a new one, and copy that")
    path.chmod(0o600)
    with pytest.raises(AuthenticationError):                # it was looked at a moment ago
        desk.asks(header(nonce="41" * 16))
    desk.steady += 6
    assert desk.asks(header(nonce="43" * 16)) == "alkindi"
    os.unlink(path)
    desk.steady += 6
    with pytest.raises(AuthenticationError):
        desk.asks(header(nonce="47" * 16))
    assert desk.said[1:] == [
        f"relay alkindi is refused: {path}: no secret; copy it from the server that relays: scp -p "
        f"alkindi:{desk.directory}/CLUSTER.secret {path}, with the name of this cluster there "
        f"([relay] in its site.cfg)"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o720])
def test_a_directory_that_others_can_write_to_is_refused_on_both_sides(desk, mode):
    """Until it is right again."""
    path = desk.write("alkindi", OURS)
    desk.directory.chmod(mode)
    desk.start("alkindi")
    with pytest.raises(AuthenticationError):
        desk.asks(header())
    message = (f"{desk.directory}: expected a directory of mode 0700, got mode {mode:04o}; others "
               f"could have put a secret there: look whose its files are, and chmod 700 "
               f"{desk.directory} ([site] relay_secrets)")
    assert desk.said == [f"relay alkindi is refused: {message}"]
    to = Destination("xe", "xepbs", 19990, {}, str(path))
    with pytest.raises(StateError) as error:
        load_destination_secret(to)
    assert str(error.value) == message
    desk.directory.chmod(0o755)
    desk.steady += 6
    assert desk.asks(header(nonce="41" * 16)) == "alkindi" and load_destination_secret(to) == OURS


def test_a_relays_own_secret_is_made_by_its_server(tmp_path):
    """What to do there about one that is missing, or that others can read."""
    to = Destination("xe", "xepbs", 19990, {}, str(tmp_path / "xe.secret"))
    with pytest.raises(NotDelivered) as error:
        load_destination_secret(to)
    assert str(error.value) == (f"{to.secret}: no secret; systemctl restart iostats-site.service "
                                f"makes it; then copy it to xepbs")
    (tmp_path / "xe.secret").write_bytes(OURS)
    (tmp_path / "xe.secret").chmod(0o644)
    with pytest.raises(StateError) as error:
        load_destination_secret(to)
    assert f"could have read it: chmod 600 {to.secret}, or if they may have: rm {to.secret}, " in (
        str(error.value))


def test_a_new_secret_takes_the_place_of_the_old_one(desk):
    """From the next look on."""
    desk.write("alkindi", OTHER[::-1])
    desk.start("alkindi")
    desk.steady += 6
    desk.write("alkindi", OURS + b"x")
    assert desk.asks(header(password=OURS + b"x")) == "alkindi"


def test_the_sites_own_secret_is_no_relays(desk):
    """It would make the relay root here."""
    desk.write("alkindi", OTHER)
    desk.start("alkindi")
    with pytest.raises(AuthenticationError):
        desk.asks(header(password=OTHER))
    assert "expected another secret than [site] secret" in desk.said[0]
