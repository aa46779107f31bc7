"""Run jax2onnx's own test cases on Sardonyx and compare with JAX in onnxruntime.

    scripts/checks/jax2onnx_tests.py SOURCES [pytest's arguments]

SOURCES is the unpacked source distribution of jax2onnx (pip download --no-deps --no-binary jax2onnx
jax2onnx), which contains the test generator. RIVALS_PYTHON names the Python of an environment that has the
same version, the frameworks of its examples, and pytest. tests/jax2onnx_own/differs.txt lists the cases that
differ, and why. The run fails when any other case differs, and when a listed one passes. Pytest's options may
follow, each as one argument: -n2, -kattention. All cases take more than an hour.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
