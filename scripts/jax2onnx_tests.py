"""The cases that jax2onnx tests itself with, exported by Sardonyx and compared with JAX in onnxruntime.

    scripts/jax2onnx_tests.py SOURCES [pytest's arguments]

SOURCES is the unpacked source distribution of jax2onnx (pip download --no-deps --no-binary jax2onnx jax2onnx), which has the generator of
the tests. RIVALS_PYTHON names the Python of an environment that has the same version of it, the frameworks of its examples, and pytest.
Which cases differ, and why, is in tests/jax2onnx_own/differs.txt; the run fails when another one does, and when one of these passes.
Pytest's options may follow, each in one piece: -n2, -kattention. All of them take an hour and more.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path, help="the unpacked source distribution of jax2onnx")
    arguments, options = parser.parse_known_args()
    sources = arguments.sources.resolve()
    if not (sources / "tests" / "t_generator.py").exists():
        print(f"{arguments.sources} has no tests/t_generator.py: is it the source distribution of jax2onnx?")
        return 1
    path = [str(ROOT / "build" / "release" / "python"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX2ONNX_SOURCES": str(sources),
    }
    folder = ROOT / "tests" / "jax2onnx_own"
    command = [
        os.environ.get("RIVALS_PYTHON", sys.executable),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
    ]
    command += ["-c", os.devnull, f"--rootdir={folder}", *options, str(folder / "cases.py")]
    return subprocess.run(command, env=environment, cwd=ROOT / "build", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
