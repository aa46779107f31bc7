"""Compare the output of several builds: the same input must give the same bytes.

    scripts/checks/determinism.py [--models N] [--inputs FOLDER] [--kept FILE] BUILD_FOLDER BUILD_FOLDER...

Each build draws the same random models (sx_fuzz, ONNX and Core ML). It runs its own `sardonyx` on them and on
the inputs of scripts/checks/determinism_inputs.py: traced programs are lowered and optimized with both presets,
models and packages are optimized with theirs, and models are converted to Core ML. The digests of all files must agree. The first build runs
twice. `make test-determinism` does that for gcc and clang, release and debug.
"""

import argparse
import collections
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ONNX_PRESETS = ("none", "onnx", "onnx-spec")
COREML_PRESETS = ("default", "cleanup")
PRECISIONS = ("f16", "f32")


def run(*command: object) -> None:
    # Every build refuses some inputs.
    subprocess.run([str(c) for c in command], check=False, capture_output=True)


def digests(build: Path, inputs: Path, models: int, scratch: Path) -> dict[str, str]:
    sardonyx, fuzz = build.resolve() / "sardonyx", build.resolve() / "sx_fuzz"
    drawn = {d: scratch / f"drawn_{d}" for d in ("onnx", "mil")}
    for dialect, folder in drawn.items():
        run(
            fuzz,
            f"--dialect={dialect}",
            "--seed=1",
            f"--count={models}",
            "--passes=remove_dead_nodes" if dialect == "onnx" else "--passes=noop_elimination",
            f"--write={folder}",
        )
    lowered = scratch / "lowered"
    lowered.mkdir()
    for program in sorted((inputs / "programs").glob("*.sx")):
        run(sardonyx, "convert", program, "-o", lowered / f"{program.stem}.onnx")
    for preset in ONNX_PRESETS:
        for name, folder in {"lowered": lowered, "models": inputs / "models", "drawn": drawn["onnx"]}.items():
            run(sardonyx, "optimize", folder, "-o", scratch / f"{name}_{preset}", "--passes", preset)
    for preset in COREML_PRESETS:
        for name, folder in {"packages": inputs / "packages", "drawn_mil": drawn["mil"]}.items():
            run(sardonyx, "optimize", folder, "-o", scratch / f"{name}_{preset}", "--passes", preset)
    for precision in PRECISIONS:
        for model in sorted((inputs / "models").glob("*.onnx")):
            package = scratch / f"converted_{precision}" / f"{model.stem}.mlpackage"
            run(sardonyx, "convert", model, "-o", package, "--target", "iOS18", "--precision", precision)
    return {
        str(p.relative_to(scratch)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(scratch.rglob("*"))
        if p.is_file()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+", type=Path)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--inputs", type=Path, default=Path("build/determinism"))
    parser.add_argument("--kept", type=Path, help="digests of an earlier call: compared with if there, else written")
    arguments = parser.parse_args()
    first: dict[str, str] = {}
    if arguments.kept and arguments.kept.exists():
        first = json.loads(arguments.kept.read_text())
    wrong = 0
    for build in (
        arguments.builds if first else [*arguments.builds, arguments.builds[0]]
    ):  # two runs of one build must agree, too
        with tempfile.TemporaryDirectory() as scratch:
            found = digests(build, arguments.inputs, arguments.models, Path(scratch))
        first = first or found
        differ = sorted(k for k in first.keys() | found.keys() if first.get(k) != found.get(k))
        wrong += len(differ)
        print(f"{build}: {len(found)} files, {len(differ)} differ from the first", flush=True)
        for name in differ[:20]:
            print(f"  {name}")
    if arguments.kept and not arguments.kept.exists():
        arguments.kept.write_text(json.dumps(first))
    kinds = collections.Counter(Path(k).parts[0] for k in first)
    print("  ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    folders = [f"{n}_{p}" for n in ("lowered", "models", "drawn") for p in ONNX_PRESETS]
    folders += [f"{n}_{p}" for n in ("packages", "drawn_mil") for p in COREML_PRESETS]
    folders += [f"converted_{p}" for p in PRECISIONS]
    if missing := [f for f in folders if kinds[f] < 20]:
        print(f"next to nothing was compared of {', '.join(missing)}")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
