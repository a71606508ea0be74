"""Files that `script` runs or refuses by their kind, and how a command chooses among them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from benchorch.cli.arguments import is_script
from benchorch.cli.commands import script
from benchorch.errors import ConfigError
from benchorch.frontends.scripts.discover import Script, unreadable
from benchorch.models.notebook import _python, code_cells, run_notebook


def scripts_of(words: list[str]) -> list[Script]:
    """The scripts that the command line names."""
    with script.run.make_context("script", list(words)) as context:
        own = {field.name for field in fields(script.Options)}
        options = {name: value for name, value in context.params.items() if name in own}
        behind = context.meta["::"]
        return script.parse(context.params["words"], behind, script.Options(**options))[0]


def notebook(path: Path, *cells: str) -> Path:
    content = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "#"}, *content]}))
    return path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("weights.pt", "a .pt file holds weights or pickled objects, which are not run"),
        ("weights.pth", "a .pth file holds weights"),
        ("notes.txt", "its type is .txt; expected a script (.py), a notebook (.ipynb)"),
        ("recipe.yaml", "it is a configuration; a recipe runs without the word script"),
        ("broken.ipynb", "it cannot be read as a notebook: "),
    ],
)
def test_other_files_are_refused_by_their_kind(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / name).write_text("print('never run')")
    assert unreadable(tmp_path / name).startswith(reason)


@pytest.mark.parametrize("name", ["endless.py", "endless.ipynb", "endless.onnx", "endless"])
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(5 * 2**30)
    assert unreadable(tmp_path / name).startswith("it has more than ")


def test_a_file_without_a_suffix_is_a_script(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/usr/bin/env python\nprint(1)\n")
    assert unreadable(tmp_path / "train") == ""


def test_a_notebook_runs_its_code_cells_without_magics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    cells = (
        "%matplotlib inline\n!pip list\na = 1\na?\nif a:\n    print??",
        "%%bash\nexit 1",
        "%%time\nb = a + 1",
        "%timeit -n 10 -r1 b = a + 2\nfiles = !ls\nif b:\n    %time c = b",
        "import asyncio\nasync def f():\n    return 7\nd = await f()\ndisplay(d)",
    )
    path = notebook(tmp_path / "nb.ipynb", *cells)
    assert unreadable(path) == ""
    variables = run_notebook(path)
    assert (variables["a"], variables["b"], variables["c"]) == (1, 3, 3)
    assert (variables["files"], variables["d"]) == ([], 7)
    assert [name.removeprefix(str(path)) for name, _ in code_cells(path)] == [
        ", cell 2",
        ", cell 3",
        ", cell 4",
        ", cell 5",
        ", cell 6",
    ]


@pytest.mark.parametrize(
    "python",
    [
        "text = (\n    'a %s'\n    % name\n)",
        "text = \\\n    'a %s' \\\n    % name",
        'text = """\n% loss\n! careful\nhelp?\n"""',
        'text = f"""\n% {loss}\n! careful\nhelp?\n"""',
        "text = [  # (\n    3\n    % 2\n]",
    ],
)
def test_lines_inside_brackets_and_strings_are_no_magics(tmp_path: Path, python: str) -> None:
    path = notebook(tmp_path / "nb.ipynb", f"%matplotlib inline\n{python}\n!ls\nif text:\n    %cd")
    assert unreadable(path) == ""
    ((_, code),) = code_cells(path)
    assert code == f"pass\n{python}\npass\nif text:\n    pass"


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("!pip install -q \\\n    torch \\\nnumpy\na = 1", "pass\n\n\na = 1"),
        (
            "if a:\n    out = !ls \\\n -l\n    b = (\n  %time",
            "if a:\n    out = []\n\n    b = (\n  %time",
        ),
        ("%time a = 1 + \\\n    2\n!ls\nb = 2", "a = 1 + \\\n    2\npass\nb = 2"),
        ("\n  \n%%bash\nls -l", ""),
        ("\n%%time\na = 1", "\npass\na = 1"),
    ],
)
def test_a_command_ends_where_ipython_ends_it(cell: str, python: str) -> None:
    assert _python(cell) == python


def test_a_notebook_of_another_language_is_refused_by_it(tmp_path: Path) -> None:
    path = notebook(tmp_path / "nb.ipynb", "x <- 3")
    content = json.loads(path.read_text()) | {"metadata": {"kernelspec": {"language": "R"}}}
    path.write_text(json.dumps(content))
    assert unreadable(path) == "it cannot be read as a notebook: its language is r"


def test_a_module_of_a_package_is_run_as_one_where_it_imports_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from benchorch.models.script_run import run_script
    from benchorch.models.script_watch import Watch

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    inner = tmp_path / "mypackage22" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").touch()
    (inner / "__init__.py").touch()
    (inner.parent / "nets.py").write_text("import torch\nnet = torch.nn.Linear(2, 2)\n")
    script = inner / "train.py"
    script.write_text(
        "import sys, torch\nfrom ..nets import net\n"
        "if __name__ == '__main__':\n    net(torch.ones(1, 2))\n    words = sys.argv[1:]\n"
    )
    watch = Watch(0, lambda _: None)
    variables = run_script(script, ["--epochs", "1"], watch, 0)
    assert variables["words"] == ["--epochs", "1"]
    assert [model.name for model in watch.models] == ["net"]


def test_a_module_beside_a_script_comes_before_others_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from benchorch.models.script_run import run_script
    from benchorch.models.script_watch import Watch

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for folder in ("others", "own"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "beside_it22.py").write_text(f"WHOSE = '{folder}'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "others"), *sys.path, str(tmp_path / "own")])
    script = tmp_path / "own" / "train.py"
    script.write_text("from beside_it22 import WHOSE\n")
    assert run_script(script, [], Watch(0, lambda _: None), 0)["WHOSE"] == "own"


def test_a_cell_that_is_not_python_is_named_with_its_line(tmp_path: Path) -> None:
    path = notebook(tmp_path / "nb.ipynb", "a = 1", "b = 1\nif")
    assert unreadable(path) == "it is not Python: invalid syntax, cell 3, line 2"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder, author in (("a", "me,you"), ("b", "you"), ("c", "other")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(f"# labels: author::{author} task::toy\n")
    return tmp_path


def test_labels_choose_among_scripts_and_names_that_are_alike_get_their_folders(
    corpus: Path,
) -> None:
    scripts = scripts_of(["*/train.py", "--labels", "author::me,you", "--labels", "task::toy"])
    assert [one.title for one in scripts] == ["a/train.py", "b/train.py"]
    (alone,) = scripts_of(["a/train.py"])
    assert (alone.title, alone.place) == ("", "train.py")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["author"], "--labels: expected key::value, got 'author'."),
        (["author::nemo"], "--labels: no script has author::nemo on its first line."),
    ],
)
def test_labels_that_choose_nothing_are_refused(
    corpus: Path, words: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        scripts_of(["*/train.py", *(part for word in words for part in ("--labels", word))])
    assert refused.value.problems == (problem,)


@pytest.mark.parametrize("words", [["a/train.py", "::", "--n", "3"], ["a/train.py::", "--n", "3"]])
def test_arguments_after_two_colons_are_the_scripts_own(corpus: Path, words: list[str]) -> None:
    (found,) = scripts_of(words)
    assert found.arguments == ("--n", "3")
    assert found.path == corpus / "a" / "train.py"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("x.py", True), ("x.py::abc", True), ("nb.ipynb", True), ("plan", False), ("r.yaml", False)],
)
def test_a_script_needs_no_command_before_it(word: str, expected: bool) -> None:
    assert is_script(word) is expected


def test_the_report_of_a_corpus_that_goes_on_is_of_the_run_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    directory, words = script._with_directory(["model=mlp", f"resume={tmp_path}"])
    assert directory == tmp_path
    assert words == ["model=mlp", f"resume={tmp_path}"]
