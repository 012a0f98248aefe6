"""The command line: `python -m app COMMAND`.

A command is a module `app/<name>.py` with `add_arguments(parser)` and `run(arguments) -> exit code`, and a line in COMMANDS.
Only the module of the command that was asked for is imported, so a missing optional package concerns no other command.
"""

from __future__ import annotations

import argparse
import importlib
import sys

COMMANDS = {
    "calibrate": "fit efficiencies to measured kernels and serving runs, and write them to data/",
    "report": "write one offline HTML file whose sliders still work",
    "notebooks": "run the notebooks; --html writes them as static pages",
    "check": "run what continuous integration runs: lint, types, import contracts, tests",
}


def build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """Parser that knows all commands by name and the options of the chosen one."""
    parser = argparse.ArgumentParser(
        prog="python -m app", description="Midfill from the command line. The explorer itself: panel serve app"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:
            importlib.import_module(f"app.{name}").add_arguments(command)
    return parser


def main(words: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        print(f"Midfill needs Python 3.11 to 3.13; this is {sys.version.split()[0]} ({sys.executable}).", file=sys.stderr)
        return 2
    words = sys.argv[1:] if words is None else words
    arguments = build_parser(words[0] if words else None).parse_args(words)
    return int(importlib.import_module(f"app.{arguments.command}").run(arguments))


if __name__ == "__main__":
    sys.exit(main())
