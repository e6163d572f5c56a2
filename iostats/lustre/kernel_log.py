r"""
The kernel's log: what Lustre and LNet say in it of evictions, lost connections, recovery, LBUGs.

    PRIORITY,SEQUENCE,USEC,FLAGS[,caller=T123];TEXT     one read(2) of /dev/kmsg: one record
     KEY=value                                          more lines of it, each after a blank
    [  758.211829] TEXT                                 dmesg; <4>[  758.211829] TEXT: dmesg -r

    TEXT  = LABEL ": " [CODE ": "] [PID ":" PID ":(" FILE ":" LINE ":" FUNCTION "()) "] MESSAGE
    LABEL = Lustre | LustreError | LNet | LNetError
    CODE  = 11-0, 167-0, 0-0: LCONSOLE_ERROR_MSG() up to 2.15, removed in 2.16 (LU-17844)

PRIORITY is facility * 8 + level.  The kernel's facility is 0, and a program that writes to
/dev/kmsg cannot choose it; plain dmesg does not show it.  Bytes that are no printable ASCII are
\xNN in /dev/kmsg.  Only the first line of a record is read: Lustre prints no others, and in those
of other drivers there may be names that users chose.

A kind is given to whole messages only, as 2.5.3 to 2.17.0 print them (read in 2.5.3, 2.12.9 and
2.17.0; those that differ in 2.10.8 and 2.15.6 too); the tables below name the functions.  Messages
are rate limited: `Skipped N previous similar messages` follows a line of the same place, and counts
those before it.

Source: Documentation/ABI/testing/dev-kmsg (Linux); cfs_print_to_console(), libcfs_debug_msg(),
libcfs/libcfs/tracefile.c and linux/linux-tracefile.c (up to 2.15).
"""

from __future__ import annotations

import re
from functools import lru_cache

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple

EVICTED, CONNECTION_LOST, CONNECTION_RESTORED = "evicted", "connection_lost", "connection_restored"
CLIENT_RECONNECTING, RECOVERY, LOCK_TIMEOUT = "client_reconnecting", "recovery", "lock_timeout"
TIMEOUTS, DATA_LOST, NOT_HEALTHY, LBUG = "timeouts", "data_lost", "not_healthy", "lbug"
TARGET_DOWN, TARGET_UP, DEACTIVATED = "target_down", "target_up", "deactivated"
CHECKSUM_ERROR = "checksum_error"
OTHER, SKIPPED, REPLACED, NO_EVENT = "other", "skipped", "replaced", ""
KINDS = (EVICTED, CONNECTION_LOST, CONNECTION_RESTORED, CLIENT_RECONNECTING, RECOVERY, LOCK_TIMEOUT,
         TIMEOUTS, DATA_LOST, NOT_HEALTHY, LBUG, TARGET_DOWN, TARGET_UP, DEACTIVATED,
         CHECKSUM_ERROR, OTHER)


class LogRecord(NamedTuple):
    """A record of the kernel's log, as /dev/kmsg has it: level, sequence number, time, text."""

    priority: int | None    # facility * 8 + level; None where it is not shown
    # its number since boot, each one more than the last; None where it is not shown
    sequence: int | None
    # microseconds since boot, of a clock that runs at its own pace; None: not shown
    usec: int | None
    flags: str              # "-", or "c" and "+" of a line in pieces; "" where it is not shown
    text: str               # its first line


class Message(NamedTuple):
    """
    One message of Lustre or LNet in the kernel log.

    Attributes:
        kind: one of KINDS; SKIPPED for `Skipped N previous similar messages`; REPLACED for another
            storage server that came back, whose old connection a target evicts: it is no client;
            NO_EVENT for what is no error and has no kind.  OTHER is every error without one that
            says anything.
        cause: of EVICTED: "silent" (no ping came), "lock", "administrator", "recovery", or "" where
            a client reports its own eviction; else "".
        speaker: "client" (an osc or mdc of a mount), "server" (a target, or what connects servers
            with each other), "" where it does not show.
        label: Lustre, LustreError, LNet or LNetError.
        code: "167-0"; "" where there is none.
        pid: of the thread that printed it; None where it does not show, as with most messages.
        place: "genops.c:1773:obd_export_evict_by_uuid"; "".
        device: who speaks: scratch-OST0003, scratch-OST0003-osc-ffff9a3c5d1e0800; "".
        file_system, target: "scratch", "scratch-OST0003"; "" where none is named.
        nids: the peer's; for OTHER and NO_EVENT all that are named, at most four.
        client: UUID of the client that it is about; "".
        wall_s: the server's own clock in it, s since 1970; None where there is none.
        count: of SKIPPED, how many; of "recovery", how many clients were evicted; else 1.
        text: all behind label, code and place, made fit for a terminal.
    """

    kind: str
    cause: str
    speaker: str
    label: str
    code: str
    pid: int | None
    place: str
    device: str
    file_system: str
    target: str
    nids: tuple[str, ...]
    client: str
    wall_s: int | None
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()
    text: str


_LONGEST = 8192                     # bytes of a record: CONSOLE_EXT_LOG_MAX; of ours 1 KB
_LONGEST_TEXT = 1000
_MOST_NIDS = 4
_ANY_NIDS = (OTHER, NO_EVENT)
_LETTERS = 6                        # of a message, which tell what form it may have

_RECORD = re.compile(rb"(\d{1,5}),(\d{1,20}),(\d{1,20}),([^,;\s]{0,8})(?:,[^;\n]{0,200})?;([^\n]*)")
_DMESG = re.compile(rb"(?:<(\d{1,5})>)?\[ {0,12}(\d{1,12})\.(\d{6})\](?:\[ {0,8}[TC]\d{1,10}\])? "
                    rb"([^\n]*)")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_HEAD = re.compile(r"(L(?:ustre|Net)(?:Error)?): (?:([0-9a-f]{1,8}-[0-9a-f]): )?"
                   r"(?:(\d{1,10}):\d{1,10}:\(([\w.-]{1,80}:\d{1,9}:\w{1,80})\(\)\) )?")
_NID = re.compile(r"(?<![^\s(@>,\[])[0-9A-Za-z.:]{1,50}@(?:lo|[a-z][a-z0-9]{1,9})(?![\w@.])")
_SKIPPED = re.compile(r"Skipped (\d{1,10}) previous similar messages?")
# ctl-, srv- and cli- are the sequences of FIDs of a target.
_DEVICE = re.compile(r"(?:(?:ctl|srv|cli)-)?(([\w.-]{1,60}?)-(?:MDT|OST)[0-9a-f]{4})"
                     r"(?:-(osc|mdc)-[0-9a-f]{8,16}|([-_][\w.-]{1,60}))?")


_WORDS = (("NID", r"(?P<nid>[^\s()]{1,80})"), ("UUID", r"(?P<client>[^\s()]{1,60})"),
          ("TARGET", r"(?P<target>[^\s();@]{1,80})"), ("PEER", r"[^\s()]{1,80}"),
          ("SERVED", r"(?P<target>[\w.-]{1,60}-(?:MDT|OST)[0-9a-f]{4}|MG[ST])"),
          ("INT", r"-?\d{1,20}"), ("TIME", r"\d{1,20}:\d{1,20}"))


class _Form:
    """The pattern of a message, and words that every such message contains.

    It is compiled when it is first looked for: who needs the kinds' names alone reads no log.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.fullmatch = self._find_match

    def _find_match(self, text: str) -> re.Match[str] | None:
        pattern = self._pattern
        for word, meaning in _WORDS:
            pattern = re.sub(rf"\b{word}\b", meaning.replace("\\", r"\\"), pattern)
        # For the next texts the compiled pattern's own method, which is no method of this class.
        self.fullmatch = re.compile(pattern).fullmatch  # type: ignore[assignment]
        return self.fullmatch(text)


# Of a message about a checksum: who sent the data, which data, a checksum.
_SENDER = r"(?:\d{1,5}-)?NID(?: via PEER)?"
_EXTENT = (r"inode \[[0-9a-fx]{1,20}:[0-9a-fx]{1,12}:[0-9a-fx]{1,12}\] "
           r"object (?:0x)?[0-9a-f]{1,16}:\d{1,20} extent \[\d{1,20}-\d{1,20}\]")
_SUM = r"[0-9a-f]{1,8} \(type [0-9a-f]{1,8}\)"

# Behind "DEVICE: ", by the first letters: [(kind, cause, form)].
_OF_DEVICE = {
    # ptlrpc_import_recovery_state_machine(), ptlrpc/import.c
    "This c": [(EVICTED, "", _Form(
        r"This client was evicted by TARGET; in progress operations using this service will "
        r"fail\."))],
    # ping_evictor_main(), ptlrpc/pinger.c
    "haven'": [(EVICTED, "silent", _Form(
        r"haven't heard from client UUID \(at NID\) in INT seconds\. I think it's dead, and I am "
        r"evicting it\.(?: exp \S+, cur (?P<wall>\d{1,12}) (?:expire|deadline) INT last INT)?"))],
    # ldlm_failed_ast(), ldlm/ldlm_lockd.c
    "A clie": [(EVICTED, "lock", _Form(
        r"A client on nid NID was evicted due to a lock \w+ callback time out: rc INT"))],
    # obd_export_evict_by_nid(), obd_export_evict_by_uuid(), obdclass/genops.c
    "evicti": [(EVICTED, "administrator", _Form(
        r"evicting UUID(?: \(at NID\))? (?:by administrative|at adminstrative) request"))],
    # class_disconnect_stale_exports(), obdclass/genops.c; each by name: 2.17
    "discon": [(EVICTED, "recovery", _Form(r"disconnect stale client (?P<client>[^\s@]{1,60})"
                                             r"@NID")),
               (RECOVERY, "", _Form(r"disconnecting (?P<count>\d{1,9}) stale clients"))],
    # ptlrpc_set_import_discon(), the state machine; ptlrpc/import.c
    "Connec": [(CONNECTION_LOST, "", _Form(
        r"Connection to TARGET \(at NID\) was lost; in progress operations using this service will "
        r"(?:wait for recovery to complete|fail)")),
               (CONNECTION_RESTORED, "", _Form(r"Connection restored to PEER \(at NID\)"))],
    # target_handle_reconnect(), ldlm/ldlm_lib.c
    "Client": [(CLIENT_RECONNECTING, "", _Form(
        r"Client UUID \(at NID\) (?:reconnecting|reconnect(?:ing|ed), waiting for .*)"))],
    # target_start_recovery_timer(), target_finish_recovery(), target_recovery_overseer(),
    # target_handle_connect(), target_handle_reconnect(), target_stop_recovery_thread(); mdt and
    # ofd_iocontrol()
    "Will b": [(RECOVERY, "", _Form(
        r"Will be in recovery for at least TIME, or until INT clients? reconnects?"))],
    "Recove": [(RECOVERY, "", _Form(
        r"Recovery over after TIME, of INT clients INT recovered and (?P<count>\d{1,9}) "
        r"(?:was|were) evicted\.")),
               (RECOVERY, "", _Form(r"Recovery already passed deadline ?TIME.*"))],
    "recove": [(RECOVERY, "", _Form(r"recovery is timed out, evict stale exports"))],
    "Denyin": [(RECOVERY, "", _Form(
        r"Denying connection for new client UUID ?\(at NID\), waiting for (?:all )?INT known "
        r"clients .*"))],
    "Aborti": [(RECOVERY, "", _Form(r"Aborting recovery(?: for device)?"))],
    # health_check_show(), obdclass/obd_sysfs.c, from 2.16.59 on; ptlrpc_svcpt_health_check()
    "device": [(NOT_HEALTHY, "", _Form(r"device reported unhealthy"))],
    # target_handle_connect(), ldlm/ldlm_lib.c
    "Receiv": [(REPLACED, "", _Form(
        r"Received (?:new )?(?:MDS|LWP) connection from NID, (?:removing former export from PEER|"
        r"remove former export from same [N]ID)"))],
    "unheal": [(NOT_HEALTHY, "", _Form(r"unhealthy - request has been waiting -?\d{1,20}s"))],
    # ll_dirty_page_discard_warn(), llite/llite_lib.c
    "dirty ": [(DATA_LOST, "", _Form(
        r"dirty page discard: \S{1,300}/fid: \[[0-9a-fx:]{1,60}\]/.* may get corrupted "
        r"\(rc INT\)"))],
    # check_write_checksum(), osc_brw_fini_request(), osc/osc_request.c; check_read_checksum(),
    # tgt_warn_on_cksum(), target/tgt_handler.c
    "BAD WR": [(CHECKSUM_ERROR, "", _Form(
        rf"BAD WRITE CHECKSUM: (?:[\w ,'()-]{{1,120}}: )?from {_SENDER} {_EXTENT}(?:, original "
        rf"client csum {_SUM}, server csum {_SUM}, client csum now \w{{1,8}}|"
        r": client csum \w{1,8}, server csum \w{1,8})"))],
    "BAD RE": [(CHECKSUM_ERROR, "", _Form(
        rf"BAD READ CHECKSUM: (?:[\w ,'()-]{{1,120}}: )?from {_SENDER} {_EXTENT}(?:, client "
        rf"returned csum {_SUM}, server csum {_SUM}|, client \w{{1,8}}(?:/\w{{1,8}})?, "
        r"server \w{1,8}, cksum_type \w{1,8})"))],
    # server_calc_timeout(), obdclass/obd_mount_server.c, target/tgt_mount.c: as a target starts
    "Impera": [(TARGET_UP, "", _Form(
        r"Imperative Recovery (?:not enabled, recovery window \d{1,9}-\d{1,9}|enabled, recovery "
        r"window shrunk from \d{1,9}-\d{1,9} down to \d{1,9}-\d{1,9})"))],
}
# Those that begin with nobody's name.
_OF_NOBODY = {
    # expired_lock_main(), waiting_locks_callback() in 2.5, ldlm/ldlm_lockd.c;
    # ldlm_expired_completion_wait(), ldlm/ldlm_request.c
    "### lo": [(EVICTED, "lock", _Form(
        r"### lock callback timer expired after \d{1,12}s: evicting client at NID +"
        r"ns: (?:filter-|mdt-)?(?P<space>\S{1,120}) lock: .*")),
               (LOCK_TIMEOUT, "", _Form(
        r"### lock timed out \(enqueued at INT, -?\d{1,12}s ago\)(?:, entering recovery for "
        r"TARGET@\S{1,80}|; not entering recovery in server code, just going back to sleep)"
        r"(?: +ns: (?:filter-|mdt-)?(?P<space>\S{1,120}) lock: .*)?"))],
    "lock t": [(LOCK_TIMEOUT, "", _Form(r"lock timed out \(enqueued at INT, -?\d{1,12}s ago\)"))],
    # ptlrpc_expire_one_request(), ptlrpc/client.c, as DEBUG_REQ() prints it
    "@@@ Re": [(TIMEOUTS, "", _Form(
        r"@@@ Request sent has (?:timed out for (?:slow reply|sent delay)|failed due to network "
        r"error): \[sent \d{1,12}/real \d{1,12}\] +req@\S+ \S+ o-?\d{1,6}->"
        r"(?P<device>MGC[^\s@]{1,60}@[a-z0-9]{1,10}|[^\s@]{1,80})@(?P<nid>\S{1,80}?)"
        r":\d{1,6}/\d{1,6} .*"))],
    # lbug_with_loc(), LASSERTF(), libcfs/libcfs/debug.c, libcfs_private.h
    "LBUG": [(LBUG, "", _Form(r"LBUG"))],
    "ASSERT": [(LBUG, "", _Form(r"ASSERTION\( .* \) failed:.*"))],
    # server_put_super(), obdclass/obd_mount_server.c, target/tgt_mount.c; class_cleanup()
    "server": [(TARGET_DOWN, "", _Form(r"server umount SERVED complete"))],
    "Failin": [(TARGET_DOWN, "", _Form(r"Failing over SERVED"))],
    # ptlrpc_set_import_active(), ptlrpc/recover.c
    "settin": [(DEACTIVATED, "", _Form(
        r"setting import TARGET INACTIVE by administrator request"))],
}


def parse_record(data: bytes) -> LogRecord | None:
    r"""
    The LogRecord in the bytes of one read(2) of /dev/kmsg; None for an unexpected format.

    >>> parse_record(b"4,23,758211829,-;Lustre: a\\x0ab\n SUBSYSTEM=net\n").text
    'Lustre: a'
    """
    match = _RECORD.match(data, 0, _LONGEST)
    if match is None:
        return None
    priority, sequence, usec, flags, text = match.groups()
    if b"\\" in text:
        text = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), text).partition(b"\n")[0]
    return LogRecord(int(priority), int(sequence), int(usec), flags.decode("ascii", "replace"),
                     text.decode("utf-8", "backslashreplace"))


def parse_dmesg_line(line: bytes) -> LogRecord | None:
    """
    The LogRecord in a line that `dmesg` or `dmesg -r` printed; None for an unexpected format.

    >>> parse_dmesg_line(b"[  758.211829] Lustre: LBUG").usec
    758211829
    """
    match = _DMESG.match(line, 0, _LONGEST)
    if match is None:
        return None
    priority, seconds, usec, text = match.groups()
    return LogRecord(int(priority) if priority else None, None, int(seconds + usec), "",
                     text.decode("utf-8", "backslashreplace"))


def parse_message(record: LogRecord) -> Message | None:
    """
    Parse the message of Lustre or LNet in a LogRecord; None for other messages.

    A record that does not show its facility is taken for the kernel's.

    >>> parse_message(LogRecord(3, 23, 7, "-", "LustreError: 37:0:(a.c:5:f()) LBUG")).kind
    'lbug'
    """
    if record.priority is not None and record.priority >> 3:
        return None
    text = record.text
    head = _HEAD.match(text)
    if head is None:
        return None
    if not text.isprintable():
        text = sanitize(text)
        head = _HEAD.match(text) or head
    label, code, pid, place = head.groups("")
    message_text = text[head.end():].rstrip()
    kind, cause, device, groups = _classify(message_text)
    if not kind and message_text and label.endswith("Error"):
        kind = OTHER
    space = groups.get("space") or ""                   # of locks: a target's ends in _UUID
    file_system, target, speaker = _split_device(space.removesuffix("_UUID") or device)
    if groups.get("target"):
        file_system, target, _ = _split_device(groups["target"] or "")
    if kind == DATA_LOST:                   # behind it there is the path of a user's file
        file_system, speaker = device, "client"
    elif kind == TARGET_DOWN:
        speaker = "server"
    nid = groups.get("nid")
    nids = ((nid,) if nid and "@" in nid else
            _find_nids(message_text) if "@" in message_text and kind in _ANY_NIDS else ())
    return Message(kind, cause, speaker, label, code, int(pid) if pid else None, place, device,
                   file_system, target, nids,
                   groups.get("client") or "", int(groups["wall"]) if groups.get("wall") else None,
                   int(groups["count"]) if "count" in groups else 1,
                   message_text[:_LONGEST_TEXT])


def _classify(text: str) -> tuple[str, str, str, dict[str, str]]:
    """Return (kind, cause, device, what its form has) of a message."""
    device, colon, rest = text.partition(": ")
    if colon and " " not in device and len(device) <= 128:
        for kind, cause, form in _OF_DEVICE.get(rest[:_LETTERS], ()):
            match = form.fullmatch(rest)
            if match:
                return kind, cause, device, match.groupdict()
    else:
        device = ""
        for kind, cause, form in _OF_NOBODY.get(text[:_LETTERS], ()):
            match = form.fullmatch(text)
            if match:
                groups = match.groupdict()
                return kind, cause, groups.get("device") or "", groups
    if text.startswith("Skipped "):
        skipped = _SKIPPED.fullmatch(text)
        if skipped:
            return SKIPPED, "", "", {"count": skipped[1]}
    return NO_EVENT, "", device, {}


@lru_cache(4096)
def _split_device(name: str) -> tuple[str, str, str]:
    """Return (file system, target, speaker) of a device or a target."""
    match = _DEVICE.fullmatch(name)
    if match:
        return match[2], match[1], "client" if match[3] else "server"
    return ("", name, "") if name in ("MGS", "MGT") else ("", "", "")


def _find_nids(text: str) -> tuple[str, ...]:
    nids: dict[str, None] = {}
    for word in text[:_LONGEST_TEXT].split():
        if "@" in word:
            nids.update(dict.fromkeys(_NID.findall(word)))
    return tuple(nids)[:_MOST_NIDS]
