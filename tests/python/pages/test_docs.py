"""Pages and figures that scripts write are what the scripts write now."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import command
import flax
import jax
import onnx
import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, DOCS.parent / "scripts" / "pages" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def skip_unless_pinned():
    pinned = dict(re.findall(r"^(\w+)==(.*)$", (DOCS.parent / "requirements-dev.txt").read_text(), re.MULTILINE))
    if any(module.__version__ != pinned[module.__name__] for module in (flax, jax, onnx)):
        pytest.skip("other versions trace and print otherwise")


def test_the_catalogue_of_passes_is_fresh():
    script = load_script("passes_page")
    told = json.loads(command.sardonyx("passes", "--json").stdout)[0]
    assert script.PAGE.read_text() == script.page(told), "run scripts/pages/passes_page.py"


def test_the_example_of_the_architecture_is_what_happens():
    skip_unless_pinned()
    script = load_script("architecture_example")
    now = script.PAGE.read_text()
    assert now == script.page(now), "run scripts/pages/architecture_example.py"


def test_the_figures_of_readme_are_those_of_the_pages():
    script = load_script("readme_page")
    now = script.README.read_text()
    assert now == script.readme(now), "run scripts/pages/readme_page.py"


def test_the_picture_of_readme_is_fresh():
    skip_unless_pinned()
    script = load_script("readme_page")
    assert script.PICTURE.read_text() == script.picture(), "run scripts/pages/readme_page.py"


def test_the_runs_of_validation_are_those_of_the_schedule():
    script = load_script("validation_page")
    now = script.PAGE.read_text()
    assert now == script.with_runs(now), "run scripts/pages/validation_page.py"
    schedule = script.with_run(script.SCHEDULE.read_text(), "tsan", 'two "reports"')
    (tsan,) = [c for c in tomllib.loads(schedule)["check"] if c["target"] == "tsan"]
    assert tsan["result"] == 'two "reports"' and tsan["commit"] == script.commit() and tsan["when"] == "nightly"
    assert script.with_run(schedule, "tsan", "none").count('target = "tsan"') == 1


def test_the_counts_of_validation_are_about_right():
    script = load_script("validation_page")
    written = script.written(script.PAGE.read_text())
    off = {
        what: (written.get(what), n) for what, n in script.counts().items() if abs(written.get(what, 0) - n) > n / 10
    }
    assert not off, "run scripts/pages/validation_page.py"
