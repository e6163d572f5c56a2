"""What commands say on standard error."""
import io
import sys

from iostats.cli.parser import print_message


class Pieces(io.StringIO):
    """What was written, piece by piece."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, text):
        self.pieces.append(text)
        return super().write(text)


def test_a_line_is_written_in_one_piece_with_its_end(monkeypatch):
    """Else what another thread says at the same moment is in the middle of it."""
    monkeypatch.setattr(sys, "stderr", Pieces())
    print_message("etcd is away\x1b[2J")
    assert ["iostats: etcd is away\\x1b[2J\n"] == [text for text in sys.stderr.pieces if text]
