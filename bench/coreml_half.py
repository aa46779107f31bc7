"""Half precision in Core ML: the error of Sardonyx's packages beside that of coremltools' and stablehlo-coreml's.

    bench/coreml_half.py [--only NAME ...] [--page] [--out build/bench]

Needs bench/requirements-coreml.txt, which RIVALS_PYTHON's environment has. PyTorch models go through TorchScript to coremltools, and
through ONNX to Sardonyx; the demonstration models, which are JAX programs, through StableHLO to stablehlo-coreml and directly to
Sardonyx. All for iOS 18, by default in half precision. Packages run on our evaluator, which rounds after each op, and on the same
inputs; the error is the norm of the difference from PyTorch's or JAX's results in single precision, over their norm. An error more
than a twentieth larger than the rival's is a miss. `--page` writes the table into docs/generated/coreml.md.
"""

import json
import math
import os
import sys
import tempfile
import warnings
from pathlib import Path

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser

sys.path[:0] = [
    os.environ.get("PYTHONPATH", "").split(":")[0] or str(ROOT / "build" / "release" / "python"),
    str(ROOT / "demo"),
]
PAGE = ROOT / "docs" / "generated" / "coreml.md"
BEGIN, END = "<!-- half: bench/coreml_half.py -->\n", "<!-- end of half -->\n"
LARGER = 1.05
MODELS = (
    *("conv net", "transformer block", "causal block", "lstm", "u-net, small", "resnet50", "mobilenet_v2", "vit_b16"),
    *("bert_base", "gpt2", "unet", "speech", "detector"),
)


def error(package: Path, inputs, wanted) -> float:
    """The largest of all results of floats."""
    import numpy as np
    from sardonyx import coreml

    found = coreml.load(package).run(inputs).values()
    pairs = [(a.astype(np.float64), b) for a, b in zip(found, wanted, strict=True) if b.dtype.kind == "f"]
    return float(max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs))


def from_torch(name: str, folder: Path) -> dict:
    """Both packages of a PyTorch model, and their errors."""
    import coremltools as ct
    import numpy as np
    import sardonyx
    import torch
    from torch_models import made

    model, x = made(name)
    kind = np.int32 if x.dtype == torch.int64 else np.float32
    with torch.no_grad():
        wanted = [model(x).numpy()]
        script = torch.jit.trace(model, x)
        file = folder / "model.onnx"
        torch.onnx.export(model, (x,), str(file), opset_version=17, dynamo=False, input_names=["x"], output_names=["y"])
    inputs = [x.numpy().astype(kind)]
    sardonyx.to_coreml(file, output_path=folder / "ours.mlpackage", target="iOS18")
    ct.convert(
        script,
        inputs=[ct.TensorType("x", shape=x.shape, dtype=kind)],
        outputs=[ct.TensorType("y", dtype=np.float32)],
        minimum_deployment_target=ct.target.iOS18,
        skip_model_load=True,
    ).save(str(folder / "theirs.mlpackage"))
    return {who: error(folder / f"{who}.mlpackage", inputs, wanted) for who in ("ours", "theirs")}


def from_jax(name: str, folder: Path) -> dict:
    """Our package of a demonstration model, and its error. Leaves the program, inputs and results for `stablehlo`."""
    import jax
    import numpy as np
    import sardonyx
    from models import by_name

    demo = by_name(name)
    fn, inputs = demo.make(), demo.sample(demo.sizes[-1])
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    exported = jax.export.export(jax.jit(fn))(*specs)
    wanted = [np.asarray(y) for y in jax.tree.leaves(exported.call(*inputs))]
    (folder / "program").write_bytes(exported.serialize())
    np.savez(
        folder / "runs.npz", **{f"x{i}": x for i, x in enumerate(inputs)}, **{f"y{i}": y for i, y in enumerate(wanted)}
    )
    sardonyx.to_coreml(fn, specs, output_path=folder / "ours.mlpackage", target="iOS18")
    return {"ours": error(folder / "ours.mlpackage", core_ml(inputs), wanted)}


def core_ml(inputs) -> list:
    """What a package takes: integers of 32 bits with sign."""
    import numpy as np

    return [
        x.view(np.int32) if x.dtype == np.uint32 else x.astype(np.int32) if x.dtype.kind == "i" else x for x in inputs
    ]


def stablehlo(name: str, folder: Path) -> dict:
    """The package that stablehlo-coreml makes of what from_jax left."""
    import coremltools as ct
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from stablehlo_coreml import build_pass_pipeline, convert

    exported = jax.export.deserialize((folder / "program").read_bytes())
    module = ir.Module.parse(exported.mlir_module(), context=mlir.make_ir_context())
    out = folder / "theirs.mlpackage"
    ct.convert(
        convert(module, minimum_deployment_target=ct.target.iOS18),
        source="milinternal",
        minimum_deployment_target=ct.target.iOS18,
        pass_pipeline=build_pass_pipeline(),
        skip_model_load=True,
    ).save(str(out))
    with np.load(folder / "runs.npz") as runs:
        inputs, wanted = ([runs[k] for k in runs.files if k[0] == kind] for kind in "xy")
        return {"theirs": error(out, core_ml(inputs), wanted)}


WORK = {f.__name__: f for f in (from_torch, from_jax, stablehlo)}


def shown(error: float) -> str:
    return "NaN" if math.isnan(error) else f"{error:.3%}"


def compared(name: str, program: bool, missed: list[str]) -> tuple[str, dict]:
    """The table's row for one model, and its figures."""
    script = str(Path(__file__).resolve())
    with tempfile.TemporaryDirectory() as folder:
        if program:
            found = measure(script, sys.executable, "from_jax", name, folder)
            other = measure(script, RIVALS, "stablehlo", name, folder, timeout=600) if "error" not in found else {}
            found |= {"refused": other["error"]} if "error" in other else other
        else:
            found = measure(script, RIVALS, "from_torch", name, folder)
    if "error" in found:
        missed.append(f"{name}: {found['error']}")
        return f"| {name} | refused | |", found
    if "refused" in found:
        print(f"{name}: stablehlo-coreml: {found['refused']}")
        return f"| {name} | {shown(found['ours'])} | refused |", found
    if math.isnan(found["ours"]) or found["ours"] > LARGER * found["theirs"]:
        missed.append(f"{name}: error {shown(found['ours'])}, theirs {shown(found['theirs'])}")
    return f"| {name} | {shown(found['ours'])} | {shown(found['theirs'])} |", found


def main() -> int:
    from models import MODELS as DEMOS

    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=None, metavar="NAME")
    options.add_argument("--page", action="store_true", help="write the tables into docs/generated/coreml.md")
    arguments = options.parse_args()
    missed: list[str] = []
    figures: dict[str, dict] = {}
    lines: list[str] = []
    for program, rival, names in (
        (False, "PyTorch model | Sardonyx | coremltools", MODELS),
        (True, "JAX program | Sardonyx | stablehlo-coreml", [m.name for m in DEMOS]),
    ):
        lines += ["", f"| {rival} |", "|---|--:|--:|"]
        for name in names:
            if arguments.only is None or name in arguments.only:
                line, figures[f"{'jax' if program else 'torch'}: {name}"] = compared(name, program, missed)
                lines.append(line)
                print(line, flush=True)
    if arguments.page:
        head, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n".join(lines[1:]) + "\n" + END + rest.split(END)[1])
    return finish(arguments.out, "coreml_half", {"figures": figures}, missed)


if __name__ == "__main__":
    if (work := asked_to_work()) is not None:
        warnings.filterwarnings("ignore")
        print(json.dumps(WORK[work[0]](work[1], Path(work[2]))))
        sys.exit(0)
    sys.exit(main())
