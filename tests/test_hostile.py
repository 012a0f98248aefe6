"""Inputs made to break things: a value or one sentence, in bounded time and memory, nothing executed, nothing written, state kept.

The cases come from `hostile_corpus`, 1,500 of them from one seed, and from hypothesis.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hostile_corpus as hostile
import pytest
from hypothesis import given
from hypothesis import strategies as st

import physics
from app.components import CardHead, DataTable, Headline, SidePanel, TopBar
from app.forms import FileDrop, NumberForm
from app.inputs import Inputs
from app.quantities import parse_quantity
from app.recipe import table_lines
from app.state import Explorer, from_query
from app.uploads import read_machine_file, read_model
from app.widgets import Slider, count_stops

LONGEST = 400
SEED = 20261129
CASES = 150

_watching = False
_seen: list[str] = []
FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "pickle.", "urllib.")
FORBIDDEN += ("os.remove", "os.rename", "os.mkdir", "shutil.")


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = any(letter in str(mode or "") for letter in "wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and "__pycache__" not in str(path):  # compiled code of the program itself
            _seen.append(f"{event} {path}")
    elif event.startswith(FORBIDDEN):
        _seen.append(event)


sys.addaudithook(_audit)


@contextmanager
def nothing_executed_nothing_written() -> Iterator[None]:
    """Python's own audit events: no process, no socket, no pickle, no file opened for writing."""
    global _watching
    _seen.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False
    assert _seen == []


def sentence(problem: str) -> None:
    """One sentence of bounded length that a person can read."""
    assert 8 <= len(problem) <= LONGEST, problem[:1000]
    assert "\n" not in problem
    assert not any(word in problem for word in ("Traceback", "object at 0x", "Errno", "NoneType", "unhashable"))


def outcome(read: Callable[[], Any]) -> Any:
    """What is read, or None with its sentence checked; another kind of exception fails the test."""
    start = time.process_time()
    try:
        return read()
    except UnicodeError:
        raise
    except (ValueError, KeyError) as problem:
        sentence(str(problem.args[0]))
        return None
    finally:
        assert time.process_time() - start < 3.0


READERS: dict[str, Callable[[random.Random], Any]] = {
    "configs": lambda rng: read_model(hostile.config_files(rng)),
    "counts": lambda rng: physics.read_routing(hostile.csv_file(rng, ("layer", "expert", "assignments"), 12), "c.csv"),
    "choices": lambda rng: physics.read_routing(hostile.csv_file(rng, ("request", "token", "layer", "expert_1", "expert_2"), 12), "t.csv"),
    "arrays": lambda rng: physics.read_routing(hostile.array_file(rng), "t.npz"),
    "requests": lambda rng: physics.read_trace(
        hostile.csv_file(rng, ("time", "input_tokens", "output_tokens", "conversation"), 12), "r.csv"
    ),
    "hashes": lambda rng: physics.read_trace(hostile.jsonl_file(rng), "r.jsonl"),
    "machines": lambda rng: read_machine_file({"machines.csv": hostile.machine_file(rng)}),
    "other kinds": lambda rng: rng.choice(
        (
            lambda c: physics.read_routing(c, "x"),
            lambda c: physics.read_trace(c, "x"),
            lambda c: read_model({"x": c}),
            lambda c: read_machine_file({"x": c}),
        )
    )(hostile.bytes_of(rng)),
    "typed": lambda rng: parse_quantity(hostile.typed(rng), rng.choice(("tokens", "B", "FLOP/s", "$/h", "%", "")), 1.0, 1e6),
}


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compiled loops write their cache at first use; that is no reader's doing."""
    physics.warm_up()
    rng = random.Random(1)
    for read in READERS.values():
        outcome(lambda read=read: read(rng))


@pytest.mark.parametrize("kind", READERS)
def test_files_and_text_give_a_value_or_a_sentence(kind: str) -> None:
    rng = random.Random(f"{SEED} {kind}")
    with nothing_executed_nothing_written():
        read = [outcome(lambda: READERS[kind](rng)) for _ in range(CASES)]
    refused = sum(value is None for value in read)
    assert refused > 0
    assert kind == "other kinds" or refused < CASES, "a corpus of which nothing is read tests one refusal only"


def test_addresses_give_choices_and_notices() -> None:
    rng = random.Random(f"{SEED} addresses")
    with nothing_executed_nothing_written():
        for _ in range(CASES):
            choices, notices = from_query(hostile.address(rng))
            choices.scenario()
            for notice in notices:
                sentence(notice)


def test_an_address_of_twenty_thousand_fields_is_short_work() -> None:
    start = time.process_time()
    choices, notices = from_query("?" + "&".join(f"batch{i}=1" for i in range(20_000)) + "&batch=3")
    assert time.process_time() - start < 5
    assert choices.scenario()
    assert len(" ".join(notices)) < 500_000


def test_choices_that_no_control_sends_leave_the_state() -> None:
    rng, explorer = random.Random(f"{SEED} changes"), Explorer()
    with nothing_executed_nothing_written():
        for _ in range(2 * CASES):
            before, choices = explorer.snapshot, explorer.choices
            if not explorer.change(**hostile.changes(rng)):
                sentence(explorer.problem)
                assert explorer.snapshot is before
                assert explorer.choices is choices
            else:
                explorer.snapshot.results  # noqa: B018
                hash(explorer.choices)
                from_query(explorer.choices.query())


def components() -> list[Any]:
    slider = Slider(label="Batch size", unit="requests", stops=count_stops(1, 64), value=8)
    drop = FileDrop(label="config.json", limit_bytes=1000)
    drop.on_files(lambda files: read_model(files))
    form = NumberForm(label="Numbers", fields=[{"key": "name", "label": "Name"}])
    head = CardHead(title="One", tools=["csv"])
    return [slider, drop, form, head, Headline(), TopBar(), SidePanel(), DataTable()]


def test_messages_from_a_browser_in_other_hands() -> None:
    rng, made = random.Random(f"{SEED} messages"), components()
    for component in made:
        component._send_msg = lambda _message: None
    with nothing_executed_nothing_written():
        for _ in range(4 * CASES):
            rng.choice(made)._handle_msg(hostile.message(rng))
    slider, drop = made[:2]
    assert 1 <= slider.value <= 64
    assert sum(len(content) for _, _, content in drop._coming) <= 1000 + 2**20


@given(st.text(max_size=200))
def test_any_text_typed_at_a_slider(text: str) -> None:
    slider = Slider(label="Batch size", unit="requests", stops=count_stops(1, 64), value=8)
    if not slider.read(text):
        sentence(slider.error)
        assert slider.value == 8


@given(st.binary(max_size=400))
def test_any_bytes_as_any_file(content: bytes) -> None:
    for read in (
        lambda: physics.read_routing(content, "x"),
        lambda: physics.read_trace(content, "x"),
        lambda: read_model({"config.json": content}),
        lambda: read_machine_file({"machines.csv": content}),
    ):
        outcome(read)


# ------------------------------------------------------------------------------------------------------------ size and time
def peak_bytes(read: Callable[[], Any]) -> int:
    """Most memory a reader asked for at once, by Python's own count [B]."""
    tracemalloc.start()
    try:
        assert outcome(read) is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_archive_that_unpacks_to_a_gigabyte_is_refused_unopened() -> None:
    content = hostile.bomb(2**30)
    assert len(content) < 2 * 2**20
    assert peak_bytes(lambda: physics.read_routing(content, "bomb.npz")) < 16 * 2**20


def test_uploads_of_100_mib_are_refused_unread() -> None:
    content = bytes(100 * 2**20)
    for read in (
        lambda: physics.read_routing(content, "x.csv"),
        lambda: physics.read_trace(content, "x.csv"),
        lambda: read_model({"config.json": content}),
        lambda: read_machine_file({"machines.csv": content}),
    ):
        assert peak_bytes(read) < 2**20


def test_a_few_lines_cannot_ask_for_gigabytes() -> None:
    rows = "\n".join(f"{layer},16383,1" for layer in range(4096))
    assert peak_bytes(lambda: physics.read_routing(f"layer,expert,assignments\n{rows}".encode(), "x.csv")) < 16 * 2**20


def test_a_drop_counts_what_arrives() -> None:
    drop = FileDrop(label="config.json", limit_bytes=1000)
    drop._send_msg = lambda _message: None
    drop._handle_msg({"begin": [["a.json", 2000]]})
    assert "at most 1 MiB are read" in drop.problem
    drop._handle_msg({"begin": [["a.json", 3]]})
    drop._handle_msg({"file": 0, "piece": "AAAAAAAA"})
    assert drop.problem == "More arrived than was announced: give the file again."
    drop._handle_msg({"begin": [["a.json", 3]]})
    drop._handle_msg({"end": True})
    assert drop.problem == "The file did not arrive whole: give it again."


# -------------------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize("name", [word for word in hostile.WORDS if word.isprintable()][:14])
def test_a_hostile_name_is_shown_as_text_and_nothing_else(name: str) -> None:
    """From the file to the select, sentences, the side panel, code lines and the address: no bold, no formula, no line break."""
    explorer = Explorer()
    inputs = Inputs(explorer, lambda: None)
    shown: list[Any] = []
    inputs.show_panel = lambda title, blocks: shown.append((title, blocks))
    config = dict(hostile.CONFIGS[0], _name_or_path=f"someone/{name}")
    inputs.drop.receive([("config.json", json.dumps(config).encode())])
    assert inputs.drop.problem == ""
    called = explorer.choices.model
    assert called.endswith(" (your file)")
    assert "**" not in called
    assert called[0] not in "=+-@"
    assert inputs.said.text.count("**") == 2
    assert shown[0][0] == called
    again, notices = from_query(explorer.choices.query())
    assert again.model == "DeepSeek-V3"
    assert "a link cannot carry" in notices[0]
    compile(table_lines(explorer.snapshot), "lines", "exec")
