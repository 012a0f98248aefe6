"""`python -m app notebooks`: run the notebooks from start to end; with --html, write each as one static page, pictures inside."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

ROOT = Path(__file__).resolve().parents[1]
STATIC = Path(__file__).parent / "static"
SECONDS = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of notebooks without .ipynb; all where none is given")
    parser.add_argument("--html", action="store_true", help="write static pages that need no network and no Python")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("notebooks_html"), metavar="FOLDER", help="where to (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the notebooks; 2 with one sentence where that cannot start, 1 where one fails."""
    missing = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"notebooks: {sys.executable} lacks {', '.join(missing)}; install with `python -m pip install -e '.[test]'`", file=sys.stderr)
        return 2
    known = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        print(f"notebooks: {unknown[0]!r} is not one of {', '.join(known)}", file=sys.stderr)
        return 2
    failed = [path.stem for name, path in known.items() if name in (arguments.names or known) and not _done(path, arguments)]
    if failed:
        print(f"notebooks: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _done(path: Path, arguments: argparse.Namespace) -> bool:
    from nbclient.exceptions import CellExecutionError

    start = time.monotonic()
    try:
        notebook = executed(path, pictures=arguments.html)
    except CellExecutionError as problem:
        print(f"{path.name}: {str(problem).strip().splitlines()[-1]}", file=sys.stderr)
        return False
    written = ""
    if arguments.html:
        arguments.output.mkdir(parents=True, exist_ok=True)
        target = arguments.output / f"{path.stem}.html"
        target.write_text(page(notebook, path.stem), encoding="utf-8")
        written = f" → {target}, {target.stat().st_size / 1e6:.1f} MB"
    print(f"{path.name}: {time.monotonic() - start:.0f} s{written}", flush=True)
    return True


def executed(path: Path, pictures: bool = False) -> Any:
    """A notebook run from start to end, its outputs inside. pictures: as Bokeh documents, in place of live ones."""
    import nbformat
    from nbclient import NotebookClient

    from app.jupyter import ASKED

    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}})
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    client.execute(env=os.environ | {"PYTHONPATH": paths} | ({ASKED: "json"} if pictures else {}))
    return notebook


# ---------------------------------------------------------------------------------------------------------------------- page
def page(notebook: Any, name: str) -> str:
    """An executed notebook as one HTML file."""
    from bokeh.resources import Resources

    cells = [list(_parts(cell)) for cell in notebook.cells]
    pictures = [part["pictures"] for cell in cells for part in cell if "pictures" in part]
    loader = Environment(loader=FileSystemLoader(STATIC), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    loader.policies["json.dumps_kwargs"] = {"sort_keys": False}  # Bokeh names a model where it first appears
    library = [Markup(text) for text in Resources(mode="inline", components=["bokeh"]).js_raw]
    return str(loader.get_template("notebook.html").render(title=name.replace("_", " "), cells=cells, library=library, pictures=pictures))


def _parts(cell: Any) -> Iterator[dict[str, Any]]:
    """What a cell shows, in order: dictionaries with one of markdown, code, html, text, pictures."""
    if cell.cell_type == "markdown":
        yield {"html": Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(cell.source))}
        return
    if "setup" in cell.metadata.get("tags", []):
        return
    yield {"code": cell.source}
    for output in cell.get("outputs", []):
        yield from _output(output)


def _output(output: Any) -> Iterator[dict[str, Any]]:
    from app.jupyter import MIME

    data = output.get("data", {})
    if MIME in data:
        yield {"pictures": data[MIME]}
    elif "text/html" in data:
        yield {"html": Markup(data["text/html"])}  # tables of the notebook's own frames
    elif "text/plain" in data or output.get("text"):
        yield {"text": data.get("text/plain") or output["text"]}
