"""
Ganglia's datagrams: what we encode, a decoder written from lib/gm_protocol.x decodes.
"""
from __future__ import annotations

import struct

import pytest
from ganglia_desk import decoded
from hypothesis import given
from hypothesis import strategies as st

from iostats.sinks.ganglia.datagrams import (
    LONGEST_NAME,
    MOST_BYTES,
    GangliaMetric,
    Host,
    clean_name,
    encode_metadata,
    encode_value,
    format_number,
    make_metric_texts,
)

NODE1 = Host("10.77.0.11:node1", True)
TEXTS = st.text(max_size=300)
UINTS = st.integers(0, 2**32 - 1)


def test_a_value_byte_by_byte():
    """As gmetric of 3.7.2 sends it, worked out by hand from RFC 4506."""
    assert (b"\0\0\0\x85"                                               # 133, gmetric_string
            b"\0\0\0\x1010.77.0.11:node1"                               # 16 bytes: no padding
            b"\0\0\0\x05reads\0\0\0"                                    # 5 bytes and 3 zeros
            b"\0\0\0\1"                                                 # spoofed
            b"\0\0\0\2%s\0\0"
            b"\0\0\0\x0223\0\0") == encode_value(NODE1, "reads", "23")


def test_a_metadata_byte_by_byte():
    """Of a host that is the sender itself, with one more datum."""
    metric = GangliaMetric("reads", "double", "ops/sec", 3, 37, 41, (("GROUP", "lustre"),))
    assert (b"\0\0\0\x80"                                               # 128, gmetadata_full
            b"\0\0\0\4oss1" b"\0\0\0\x05reads\0\0\0" b"\0\0\0\0"
            b"\0\0\0\6double\0\0" b"\0\0\0\x05reads\0\0\0" b"\0\0\0\7ops/sec\0"
            b"\0\0\0\3" b"\0\0\0\x25" b"\0\0\0\x29"                     # slope, tmax, dmax
            b"\0\0\0\1" b"\0\0\0\x05GROUP\0\0\0" b"\0\0\0\6lustre\0\0"
            ) == encode_metadata(Host("oss1", False), metric)


@given(TEXTS, st.booleans(), TEXTS, TEXTS, TEXTS, UINTS, UINTS, UINTS,
       st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_a_metadata_is_decoded_as_it_was(host, is_spoofed, name, type, units, slope, tmax, dmax,
                                         extra):
    """Any text, any number."""
    found = decoded(encode_metadata(Host(host, is_spoofed),
                                    GangliaMetric(name, type, units, slope, tmax, dmax,
                                                  tuple(extra))))
    assert {"host": host, "is_spoofed": is_spoofed, "name": name, "named": name, "type": type,
            "units": units, "slope": slope, "tmax": tmax, "dmax": dmax, "extra": extra} == found


@given(TEXTS, st.booleans(), TEXTS, TEXTS)
def test_a_value_is_decoded_as_it_was(host, is_spoofed, name, text):
    """Any text."""
    assert {"host": host, "is_spoofed": is_spoofed, "name": name, "format": "%s",
            "value": text} == decoded(encode_value(Host(host, is_spoofed), name, text))


@given(st.floats(min_value=0, max_value=1e300))
def test_a_number_keeps_fifteen_digits(rate):
    """A double has no more that are always right."""
    assert float(format_number(rate)) == pytest.approx(rate, rel=1e-14, abs=0)


@given(st.text(max_size=1000))
def test_a_safe_name_breaks_neither_xml_nor_paths(text):
    """gmond and gmetad write names as they are."""
    name = clean_name(text)
    assert name.isascii() and not set(name) & set("/\\\"'<>&: \0") and name.isprintable()
    assert 0 < len(name) <= LONGEST_NAME and name not in (".", "..") and clean_name(name) == name


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_the_longest_datagram_is_one_that_gmond_reads(node, file_system):
    """It reads 1472 bytes; what is longer it would take for damaged."""
    name = clean_name(f"{clean_name(file_system)}_cluster_write_bytes")
    metric = GangliaMetric(name, "double", "bytes/sec", 3, 40, 180, make_metric_texts(
        "lustre", f"{clean_name(file_system)}, all nodes: written",
        "Bytes written to OSTs and MDTs"))
    assert len(encode_metadata(Host(f"255.255.255.255:{clean_name(node)}", True),
                               metric)) <= MOST_BYTES


def test_half_a_character_is_no_error():
    """A name read from a file can have surrogates."""
    [text] = struct.unpack(">6s",
                           decoded(encode_value(NODE1, "a\udcff", "23"))["name"].encode()[1:])
    assert b"\\udcff" == text
