"""`iostats capacity`: rows, cells and notes."""
from __future__ import annotations

from iostats.report import listing
from iostats.report.capacity_table import DEFAULT, TABLE, build_rows, format_notes, make_cell
from iostats.report.listing import AS_FITS, NumberForm

NOW = 1_795_333_400.0
DAY_S, TIB = 86_400.0, 1 << 40


def a_target(name, used, total=100, **fields):
    """`used`, `total`: TiB."""
    return {"target": f"scratch-{name}", "file_system": "scratch", "node": "oss1", "time": NOW - 23,
            "bytes_total": total * TIB, "bytes_free": (total - used) * TIB,
            "bytes_available": (total - used) * TIB, "inodes_total": 1000, "inodes_free": 590,
            "bytes_used": used * TIB, "inodes_used": 410,
            "bytes_used_percent": 100.0 * used / total, "inodes_used_percent": 41.0,
            "history_since": NOW - 7 * DAY_S, "bytes_per_day": 3 * TIB, "inodes_per_day": 7,
            "full_first": None, "full_at": None, "full_earliest": None, "full_latest": None,
            **fields}


def table(*targets, columns=DEFAULT, how=AS_FITS, **choices):
    rows = build_rows({"time": NOW, "targets": list(targets)}, **choices)
    return "".join(listing.format_table(rows, TABLE.parse_columns(columns), make_cell(how))), rows


FULL_SOON = {"full_first": "space", "full_at": NOW + 9.4 * DAY_S,
             "full_earliest": NOW + 6 * DAY_S, "full_latest": NOW + 23.9 * DAY_S}


def test_a_table_with_sums_for_each_kind_of_target():
    text, _ = table(a_target("MDT0000", 37), a_target("OST0006", 71),
                    a_target("OST0007", 93, **FULL_SOON))
    assert text == """\
Target               Size      Used    Avail UsePct IFree IUsePct  PerDay  FullIn             Range
--------------- --------- --------- -------- ------ ----- ------- ------- ------- -----------------
scratch-MDT0000 100.0 TiB  37.0 TiB 63.0 TiB   37 %   590    41 % 3.0 TiB       -                 -
scratch-OST0006 100.0 TiB  71.0 TiB 29.0 TiB   71 %   590    41 % 3.0 TiB       -                 -
scratch-OST0007 100.0 TiB  93.0 TiB  7.0 TiB   93 %   590    41 % 3.0 TiB ~9 days 6 days to 23 days
scratch OSTs    200.0 TiB 164.0 TiB 36.0 TiB   82 % 1,180    41 % 6.0 TiB       -                 -
"""


def test_notes_on_what_is_full_soon_and_on_what_is_uneven():
    _, rows = table(a_target("OST0006", 72), a_target("OST0007", 93, **FULL_SOON),
                    a_target("MDT0000", 1))
    [soon, uneven] = [" ".join(line.split()) for line in _whole(format_notes(rows, None))]
    assert soon.startswith("note: scratch-OST0007: space used up in ~9 days at the mean rate ")
    assert soon.endswith(" (6 days to 23 days at the rates of the fastest and the slowest day)")
    assert uneven == ("note: scratch: its OSTs are filled unevenly: scratch-OST0007 93 %, "
                      "scratch-OST0006 72 %")
    _, rows = table(a_target("OST0006", 74), a_target("OST0007", 93))
    assert [] == list(format_notes(rows, None))


def test_an_old_reading_is_noted():
    _, rows = table(a_target("OST0006", 74, time=NOW - 3601))
    [line] = _whole(format_notes(rows, None))
    assert line.startswith("note: scratch-OST0006: oss1 has not reported it since ")


def test_what_is_not_known_is_a_dash_and_nothing_grows_for_ever():
    unknown = dict.fromkeys(("bytes_per_day", "inodes_per_day"))
    text, _ = table(a_target("OST0006", 74, **unknown), a_target(
        "OST0007", 93, full_first="inodes", full_at=NOW + 40 * 60, full_earliest=NOW + 60,
        full_latest=None, bytes_per_day=-(1 << 30)), columns="Target,PerDay,FullIn,Range,FullOf")
    assert text == """\
Target            PerDay  FullIn         Range FullOf
--------------- -------- ------- ------------- ------
scratch-OST0006        -       -             - -
scratch-OST0007 -1.0 GiB ~40 min 60 s to never inodes
scratch OSTs           -       -             - -
"""


def test_programs_get_exact_values_and_no_sums():
    rows = build_rows({"time": NOW, "targets": [a_target("OST0006", 74), a_target(
        "OST0007", 93, **FULL_SOON)]}, with_sums=False)
    cell = make_cell(NumberForm(raw=True, has_commas=False))
    columns = TABLE.parse_columns("Target,Avail,UsePct,FullIn")
    lines = list(listing.format_parsable(rows, columns, cell))
    assert f"scratch-OST0006|{26 * TIB}|74.00|-\n" == lines[1]
    assert lines[2].startswith(f"scratch-OST0007|{7 * TIB}|93.00|20") and "~" not in lines[2]


def test_every_field_has_a_cell():
    text, _ = table(a_target("OST0006", 74), a_target("OST0007", 93, **FULL_SOON), columns="ALL")
    assert 5 == len(text.splitlines())


def _whole(lines):
    """Notes in one piece: lines of more than one begin with blanks."""
    return "\n".join(lines).replace("\n ", " ").split("\n") if lines else []
