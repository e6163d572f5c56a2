"""LDMS' protocol over TCP: of either end, and what ldmsd answers."""
from __future__ import annotations

from iostats_ldms.control import answers
from iostats_ldms.control.encoding import UnsupportedStatement
from iostats_ldms.control.errors import ControlError, ProtocolError
from iostats_ldms.control.frames import LONGEST_MESSAGE
from iostats_ldms.control.protocol import Authentication, ClientProtocol
from iostats_ldms.statements.dialect import Statement
from simldms.control_end import CommandReceived, DirectoryRequested, ServerProtocol

from .tools import Draw, allowed, target

_AUTHS = (Authentication(), Authentication("ovis", "correct-horse-23"), Authentication("munge"))
_COMMANDS = [Statement("prdcr_start", (("name", "node-23"),)), Statement("updtr_status", ()),
             Statement("config", (("name", "m"), ("path", "x" * 300)))]


def _talk():
    """(all that the client sends, all that the server does) for each authentication."""
    found = []
    for n, auth in enumerate(_AUTHS[:2]):
        client, server = ClientProtocol(auth, challenge=23), ServerProtocol(auth, challenge=37)
        client.connect()
        there, back, asked = b"", b"", False
        while True:
            one, other = client.outgoing(), server.outgoing()
            if not one and not other:
                if asked:
                    break
                asked = True
                for number, command in enumerate(_COMMANDS):
                    client.send_command(number, command)
                client.send_directory(41)
                continue
            there, back = there + one, back + other
            for event in server.receive(one):
                if isinstance(event, CommandReceived):
                    server.answer(event.number, 0, '[{"name":"x"}]')
                elif isinstance(event, DirectoryRequested):
                    server.directory(event.number, ['{"directory":[]}'] * 2)
            client.receive(other)
        found.append((bytes([n]) + there, bytes([n]) + back))
    return found


def _fed(end, draw):
    with allowed(ControlError):
        for part in draw.parts(draw.rest()):
            for event in end.receive(part):
                assert len(repr(event)) < LONGEST_MESSAGE
            assert len(end.outgoing()) < 1 << 20


@target(seeds=lambda: [back for _there, back in _talk()], most_bytes=1 << 15)
def control_client(data):
    """Whatever a daemon sends: events, or one line."""
    draw = Draw(data)
    client = ClientProtocol(draw.choice(_AUTHS), "node-23:411", challenge=23)
    client.connect()
    _fed(client, draw)
    if client.is_established:
        for number, command in enumerate(_COMMANDS):
            with allowed(UnsupportedStatement):
                client.send_command(number, command)
        client.send_directory(41)


@target(seeds=lambda: [there for there, _back in _talk()], most_bytes=1 << 15)
def control_server(data):
    """Whatever a client sends to a simulated daemon."""
    draw = Draw(data)
    _fed(ServerProtocol(draw.choice(_AUTHS), challenge=37), draw)


_ANSWERS = (
    b'[{ "name":"n","type":"active","host":"h","port":411,"transport":"sock","reconnect_us":"2",'
    b'"state":"CONNECTED","sets": [{ "inst_name":"i","schema_name":"s","state":"READY"}]}]',
    b'[{"name":"u","interval":"23","offset":"0","sync":"true","mode":"Pull","auto":"false","state":'
    b'"RUNNING","producers":[{"name":"n"}]}]',
    b'[{"name":"u","match":[{"regex":"a\\.b"c","selector":"inst"}]}]',
    b'[{"name":"m","plugin":"p","type":"sampler[M]","sample_interval_us":23,"libpath":"/l/libp.so"}]',
    b'[{"plugin":"m","sets":["i"]}]',
    b'[{"name":"p","container":"c","schema":"s","regex":"-","plugin":"x","flush":"0.000023","state":'
    b'"RUNNING","decomp":"-","producers":["a"]}]',
    b'[{"name":"l","state":"running","regex":"-","IP range":"-","producers":["a"]}]',
    b'{"job":{"n":{"mode":"subscribed"}},"_OVERALL_":{}}',
    b'{ "directory" : [ {"name":"i","schema":"s","flags":"CL ","meta_size":23,"data_size":37,'
    b'"uid":0,'
    b'"gid":0,"perm":"-r","timestamp":{"sec":1,"usec":2},"duration":{"sec":0,"usec":1},"info":['
    b'{"key":"updt_hint_us","value":"23:41"}]}]}', b"23", b'{"state":"ready"}',
    b'{"LDMSD Version":"4.5.3"}')


@target(seeds=lambda: list(_ANSWERS), most_bytes=1 << 14)
def control_answers(data):
    """Whatever it answers: what it has, or one line."""
    text = data.decode("utf-8", "replace")
    answers.parse_release(text if not text.startswith("{") else "", "4.5")
    for read in (answers.parse_config_counter, answers.parse_daemon_state, answers.parse_producers,
                 answers.parse_updaters,
                 answers.parse_plugins, answers.parse_policies, answers.parse_listens,
                 answers.parse_sets,
                 lambda text: answers.parse_updaters("[]", text),
                 lambda text: answers.parse_plugins("[]", text),
                 lambda text: answers.parse_release(text, "4.5")):
        with allowed(ProtocolError):
            read(text)
