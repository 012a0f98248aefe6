"""Every notebook runs from start to end, and is kept without outputs."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import physics
from app.notebooks import executed

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_start_to_end(path: Path) -> None:
    notebook = executed(path)
    kinds = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert "application/vnd.holoviews_exec.v0+json" in kinds, "a notebook has a live cell"


@pytest.mark.notebook
def test_static_page_holds_its_pictures_and_asks_no_network(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "app", "notebooks", "kv_crossover", "--html", "-o", str(tmp_path)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "kv_crossover.html").read_text(encoding="utf-8")
    assert len(page) < 5e6
    assert "KV and state" in page, "a label of the picture"
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["']https?:""", markup)
    assert "<h1>How deep should the pipe be" in page
    assert "Takeaway" in page


def test_unknown_notebook_is_one_sentence() -> None:
    words = [sys.executable, "-m", "app", "notebooks", "nonsense"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("notebooks: 'nonsense' is not one of expert_coincidence, four_regimes")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_opens_with_a_question_and_closes_with_the_takeaway(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert re.match(r"# .*\?\n", cells[0].source)
    assert cells[-1].source.startswith("> **Takeaway.**")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_uses_only_the_public_core_and_the_pictures_of_the_app(path: Path) -> None:
    code = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    assert not re.findall(r"(?:from|import) physics\.", code)
    names = set(re.findall(r"physics\.(\w+)", code))
    assert names <= set(physics.__all__), names - set(physics.__all__)
    assert set(re.findall(r"from (app[\w.]*) import", code)) <= {"app", "app.jupyter", "app.plots", "app.state", "app.report"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]
