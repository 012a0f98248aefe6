"""Readers of request traces: forms, shares within a conversation, and files that are not what they say."""

from __future__ import annotations

import gzip
import json
import pickle
import time

import numpy as np
import pytest

from physics import readers
from physics.readers import UnreadableFileError
from physics.trace_readers import read_trace
from physics.traces import Trace
from tests.trace_fixtures import AGENTIC, shared, small_trace

OWN = b"""conversation,turn,time_s,input_tokens,cached_tokens,new_tokens,output_tokens
a,0,10,1000,0,1000,50
b,0,11,4000,0,4000,5
a,1,15,1600,1000,600,70
a,2,30,2600,1600,1000,10
"""


def test_own_form_with_every_column() -> None:
    trace = read_trace(OWN, "own.csv")
    assert (len(trace), trace.n_conversations, trace.relative) == (4, 2, False)
    assert trace.time_s.tolist() == [10, 11, 15, 30]
    assert trace.prefix_tokens.tolist() == [0, 0, 1000, 1600]
    np.testing.assert_array_equal(trace.idle_s, [np.nan, np.nan, 5, 15])
    assert trace.hit_frac == pytest.approx(2600 / 9200)
    assert trace.notes == ()
    assert trace.percentiles().loc["input_tokens", "p50"] == 2100


def test_cached_tokens_follow_from_new_ones_or_from_the_turn_before() -> None:
    without_cached = b"session,t,input,new,output\nx,0,100,100,7\nx,3,180,73,1\n"
    assert read_trace(without_cached).prefix_tokens.tolist() == [0, 107]
    append_only = read_trace(b"session,t,input,output\nx,0,100,7\nx,3,180,1\ny,4,50,1\n")
    assert append_only.prefix_tokens.tolist() == [0, 107, 0]
    assert "whole context of the turn before" in append_only.notes[0]


def test_any_csv_with_a_mapping() -> None:
    text = b"who;x\n1;2\n"
    with pytest.raises(UnreadableFileError, match="it needs time"):
        read_trace(text)
    odd = b"Who,When,In,Hit,Out\nq,2024-05-01 10:00:00,10,0,1\nq,2024-05-01 10:00:30.5,12,10,1\n"
    mapping = {"conversation": "Who", "time_s": "When", "input_tokens": "In", "prefix_tokens": "Hit", "output_tokens": "Out"}
    trace = read_trace(odd, columns=mapping)
    assert trace.time_s.tolist() == [0, 30.5]
    assert trace.prefix_tokens.tolist() == [0, 10]
    with pytest.raises(UnreadableFileError, match="no column 'nothere'"):
        read_trace(odd, columns={"input_tokens": "nothere"})
    with pytest.raises(UnreadableFileError, match="no meaning of a column"):
        read_trace(odd, columns={"tokens": "In"})


def test_azure_form_has_no_conversations() -> None:
    text = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    trace = read_trace(text)
    assert trace.prefix_tokens.tolist() == [0, 0]
    assert trace.time_s[1] == pytest.approx(4.314579, abs=1e-6)
    assert "no request shares anything" in trace.notes[-1]


def test_milliseconds_by_name_and_a_missing_output() -> None:
    trace = read_trace(b"timestamp_ms,prompt_tokens\n0,5\n1500,6\n")
    assert trace.time_s.tolist() == [0, 1.5]
    assert "decode counts nothing" in trace.notes[0]


def _jsonl(*rows: tuple[float, int, int, list[int]]) -> bytes:
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    return "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows).encode()


def test_block_hashes_share_what_they_share() -> None:
    trace = read_trace(_jsonl((0, 1000, 5, [1, 2]), (1000, 1500, 5, [1, 2, 3]), (2000, 1024, 5, [1, 9]), (3000, 600, 1, [7, 8])))
    assert trace.prefix_tokens.tolist() == [0, 1000, 512, 0]
    assert trace.time_s.tolist() == [0, 1, 2, 3]
    blobs = trace.blobs
    assert blobs.depth == 3  # block 1, the rest of the first request, and what the second adds
    assert set(blobs.start.tolist()) == {0, 512, 1000}
    assert read_trace(_jsonl((0, 20, 1, [4, 5])), block_tokens=16).prefix_tokens.tolist() == [0]


def test_branches_share_their_prefix_once() -> None:
    """A branch at 4,000 tokens of a context of 9,000: 9,000 + 3,000 tokens are held, not 9,000 + 7,000."""
    trace = small_trace([(0, 0, 0, 9000, 0, 0), (0, 1, 1, 7000, 4000, 0), (0, 0, 2, 9500, 9000, 0)])
    blobs = trace.blobs
    size: dict[int, float] = {}
    for leaf, end in zip(blobs.leaf.tolist(), blobs.held_tokens.tolist(), strict=True):
        while leaf >= 0:
            size[leaf] = max(size.get(leaf, 0.0), end - blobs.start[leaf])
            leaf, end = int(blobs.parent[leaf]), float(blobs.start[leaf])
    assert sum(size.values()) == 9500 + 3000


def test_an_edit_departs_from_where_it_edits_and_may_be_undone() -> None:
    trace = small_trace([(0, 0, 0, 50_000, 0, 100), (0, 0, 1, 20_000, 10_000, 0), (0, 0, 2, 51_000, 50_000, 0)])
    assert trace.prefix_tokens.tolist() == [0, 10_000, 50_000]
    assert len(trace.strand_parent) >= 2
    assert trace.notes == ()


def test_a_prefix_nobody_left_behind_counts_as_new_and_is_named() -> None:
    trace = small_trace([(0, 0, 0, 100, 60, 20), (0, 0, 1, 500, 400, 0)])
    assert trace.prefix_tokens.tolist() == [0, 120]
    assert "were left by no earlier request" in trace.notes[0]


def test_conversations_that_restart_the_clock_get_starts() -> None:
    rows = b"conv,sub,idx,t,input,prefix_hit,output\n" + b"".join(
        b"%d,0,0,0,100,0,1\n%d,0,1,30,150,100,1\n%d,1,0,0,40,0,1\n" % (i, i, i) for i in range(5)
    )
    trace = read_trace(rows)
    assert trace.relative
    branch = trace.time_s[trace.input_tokens == 40]
    assert (branch == 30).all()  # the branch stands in the file after the turn at 30 s
    moved = trace.started(100.0, seed=3)
    assert not moved.relative
    assert (np.diff(moved.time_s) >= 0).all()
    assert np.allclose(np.nan_to_num(np.sort(moved.idle_s)), np.nan_to_num(np.sort(trace.idle_s)))
    with pytest.raises(ValueError, match="interval_s"):
        trace.started(0.0)


def test_agentic_trace_as_described() -> None:
    """98 % above 4k cached, 90 % appending 50 to 5,000; the 10 % that append more carry 79 % of new tokens, 44 points above 4k."""
    trace = shared(AGENTIC)
    prefix, new = trace.prefix_tokens, trace.new_tokens
    typical = (prefix > 4096) & (new >= 50) & (new <= 5000)
    large = new > 5000
    assert (prefix > 4096).mean() == pytest.approx(0.98, abs=0.005)
    assert typical.mean() == pytest.approx(0.90, abs=0.005)
    assert large.mean() == pytest.approx(0.10, abs=0.005)
    assert new[large].sum() / new.sum() == pytest.approx(0.79, abs=0.005)
    assert new[large & (prefix > 4096)].sum() / new.sum() == pytest.approx(0.44, abs=0.005)


# ------------------------------------------------------------------------------------------------------------ hostile files
class _Boom:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('executed')",)


HOSTILE = {
    "empty": b"",
    "blank": b" \n\n",
    "pickle": pickle.dumps(_Boom()),
    "binary": bytes(range(256)) * 40,
    "html": b"<html><body>not found</body></html>",
    "header only": b"time_s,input_tokens,output_tokens\n",
    "letters": b"time_s,input_tokens,output_tokens\n0,many,1\n",
    "negative": b"time_s,input_tokens,output_tokens\n0,-5,1\n",
    "nan": b"time_s,input_tokens,output_tokens\n0,nan,1\n",
    "infinite": b"time_s,input_tokens,output_tokens\n0,inf,1\n",
    "halves": b"time_s,input_tokens,output_tokens\n0,1.5,1\n",
    "huge": b"time_s,input_tokens,output_tokens\n0,1e30,1\n",
    "time": b"time_s,input_tokens,output_tokens\nnoon,5,1\n",
    "more cached than sent": b"time_s,input_tokens,cached_tokens,output_tokens\n0,5,6,1\n",
    "more new than sent": b"time_s,input_tokens,new_tokens,output_tokens\n0,5,6,1\n",
    "ragged": b"time_s,input_tokens\n0,5,1,1,1\n1,2,3\n",
    "twice": b"time_s,time_s,input_tokens\n0,0,5\n",
    "other table": b"name,price\napple,3\n",
    "time runs back": b"conversation,turn,time_s,input_tokens,output_tokens\na,0,9,5,1\na,1,2,9,1\n",
    "json array": b"[1, 2, 3]",
    "json broken": b'{"timestamp": 0, "input_length"',
    "json text": b'{"timestamp": "x", "input_length": 5, "output_length": 1, "hash_ids": [1]}',
    "json booleans": b'{"timestamp": 0, "input_length": true, "output_length": 1, "hash_ids": [1]}',
    "json lacks": b'{"timestamp": 0}',
    "json hashes": b'{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [[1]]}',
    "json few hashes": b'{"timestamp": 0, "input_length": 5000, "output_length": 1, "hash_ids": [1]}',
    "json deep": b'{"timestamp": ' + b"[" * 100_000,
    "json nan": b'{"timestamp": NaN, "input_length": 5, "output_length": 1, "hash_ids": [1]}',
    "json huge": b'{"timestamp": 0, "input_length": 1' + b"0" * 5000 + b', "output_length": 1, "hash_ids": [1]}',
    "gzip cut": gzip.compress(OWN)[:-9],
    "gzip damaged": b"\x1f\x8b" + b"junk" * 20,
    "zip": b"PK\x03\x04" + b"\0" * 40,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_gets_one_sentence(kind: str) -> None:
    start = time.perf_counter()
    with pytest.raises(UnreadableFileError) as caught:
        read_trace(HOSTILE[kind], "upload")
    sentence = str(caught.value)
    assert sentence.startswith("upload")
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert "Traceback" not in sentence
    assert time.perf_counter() - start < 5.0


def test_a_gzip_bomb_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    monkeypatch.setattr("physics.trace_readers.MAX_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(UnreadableFileError, match="MiB unpacked"):
        read_trace(bomb)


def test_too_large_and_missing_files(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_FILE_BYTES", 10)
    with pytest.raises(UnreadableFileError, match="at most"):
        read_trace(OWN)
    with pytest.raises(UnreadableFileError, match="no such file"):
        read_trace(f"{tmp_path}/none.csv")


def test_too_many_requests_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("physics.trace_readers.MAX_REQUESTS", 3)
    with pytest.raises(UnreadableFileError, match="4 requests, and at most 3"):
        read_trace(OWN)
    monkeypatch.setattr("physics.trace_readers.MAX_BLOCKS", 1)
    with pytest.raises(UnreadableFileError, match="2 hashed blocks"):
        read_trace(_jsonl((0, 1000, 5, [1, 2])))


def test_shuffled_rows_give_the_same_trace() -> None:
    lines = OWN.splitlines(keepends=True)
    mixed = read_trace(lines[0] + lines[4] + lines[2] + lines[3] + lines[1])
    plain = read_trace(OWN)
    assert mixed.time_s.tolist() == plain.time_s.tolist()
    assert mixed.prefix_tokens.tolist() == plain.prefix_tokens.tolist()


def test_packed_equals_plain() -> None:
    packed: Trace = read_trace(gzip.compress(OWN))
    assert packed.input_tokens.tolist() == read_trace(OWN).input_tokens.tolist()
