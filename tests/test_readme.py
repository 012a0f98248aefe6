"""What the README says can be done as it says."""

import re
from pathlib import Path

import physics

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), names)
        assert isinstance(names["scenario"], physics.Scenario)


def test_both_commands_make_the_environment_and_use_the_constraints() -> None:
    commands = re.findall(r"```bash\n(.*?)\n```", README, flags=re.DOTALL)
    assert [command.rpartition("&& ")[2] for command in commands] == [".venv/bin/panel serve app", ".venv/bin/python -m app check"]
    for command in commands:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -c .ci/constraints.txt -e ")


def test_ci_runs_the_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert ".venv/bin/python -m app check" in script
    assert "-c .ci/constraints.txt -e '.[test]'" in script


def test_links_and_pictures_exist() -> None:
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_folder_of_the_table_exists() -> None:
    assert all((ROOT / folder).is_dir() for folder in re.findall(r"^\| `(\w+)/`", README, flags=re.MULTILINE))
