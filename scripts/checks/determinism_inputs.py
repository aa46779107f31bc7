"""Write the inputs of scripts/checks/determinism.py: programs, models and packages. Needs the release build's Python
module.

    scripts/checks/determinism_inputs.py FOLDER

FOLDER/programs: traced programs (.sx) of the zoo and the demonstration models. FOLDER/models: the models of
the onnx package, and the graphs of the text cases. FOLDER/packages: small Core ML programs, one per op, and
networks.
"""

import argparse
import os
import subprocess
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path[:0] = [
    str(ROOT / p) for p in ("build/release/python", "tests/python/support", "tests/python/onnx", "demo", "bench")
]


def cases(folder: Path, start: str):
    """(name, text before "=>") of the cases whose text begins with `start`."""
    for path in sorted(folder.rglob("*.sx")):
        for k, case in enumerate(path.read_text().split('\ncase "')[1:]):
            text = case.partition("\n=>")[0].partition("\n")[2]
            if text.startswith(start):
                yield f"{path.stem}_{k}", text


def write_programs(out: Path) -> None:
    import jax
    import models
    import sardonyx
    import zoo

    for model in [*zoo.all_models(), *models.MODELS]:
        x64 = jax.config.jax_enable_x64
        sardonyx.save_program(model.make(), list(model.inputs), out / f"{model.name}.sx")
        jax.config.update("jax_enable_x64", x64)
    for name, text in cases(ROOT / "src" / "lower", "graph jax"):
        (out / f"case_{name}.sx").write_text(text + "\n")


def write_models(out: Path, tool: Path) -> None:
    import onnx
    from test_roundtrip import MODELS, backend_models

    for kind in MODELS:
        for name, model in backend_models(kind).items():
            onnx.save(model, out / f"{kind}_{name}.onnx")
    text = out / "case.sx"
    for name, graph in cases(ROOT / "src" / "passes", "graph("):
        text.write_text(graph + "\n")  # graphs that the parser refuses are skipped
        subprocess.run([tool, "convert", text, "-o", out / f"case_{name}.onnx"], check=False, capture_output=True)
    text.unlink()


def write_packages(out: Path) -> None:
    import coreml_programs
    import mil_programs

    for case in mil_programs.CASES:
        targets = mil_programs.targets_of(case)
        if targets:
            name = f"{case.op}_{case.tag}" if case.tag else case.op
            mil_programs.save(mil_programs.build(case, targets[-1]), out / f"{name}.mlpackage", targets[-1])
    for name in coreml_programs.NETWORKS:
        program = coreml_programs.program(name, 0.125)
        mil_programs.save(program, out / f"network_{name}.mlpackage", coreml_programs.TARGET)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tool", type=Path, default=ROOT / "build" / "release" / "sardonyx")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in ("programs", "models", "packages"):
        (arguments.folder / kind).mkdir(parents=True, exist_ok=True)
    write_programs(arguments.folder / "programs")
    write_models(arguments.folder / "models", arguments.tool)
    write_packages(arguments.folder / "packages")


if __name__ == "__main__":
    main()
