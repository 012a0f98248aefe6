"""Files and numbers of a user in a session: what is read, compared, kept, said, and reproduced by the printed lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest
from config_fixtures import CASES, llama

import physics
from app import explain
from app.inputs import Inputs
from app.recipe import table_lines
from app.report import write
from app.session import PAGE_VIEWS, Session
from app.state import Choices, Explorer, from_query
from app.uploads import MOST_MODELS, read_machine_file, read_model
from physics.derive import DERIVED_COLUMNS
from physics.regimes import REGIMES

hv.extension("bokeh")
SHARED = Path(__file__).resolve().parents[2] / "shared" / "configs"
LLAMA = llama(4096, 32, 32, 14336, 128256, 8, model_type="llama")
MOE = next(case.config for case in CASES.values() if case.config["model_type"] == "qwen3_next")
MACHINES = "\n".join([
    "machine,quantity,value,unit,status,source,confidence,note",
    *(f"Chip,{words},used,our lab,read," for words in (
        "peak_bf16,1000,TFLOP/s", "peak_fp8,2000,TFLOP/s", "memory_capacity,300,GB", "memory_bandwidth,6,TB/s",
        "scale_up_bandwidth,500,GB/s", "scale_up_domain,64,accelerators")),
])  # fmt: skip


def sent(config: Any) -> bytes:
    return json.dumps(config).encode()


def inputs(**changes: Any) -> Inputs:
    explorer = Explorer()
    assert explorer.change(**changes) or not changes
    return Inputs(explorer, lambda: None)


# ---------------------------------------------------------------------------------------------------------------- reading
def test_a_model_is_compared_with_its_name() -> None:
    """Llama-3.1-8B: 32 layers of 2 x 8 heads x 128 x 2 B = 131,072 B of cache per token; 8.03e9 parameters (model card)."""
    read = read_model({"Llama-3.1-8B/config.json": sent(LLAMA)})
    assert read.model.name == "Llama-3.1-8B (your file)"
    assert read.sentence.startswith("**Llama-3.1-8B**: 8.03B total (its name says 8B), 8.03B active, 131 kB/token of KV, 32 layers.")
    facts = {symbol: (value, meaning) for symbol, value, meaning, _ in read.facts}
    assert facts["KV"][0] == "131.072 kB/token"
    assert "the name says 8B (+0.4%)" in facts["total"][1]


def test_a_name_that_is_wrong_is_said_in_bold() -> None:
    read = read_model({"Llama-70B/config.json": sent(LLAMA)})
    assert "(**but its name says 70B**)" in read.sentence
    assert any("70 B total parameters" in note for note in read.notes)


def test_the_neighbours_of_a_config_are_told_apart_by_what_they_hold() -> None:
    size = 2 * 8_030_261_248
    index = {"metadata": {"total_size": size}, "weight_map": {"a": "b"}}
    quant = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    plain = read_model({"a.json": sent(index), "b.json": sent(LLAMA)})
    assert any("Safetensors index" in note for note in plain.notes)
    quantised = read_model({"hf_quant_config.json": sent(quant), "config.json": sent(LLAMA), "tokenizer_config.json": b"{}"})
    assert quantised.model.weight_bytes() < 0.7 * plain.model.weight_bytes()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config.json": sent(LLAMA), "copy.json": sent(LLAMA)}, "give one of them"),
        ({"model.safetensors.index.json": sent({"weight_map": {}})}, "No config.json among the files"),
        ({f"{i}.json": sent({}) for i in range(9)}, "9 files were given"),
        ({"config.json": b"\x80\x04pickle"}, "config.json: not a text file in UTF-8"),
        ({"config.json": b"[" * 100_000}, "config.json: nested deeper"),
    ],
)
def test_files_that_do_not_fit_together(files: dict[str, bytes], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_model(files)


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/configs is not here")
def test_configs_as_people_have_them() -> None:
    """Every config of the shared folder is read, and agrees with its name within what names round."""
    for path in sorted(SHARED.glob("*.json")):
        read = read_model({path.name: path.read_bytes()})
        assert "but its name says" not in read.sentence, read.sentence


# ------------------------------------------------------------------------------------------------------------ in a session
def test_a_model_is_selected_and_everything_can_be_shown_and_explained() -> None:
    """Every page is built and every cell of the table is derived for a model and a machine that no catalog knows."""
    session = Session()
    session.sidebar.inputs.drop.receive([("Mine/config.json", sent(MOE))])
    session.sidebar.inputs.machines_drop.receive([("machines.csv", MACHINES.encode())])
    choices, s = session.explorer.choices, session.explorer.snapshot
    assert (choices.model, choices.machine) == ("Mine (your file)", "Chip (your file)")
    assert s.scenario.machine.memory_bytes == 3e11
    assert (session.sidebar.model.value, session.sidebar.machine.value) == (choices.model, choices.machine)
    assert session.shell.topbar.link_note.startswith("Link copied; it cannot carry your model nor your machine")
    assert session.shell.page.contextbar_open
    for view in PAGE_VIEWS:
        session.shell.show(view.name)
        assert not session.shell.pages[view.name]._failed, view.name
    for regime in REGIMES:
        for column in DERIVED_COLUMNS:
            explain.cell(s, regime, column)


def test_a_model_with_fewer_layers_than_the_pipe_has_stages() -> None:
    mine = inputs(pipeline_depth=60)
    mine.drop.receive([("Small/config.json", sent(LLAMA))])
    assert mine.drop.problem == ""
    assert mine.explorer.choices.model == "Small (your file)"
    assert mine.explorer.choices.pipeline_depth == 32


def test_what_is_refused_changes_nothing() -> None:
    mine = inputs()
    before = mine.explorer.snapshot
    for files in ([("config.json", b"{}")], [("x.bin", bytes(1000))], []):
        mine.drop.receive(files)
        assert mine.drop.problem
    mine.machines_drop.receive([("machines.csv", b"machine,quantity\nx,y\n")])
    assert "no column value" in mine.machines_drop.problem
    mine.form._handle_msg({"key": "memory_bytes", "typed": "-5 GB"})
    mine.form._handle_msg({"key": "memory_bytes", "typed": ""})
    assert mine.explorer.snapshot is before
    assert mine.explorer.models == {}
    errors = [field["error"] for field in mine.form.fields if field["error"]]
    assert errors == ["A machine needs its memory capacity: type a number such as 141 GB."]


def test_a_session_keeps_a_bounded_number_of_models() -> None:
    mine = inputs()
    for i in range(MOST_MODELS + 5):
        mine.drop.receive([(f"M{i}/config.json", sent(LLAMA))])
    assert len(mine.explorer.models) == MOST_MODELS
    assert f"M{MOST_MODELS + 4} (your file)" in mine.explorer.models


def test_own_numbers_prevail_and_go_back() -> None:
    """A number typed in the form prevails over the capacity slider; the same number as the machine's own is none."""
    mine = inputs(memory_bytes=1e11)
    mine.form._handle_msg({"key": "memory_bytes", "typed": "200 GB"})
    assert mine.explorer.snapshot.scenario.machine.memory_bytes == 2e11
    assert mine.explorer.choices.memory_bytes is None
    mine.form._handle_msg({"key": "peak_fp8", "typed": ""})
    assert "fp8" not in mine.explorer.snapshot.scenario.machine.peaks
    mine.form._handle_msg({"key": "memory_bytes", "typed": "141 GB"})
    assert mine.explorer.choices.own_machine == "peak_fp8=none"
    mine.form._handle_msg({"key": "name", "typed": "Next year's"})
    assert mine.explorer.snapshot.scenario.machine.name == "Next year's"
    assert from_query(mine.explorer.choices.query()) == (mine.explorer.choices, [])
    mine._own({}, "")
    assert mine.explorer.choices == Choices.of_preset(mine.explorer.choices.preset)
    assert mine.explorer.snapshot.scenario.machine == physics.load_machine("H200")


def test_a_sparse_peak_is_asked_about_in_the_form() -> None:
    mine = inputs()
    mine.form._handle_msg({"key": "peak_bf16", "typed": "1979 TFLOP/s"})
    assert "989 TFLOP/s of H200" in mine.question.text
    mine.form._handle_msg({"key": "peak_bf16", "typed": "989 TFLOP/s"})
    assert mine.question.text == ""


def test_another_machine_brings_its_own_numbers() -> None:
    session = Session()
    session.sidebar.inputs.form._handle_msg({"key": "peak_bf16", "typed": "1200 TFLOP/s"})
    assert session.explorer.choices.own_machine
    session.sidebar.machine.value = "B200"
    assert session.explorer.choices.own_machine == ""
    assert session.explorer.snapshot.scenario.machine == physics.load_machine("B200")


def test_the_printed_lines_make_the_same_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    model_file, machine_file = "it's\n mine.json", "'); import os #.csv"  # quoted, so that no name of a file can become code
    session.sidebar.inputs.drop.receive([(f"Mine/{model_file}", sent(MOE))])
    mine = session.explorer.choices.model
    session.sidebar.inputs.machines_drop.receive([(machine_file, MACHINES.encode())])
    session.sidebar.model.value = "DeepSeek-V3"
    session.sidebar.model.value = mine
    session.sidebar.inputs.form._handle_msg({"key": "memory_bytes_per_s", "typed": "7 TB/s"})
    (tmp_path / model_file).write_bytes(sent(MOE))
    (tmp_path / machine_file).write_text(MACHINES)
    monkeypatch.chdir(tmp_path)
    assert os.getcwd() == str(tmp_path)
    names: dict[str, Any] = {}
    exec(table_lines(session.explorer.snapshot), names)
    mine = session.explorer.snapshot.scenario
    assert names["s"].machine.memory_bytes_per_s == 7e12
    np.testing.assert_array_equal(physics.regimes(names["s"]).bytes, physics.regimes(mine).bytes)
    np.testing.assert_array_equal(physics.regimes(names["s"]).roofline_s, physics.regimes(mine).roofline_s)


def test_one_machines_file_at_a_time() -> None:
    with pytest.raises(ValueError, match=r"give one machines\.csv"):
        read_machine_file({"a.csv": b"", "b.csv": b""})


def test_names_stay_text_in_the_report(tmp_path: Path) -> None:
    """The offline file is HTML with data in scripts: a name that closes one, or opens a tag, does neither."""
    session, evil = Session(), "</script><script>window.pwned=1</script><img src=x onerror=alert(1)>"
    model = session.explorer.snapshot.scenario.model
    session.explorer.models[evil] = model.replace(name=evil)
    assert session.explorer.change(model=evil)
    session.sidebar.inputs.form._handle_msg({"key": "name", "typed": evil})
    write(tmp_path / "report.html", session.explorer.snapshot)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;img src=x" in text
    assert "<img src=x" not in text
    assert "<script>window.pwned" not in text
