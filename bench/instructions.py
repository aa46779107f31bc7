"""Instruction counts of the hot paths, which do not depend on the machine's load.

    bench/instructions.py [--only TEXT ...] [--bless] [--out build/bench]

Each path is one run of the `sardonyx` command under callgrind, on models generated here. Counts are compared
with those in instructions.json, which --bless writes. A path misses its target if it takes more than 5 %
more. Counts for another compiler, other flags or another architecture are shown but not compared.
"""

import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, finish, parser
from scale import write_chain, write_mesh, write_pairs

KEPT = Path(__file__).with_suffix(".json")
TOLERATED = 0.05
NODES = 10_000


def write_program(path: Path, equations: int) -> None:
    """Writes a program in the jax dialect: layers of products, sums, broadcasts and elementwise functions."""
    lines, last = ["graph jax(x: f32[7,7], w: f32[7,7]) {"], "x"
    for i in range(equations // 6):
        lines += [
            f"  va{i}: f32[7,7] = dot_general<dimension_numbers=(([1], [0]), ([], [])), out_sharding=none, precision=none, preferred_element_type=f32>({last}, w)",
            f"  vb{i}: f32[7,7] = tanh(va{i})",
            f"  vc{i}: f32[7] = reduce_sum<axes=[1], out_sharding=none>(vb{i})",
            f"  vd{i}: f32[7,7] = broadcast_in_dim<shape=[7, 7], broadcast_dimensions=[0], sharding=none>(vc{i})",
            f"  ve{i}: f32[7,7] = sub(vb{i}, vd{i})",
            f"  vg{i}: f32[7,7] = mul(ve{i}, {last})",
        ]
        last = f"vg{i}"
    path.write_text("\n".join([*lines, f"  return {last}", "}"]) + "\n")


def write_graph(path: Path, name: str) -> None:
    import onnx
    from torch_graphs import GRAPHS

    onnx.save(GRAPHS[name](), path)


def paths(tool: str, folder: Path) -> dict[str, list[str]]:
    """Name -> command. The files that they read are in `folder`."""
    chain, pairs, mesh = folder / "chain.onnx", folder / "pairs.onnx", folder / "mesh.onnx"
    write_chain(chain, NODES)
    write_pairs(pairs, NODES)
    write_mesh(mesh, NODES)
    encoder, detector = folder / "encoder.onnx", folder / "detector.onnx"
    write_graph(encoder, "torch_encoder")
    write_graph(detector, "torch_detector")
    program = folder / "program.sx"
    write_program(program, 6000)
    out = str(folder / "out.onnx")

    def optimize(source: Path, passes: str) -> list[str]:
        return [tool, "optimize", str(source), "-o", out, "--passes", passes, "--quiet"]

    return {
        "start": [tool, "--version"],
        f"read, verify, write: a chain of {NODES} nodes": optimize(chain, "none"),
        "read, verify, write: an encoder": optimize(encoder, "none"),
        f"default passes: pairs, {NODES} nodes": optimize(pairs, "onnx"),
        f"default passes: a mesh, {NODES} nodes": optimize(mesh, "onnx"),
        "default passes: an encoder": optimize(encoder, "onnx"),
        "default passes: a detector's head": optimize(detector, "onnx"),
        "read a saved program and export it: 6000 equations": [tool, "convert", str(program), "-o", out],
        "evaluate: an encoder": [tool, "run", str(encoder), "--seed", "0"],
    }


def count(command: list[str]) -> int:
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run([*valgrind, *command], capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return int(found[1])


def built_with(tool: Path) -> dict[str, str]:
    """Compiler, flags and architecture, from the build folder of the command."""
    cache = (tool.parent / "CMakeCache.txt").read_text()

    def entry(name: str) -> str:
        found = re.search(rf"^{name}:\w+=(.*)$", cache, re.MULTILINE)
        return found[1] if found else ""

    version = subprocess.run(
        [entry("CMAKE_CXX_COMPILER"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    flags = f"{entry('CMAKE_CXX_FLAGS')} {entry('CMAKE_CXX_FLAGS_' + entry('CMAKE_BUILD_TYPE').upper())}".strip()
    return {"compiler": version.splitlines()[0], "flags": flags, "machine": platform.machine()}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="paths with that in their names")
    options.add_argument("--bless", action="store_true", help="keep the counts as those to compare with")
    options.add_argument("--tool", type=Path, default=ROOT / "build" / "release" / "sardonyx")
    arguments = options.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind (apt-get install valgrind)")
        return 0
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"built": {}, "counts": {}}
    built = built_with(arguments.tool)
    comparable = kept["built"] == built
    counts, missed = {}, []
    print(f"{'path':52}{'instructions':>15}{'before':>15}{'change':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in paths(str(arguments.tool), Path(folder)).items():
            if arguments.only and not any(text in name for text in arguments.only):
                continue
            now = counts[name] = count(command)
            before = kept["counts"].get(name)
            change = now / before - 1 if before else 0.0
            print(f"{name:52}{now:>15,}{before or 0:>15,}{change:>+9.1%}", flush=True)
            if comparable and change > TOLERATED:
                missed.append(f"{name}: {now:,} instructions, {change:.1%} more than before")
    if not comparable:
        print(f"not judged: the counts to compare with are of {kept['built']}, these of {built}")
    if arguments.bless:
        KEPT.write_text(
            json.dumps({"built": built, "counts": kept["counts"] | counts if comparable else counts}, indent=1) + "\n"
        )
        missed = []
    return finish(arguments.out, "instructions", {"built": built, "counts": counts, "before": kept["counts"]}, missed)


if __name__ == "__main__":
    sys.exit(main())
