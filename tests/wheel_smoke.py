"""Tries an installed Sardonyx: import, export, optimize, evaluate, Core ML round trip, bad input, the command.

    python tests/wheel_smoke.py

Needs NumPy, and JAX for the export, which is left out (and said so) without. Prints a line for each step; a step that
fails ends it with a traceback.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import sardonyx
from sardonyx import ir

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def say(step: str, what: object) -> None:
    print(f"{step}: {what}", flush=True)


# relu(x + c); the product with 1 goes.
MIL = """graph mil(x: f32[3,5]) mil_opset "CoreML7" {
  a: f32[3,5] = mul(x, f32 1)
  b: f32[3,5] = add(a, f32[5]{2,3,5,7,11})
  y: f32[3,5] = relu(b)
  return y
}
"""


def command(*arguments: object) -> str:
    """Runs the command of this installation. An emulated Python cannot start itself: the variable says how."""
    program = os.environ.get("SARDONYX_SMOKE_COMMAND", "").split() or [sys.executable, "-m", "sardonyx"]
    done = subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def model_of(folder: Path) -> Path:
    """z = x · 1 + (-(-y)), of which x + y should be left."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([3, 5]))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([3, 5]))
    one = ir.Value(name="one", const_value=ir.tensor(np.array(1, np.float32), name="one"))
    product = ir.Node("", "Mul", [x, one])
    negative = ir.Node("", "Neg", [y])
    positive = ir.Node("", "Neg", [negative.outputs[0]])
    total = ir.Node("", "Add", [product.outputs[0], positive.outputs[0]])
    total.outputs[0].name = "z"
    graph = ir.Graph(
        [x, y], [total.outputs[0]], nodes=[product, negative, positive, total], initializers=[one], name="g",
        opset_imports={"": 20},
    )  # fmt: skip
    path = folder / "möd el.onnx"  # names are not always ASCII
    ir.save(ir.Model(graph, ir_version=10), path)
    return path


def main() -> None:
    # A development build has links to the sources.
    here = Path(sardonyx.__file__).resolve()
    assert not here.is_relative_to(ROOT / "python"), f"this is not the installed package: {here}"
    say("import", f"{sardonyx.__version__} in Python {sys.version.split()[0]} on {sys.platform}")
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal((3, 5), np.float32) for _ in "xy")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = model_of(folder)
        after = folder / "after.onnx"
        sardonyx.optimize(before, after)
        left = [node.op_type for node in ir.load(after).graph]
        assert left == ["Add"], left
        say("optimize", "4 nodes -> 1")
        for model in (before, after):
            (z,) = sardonyx.evaluate(model, {"x": x, "y": y}).values()
            np.testing.assert_array_equal(z, x + y)
        say("evaluate", "equal to NumPy")
        # The file that is mapped is replaced.
        sardonyx.optimize(after, after)
        assert [node.op_type for node in ir.load(after).graph] == ["Add"]
        assert sorted(f.name for f in folder.iterdir()) == ["after.onnx", before.name]
        say("in place", "same file, nothing left over")
        if importlib.util.find_spec("jax"):
            import jax.numpy as jnp

            exported = folder / "exported.onnx"
            sardonyx.to_onnx(lambda x, y: jnp.tanh(x @ y.T), [(3, 5), (3, 5)], return_mode="file", output_path=exported)
            (z,) = sardonyx.evaluate(exported, [x, y]).values()
            np.testing.assert_allclose(z, np.tanh(x @ y.T), rtol=1e-5)
            say("export", "equal to NumPy")
        else:
            say("export", "left out: JAX is not installed")
        (folder / "a.sx").write_text(MIL)
        command("optimize", folder / "a.sx", "-o", folder / "a.mlpackage")
        program = sardonyx.coreml.load(folder / "a.mlpackage", mmap=False)
        assert program.op_counts() == {"add": 1, "const": 1, "relu": 1}, program.op_counts()
        program.save(folder / "b.mlpackage")
        again = sardonyx.coreml.load(folder / "b.mlpackage", mmap=False)
        assert again.text() == program.text()
        again.save(folder / "b.mlpackage")  # replaces the folder
        (z,) = again.run({"x": x}).values()
        np.testing.assert_array_equal(z, np.maximum(x + np.array([2, 3, 5, 7, 11], np.float32), 0))
        say("Core ML", "the same program after a round trip")
        (folder / "bad.onnx").write_bytes(b"# a README, not a model\n" * 9)
        try:
            sardonyx.optimize(folder / "bad.onnx", folder / "never.onnx")
            raise AssertionError("bad input was accepted")
        except sardonyx.Error as error:
            say("bad input", str(error).splitlines()[0])
        assert not (folder / "never.onnx").exists()
        version = command("--version")
        assert sardonyx.__version__ in version, version
        say("command", version.strip())


if __name__ == "__main__":
    main()
