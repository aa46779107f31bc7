"""`pip install .` installs the package and the command in a fresh environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The bin folder of a new environment with Sardonyx installed from a wheel built here."""
    tmp = tmp_path_factory.mktemp("wheel")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # Build tools and numpy come from this environment: the test is about the wheel, not the network. Compiler
    # and flags are those of the release build, so that ccache has most objects.
    flags = ["--no-deps", "--no-build-isolation", "--config-settings=cmake.define.SARDONYX_WERROR=ON"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", *flags, "-w", tmp, ROOT],
        check=True, env={"CXX": "c++"} | env,
    )  # fmt: skip
    (wheel,) = tmp.glob("sardonyx-*.whl")
    venv.create(tmp / "venv", with_pip=False)
    python = tmp / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel],
        check=True, env=env,
    )  # fmt: skip
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"],
        check=True, text=True, capture_output=True, env=env,
    ).stdout.strip()  # fmt: skip
    import numpy

    Path(site, "borrowed.pth").write_text(str(Path(numpy.__file__).parent.parent) + "\n")
    return python.parent


def run(*command):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(command, text=True, capture_output=True, env=env, cwd="/")


def test_package_imports(installed):
    done = run(installed / "python", "-c", "import sardonyx; print(sardonyx.__version__, sardonyx.__file__)")
    assert done.returncode == 0, done.stderr
    version, file = done.stdout.split()
    assert version.count(".") == 2
    assert Path(file).is_relative_to(installed.parent), "the package came from somewhere else"


def test_command_runs(installed):
    done = run(installed / "sardonyx", "--version")
    assert done.returncode == 0, done.stderr
    assert "0." in done.stdout


def test_pages_are_there(installed, tmp_path):
    (tmp_path / "m.sx").write_text("opset 23 graph(x: f32[3]) { y = Relu(x)  return y }")
    done = run(installed / "sardonyx", "view", tmp_path / "m.sx", "-o", tmp_path / "m.html")
    assert done.returncode == 0 and (tmp_path / "m.html").stat().st_size > 10_000, done.stderr
