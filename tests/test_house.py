"""The rules of the house: who may import whom, names that documents promise, code that the README shows."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sumopt

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "sumopt").rglob("*.py"))


def imported(path):
    """Top-level names of the packages that a file imports, with `sumopt.` names to two levels."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return {".".join(name.split(".")[:2]) if name.startswith("sumopt") else name.split(".")[0] for name in names}


@pytest.mark.parametrize("path", [p for p in SOURCES if p.parent.name == "core"], ids=lambda p: p.name)
def test_core_imports_numpy_scipy_and_itself(path):
    allowed = {"numpy", "scipy", "sumopt.core", *sys.stdlib_module_names}
    assert imported(path) <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_frameworks_are_imported_only_where_they_name_the_module(path):
    for framework in ("torch", "jax", "sklearn", "dask"):
        assert path.stem == framework or framework not in imported(path)


def test_importing_sumopt_imports_no_extra():
    script = "import sys, sumopt; print(*[m for m in ('matplotlib', 'tqdm', 'torch', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def resolve(name):
    """The object that a dotted name stands for; a field of a dataclass stands for itself."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else vars(found).get(part) or getattr(found, part)
        return found
    raise ImportError(name)


def test_every_name_in_the_paper_map_exists():
    names = re.findall(r"`(sumopt(?:\.\w+)+)`", (ROOT / "docs" / "paper_map.md").read_text())
    assert len(names) > 30
    for name in names:
        resolve(name)


def test_departures_are_numbered_the_same_in_code_and_in_the_document():
    text = "\n".join(path.read_text() for path in SOURCES)
    tagged = {int(n) for n in re.findall(r"# Departure (\d+):", text)}
    written = [int(n) for n in re.findall(r"^## (\d+)\. ", (ROOT / "docs" / "departures.md").read_text(), re.MULTILINE)]
    assert written == list(range(1, len(written) + 1))
    assert tagged == set(written)


def test_the_example_of_the_readme_runs():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    scope = {}
    exec(code, scope)
    assert scope["result"].success


def test_version_and_public_names():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", sumopt.__version__)
    for name in sumopt.__all__:
        assert getattr(sumopt, name).__doc__ or name == "__version__"
