"""
Statements <-> the numbers of verbs and attributes in a release.

Both enumerations grew in the middle between 4.4 and 4.5: prdcr_listen_status (0x115) of 4.5 is
`advertise` in 4.4, so nothing is sent before the peer's dialect is known.

Source: enum ldmsd_request and ldmsd_request_attr, ldmsd_request.h of 4.4.3 to 4.5.3 and of main,
which only appended to 4.5's; attr_str_id_table and ldmsd_parse_config_str(), ldmsd_request_util.c.
"""

from __future__ import annotations

from errno import EINVAL, ENOSYS

from iostats_ldms.statements.dialect import Statement

# The verbs of consecutive numbers, from each key on.
_VERBS_OF_BOTH = {
    0x001: "example greeting cfg_cntr dump_cfg",
    0x200: "strgp_add strgp_del strgp_start strgp_stop strgp_status strgp_prdcr_add strgp_prdcr_del"
           " strgp_metric_add strgp_metric_del store_time_stats",
    0x300: "updtr_add updtr_del updtr_start updtr_stop updtr_status updtr_prdcr_add updtr_prdcr_del"
           " updtr_match_add updtr_match_del updtr_task updtr_match_list update_time_stats",
    0x502: "start stop plugn_status load term config usage plugn_sets",
    0x600: "udata udata_regex loglevel daemon_status version env include oneshot logrotate"
           " daemon_exit",
    0x60c: "xprt_stats thread_stats prdcr_stats set_stats listen metric_sets_default_authz option"
           " set_sec_mod",
    0x800: "setgroup_add setgroup_mod setgroup_del setgroup_ins setgroup_rm",
    0x900: "publish subscribe unsubscribe stream_client_dump stream_new stream_status"
           " stream_disable",
    0xa00: "auth_add auth_del",
}
_PRODUCERS = ("prdcr_add prdcr_del prdcr_start prdcr_stop prdcr_status prdcr_start_regex"
              " prdcr_stop_regex prdcr_set_status prdcr_hint_tree prdcr_subscribe"
              " prdcr_unsubscribe prdcr_stream_status")
_ADVERTISED = (" advertiser_add advertiser_start advertiser_stop advertiser_del prdcr_listen_add"
               " prdcr_listen_del prdcr_listen_start prdcr_listen_stop prdcr_listen_status"
               " advertise")
_VERBS = {
    "4.4": {**_VERBS_OF_BOTH, 0x100: _PRODUCERS + _ADVERTISED},
    "4.5": {**_VERBS_OF_BOTH, 0x100: _PRODUCERS + " bridge_add" + _ADVERTISED,
            0x614: "log_status stats_reset default_auth memory log_file publish_kernel daemon_name"
            " worker_threads default_quota pid_file banner profiling",
            0x907: "stream_enable",
            0xb00: "qgroup_config qgroup_member_add qgroup_member_del qgroup_start qgroup_stop"
            " qgroup_info",
            0xc00: "msg_stats msg_client_stats msg_disable msg_enable"},
}
_SAME_AS = {"4.4": {"daemon": "daemon_status", "exit": "daemon_exit"},
            "4.5": {"daemon": "daemon_status", "exit": "daemon_exit", "log_level": "loglevel",
                    "bridge_del": "prdcr_del", "bridge_start": "prdcr_start",
                    "bridge_stop": "prdcr_stop", "set_memory": "memory"}}

# Numbers count from 1.
_ATTRIBUTES_OF_BOTH = (
    "name interval offset regex type producer instance xprt host port match plugin container schema"
    " metric string udata base incr level path time push test rec_len json perm auto_switch"
    " peer_name timeout_factor auto_interval uid gid stream auth reset decomposition")
_ATTRIBUTES = {
    "4.4": _ATTRIBUTES_OF_BOTH + " summary size ip",
    "4.5": _ATTRIBUTES_OF_BOTH + " rail quota rx_rate summary size ip ask_interval ask_mark"
                                 " ask_amount reset_interval exclusive_thread message_tag",
}
_ATTRIBUTE_SAME_AS = {
    "4.4": {"interval_us": "interval", "reconnect": "interval", "flush": "interval",
            "cache_ip": "ip", "disable_start": "auto_interval"},
    "4.5": {"interval_us": "interval", "reconnect": "interval", "flush": "interval",
            "cache_ip": "ip", "disable_start": "auto_interval", "advertiser_auth": "auth",
            "advertiser_port": "port", "advertiser_xprt": "xprt", "mode": "level", "num": "size",
            "message_channel": "message_tag"},
}

VERB_IDS = {dialect: {verb: first + n for first, verbs in table.items()
                      for n, verb in enumerate(verbs.split())}
            for dialect, table in _VERBS.items()}
for _dialect, _names in _SAME_AS.items():
    VERB_IDS[_dialect].update({name: VERB_IDS[_dialect][alias] for name, alias in _names.items()})
_VERB_OF_ID = {dialect: {number: verb for verb, number in reversed(list(ids.items()))}
               for dialect, ids in VERB_IDS.items()}
ATTRIBUTE_IDS = {dialect: {name: n for n, name in enumerate(names.split(), 1)}
                 for dialect, names in _ATTRIBUTES.items()}
_ATTRIBUTE_OF_ID = {dialect: {n: name for name, n in ids.items()}
                    for dialect, ids in ATTRIBUTE_IDS.items()}
for _dialect, _names in _ATTRIBUTE_SAME_AS.items():
    ATTRIBUTE_IDS[_dialect].update({name: ATTRIBUTE_IDS[_dialect][alias]
                                    for name, alias in _names.items()})
STRING, JSON = ATTRIBUTE_IDS["4.5"]["string"], ATTRIBUTE_IDS["4.5"]["json"]

# Verbs whose attributes, except for these, are sent as one text "a=b c" for the plugin.
_OWN = {"config": ("name",), "env": (), "auth_add": ("name", "plugin"), "option": (),
        "listen": ("xprt", "port", "host", "auth", "quota", "rx_rate"),
        "default_auth": ("plugin",)}
# Attributes that ldmsd's own parser of configuration files adds.
_ADDED = {"bridge_add": ("type", "bridge"), "advertiser_add": ("type", "advertiser"),
          "advertiser_start": ("type", "advertiser")}


class UnsupportedStatement(Exception):
    """
    A statement that the release does not support; it is not sent.

    Attributes:
        errno: ldmsd's own for such a line in a file: 38 for a verb, 22 for an attribute.
    """

    def __init__(self, errno: int, text: str) -> None:
        super().__init__(text)
        self.errno = errno


def encode_statement(statement: Statement, dialect: str) -> tuple[int,
                                                                  list[tuple[int, str | None]]]:
    """
    Encode a statement: (number of the verb, [(number of the attribute, value; None for a
    keyword)]).

    Raises UnsupportedStatement.
    """
    verb, attributes = statement.verb, tuple(statement.attributes)
    number = VERB_IDS[dialect].get(verb)
    if number is None:
        raise UnsupportedStatement(ENOSYS, f"LDMS {dialect} has no command {verb}")
    own = _OWN.get(verb)
    rest = []
    if own is not None:
        rest = [name if value is None else f"{name}={value}"
                for name, value in attributes if name not in own]
        attributes = tuple(pair for pair in attributes if pair[0] in own)
    if verb in _ADDED and _ADDED[verb][0] not in dict(attributes):
        attributes += (_ADDED[verb],)
    ids, result = ATTRIBUTE_IDS[dialect], []
    for name, value in attributes:
        if name not in ids:
            raise UnsupportedStatement(EINVAL, f"LDMS {dialect} has no attribute {name} ({verb})")
        result.append((ids[name], value))
    if rest:
        result.append((STRING, " ".join(rest)))
    for _number, value in result:
        if value is not None and "\0" in value:
            raise UnsupportedStatement(EINVAL, f"a NUL in an attribute of {verb}")
    return number, result


def decode_statement(number: int, attributes: list[tuple[int, str | None]],
                     dialect: str) -> Statement:
    """
    Decode a command to a statement, the inverse of `encode_statement`, except for the order of
    attributes that share a text, and for synonyms (interval: reconnect, flush).

    Unknown numbers are returned as they are: Statement("0x999", (("63", "value"),)).
    """
    verb = _VERB_OF_ID[dialect].get(number, hex(number))
    names, result = _ATTRIBUTE_OF_ID[dialect], []
    for attribute, value in attributes:
        if attribute == STRING and verb in _OWN:
            for word in (value or "").split():
                name, equals, of_it = word.partition("=")
                result.append((name, of_it if equals else None))
        else:
            name = names.get(attribute, str(attribute))
            if (name, value) != _ADDED.get(verb):
                result.append((name, value))
    return Statement(verb, tuple(result))
