"""
A comment read back: what is damaged is seen, and what stands around it does not matter.
"""

from binascii import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_accounting_comment import fs_record, job_record

from iostats.base.errors import IostatsError
from iostats.report.accounting_comment import CommentError, encode
from iostats.report.comment_reader import decode, find_comment, make_record

LINE = encode(job_record([fs_record("scratch", 4096, 37, open=23, low=["llite"])]))


@pytest.mark.parametrize("place", range(len(LINE)))
def test_a_line_with_one_character_altered_is_none(place):
    """Each one in turn; and a text that ends there."""
    for other in ("7", "x", " ", "", "\u0663"):
        if other != LINE[place]:
            with pytest.raises(CommentError):
                decode(LINE[:place] + other + LINE[place + 1:])
    with pytest.raises(CommentError):
        decode(LINE[:place])


@given(st.one_of(st.text(), st.text("io1:=,+/%-0a.r", max_size=80)))
def test_any_other_text_is_a_clear_error_and_no_other(text):
    """With a right checksum too: then it is of a form that we don't know."""
    for one in (text, "io1:" + text, _signed("io1:" + text), _signed(LINE[:-9] + text)):
        assert find_comment(one) is None or find_comment(one) in one.lower()
        try:
            make_record(decode(one))
        except CommentError as error:
            assert isinstance(error, IostatsError) and isinstance(error, ValueError)
            assert str(error).isprintable()


def _signed(text):
    return f"{text}:{crc32(text.encode('utf-8', 'replace')):08x}"


@pytest.mark.parametrize("old, new", [
    ("n=3/4", "n=3"), ("n=3/4", "n=-/4"), ("a=0", "a=zero"), ("a=0", "a=" + "9" * 5000),
    ("t=1795225000.123", "t=nan"), ("t=1795225000.123", "t=1e999"), ("m=1", "q=1"),
    (".r=4096/4", ".r="), (".r=4096/4", ".q=5"), (".r=4096/4", ".r=-/4"),
    (".w=37/0", ".w=-"), ("open=23", "open=-"), ("open=23", "open"),
    ("open=23", "%zz=23"), ("open=23", "%ff=23"), ("open=23", "%-1=23"), (":scratch", ":+x"),
], ids=lambda text: text[:20])
def test_a_line_of_another_form_is_none_though_its_checksum_is_right(old, new):
    """As a program of somebody else might write it."""
    assert old in LINE
    with pytest.raises(CommentError, match=r"unexpected format \(docs/reference/compact"):
        decode(_signed(LINE[:-9].replace(old, new)))


def test_fields_of_a_later_release_are_passed_over():
    """With a point, as ours."""
    line = _signed(LINE[:-9].replace("a=0", "a=0,zz=tomorrow").replace(".r=4096", ".z=x,.r=4096"))
    assert decode(LINE) == decode(line)


def test_a_line_in_capitals_is_the_same():
    """sacctmgr makes letters small, and scontrol does not: either way it can be read back."""
    record = job_record([])
    record["job"]["id"] = "4711.PBS01"
    assert encode(record) == encode(record).lower()
    assert decode(LINE) == decode(LINE.upper())
    assert "4711.PBS01" == make_record(decode(encode(record).upper()))["job"]["id"]


# -- among other things ------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "{}", "  {}\n", "JS1:H4sIAAAAAAAC/6tW+/=;{}", "{};JS1:H4sIAAAA", "comment, {}, more",
    "JS1:H4sIAAAA,{}", "{},JS1:H4sI", "{}:JS1:H4sI", "io1:old,{}", "a:{}:b", "{} {}",
])
def test_our_part_of_a_field_is_found(text):
    """Other tools write into the same field, before us or after us."""
    assert LINE == find_comment(text.format(*[LINE] * 2))


@pytest.mark.parametrize("text", ["", "JS1:H4sIAAAA", "io2:a=0", "io 1:a=0", "a comment"])
def test_a_field_without_our_part_has_none(text):
    """None, and no error: nobody wrote one."""
    assert find_comment(text) is None


def test_our_part_that_was_cut_off_is_found_and_is_an_error():
    """The report then says why there is none."""
    assert LINE[:40] == find_comment(f"JS1:H4sI;{LINE[:40]} more")
    with pytest.raises(CommentError, match="cut off or altered"):
        decode(find_comment(f"JS1:H4sI;{LINE[:40]} more"))
