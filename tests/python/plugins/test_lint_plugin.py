"""python -m sardonyx.plugins: each rule fires where it should, and nowhere else."""

import os
import subprocess
import sys

import pytest
from sardonyx.plugins import lint


def rules(source: str) -> list[str]:
    return [f.rule for f in lint.check_source(source)]


BAD = {
    "initializer-name": [
        "def lower(ctx, eqn):\n    return ctx.builder.initializer(t)\n",
        "def lower(ctx, eqn):\n    return ctx.builder.initializer(t, name='')\n",
        "def lower(ctx, eqn):\n    return ctx.builder.add_initializer_from_scalar(value=1)\n",
        "NAME = None\ndef lower(ctx, eqn):\n    return ctx.builder.add_initializer_from_array(NAME, a)\n",
    ],
    "outputs-string": [
        "y = builder.Relu(x, _outputs='y')\n",
        "y = builder.Relu(x, _outputs=f'{a}_y')\n",
        "def f(builder, x):\n    out = 'y'\n    return builder.Relu(x, _outputs=out)\n",
        "def f(ctx, x):\n    return ctx.builder.Relu(x, _outputs=ctx.fresh_name('y'))\n",
        "y = builder.Relu(x, _outputs=[1])\n",
        "y = builder.Relu(x, _outputs='a' if b else 'c')\n",
    ],
    "onnx-protobuf": [
        "import onnx\n",
        "import onnx.helper as oh\n",
        "def f():\n    from onnx import numpy_helper\n",
        "import importlib\nonnx = importlib.import_module('onnx.helper')\n",
        "from google.protobuf import message\n",
    ],
    "initializers-write": [
        "graph.initializers['w'] = v\n",
        "ctx.builder.graph.initializers['w'] = v\n",
        "del graph.initializers['w']\n",
        "graph.initializers.update({'w': v})\n",
    ],
    "node-inputs": [
        "node.inputs[0] = v\n",
        "y.producer().inputs[0] = v\n",
        "add_node._inputs = (v,)\n",
        "node.inputs.append(v)\n",
    ],
    "manual-node": ["n = ir.Node('', 'Add', [a, b])\n", "n = ir.node('Add', [a, b])\n"],
    "smuggled-constant": ["v = ir.Value(name='w', const_value=t)\n", "v = ir.val('w', const_value=t)\n"],
    "none-attribute": ["y = builder.Split(x, axis=None)\n"],
    "node-keyword": ["y = ctx.builder.Add(a, b, name='sum')\n"],
    "mixed-versions": [
        "def f(builder):\n    a = builder.Relu(x, _version=13)\n    return builder.Relu(a, _version=14)\n"
    ],
    "callable-factory": [
        "CASES = [{'testcase': 'a', 'callable_factory': make}]\n",
        "case(callable_factory=make)\n",
    ],
    "import-time-rng": [
        "import jax\nKEY = jax.random.PRNGKey(0)\n",
        "from flax import nnx\nRNGS = nnx.Rngs(0)\n",
        "import numpy as np\nnp.random.seed(0)\n",
        "class P:\n    key = jax.random.key(0)\n",
        "CASES = [{'callable': lambda x: nnx.Linear(2, 3, rngs=nnx.Rngs(0))(x)}]\n",
        "def f(rngs=nnx.Rngs(0)):\n    pass\n",
    ],
    "reused-key": [
        "def f(key):\n    a = jax.random.normal(key, (2,))\n    b = jax.random.uniform(key, (2,))\n    return a + b\n",
        "def f(key):\n    return jax.random.normal(key) + jax.random.normal(key)\n",
    ],
    "syntax": ["def (:\n"],
}


@pytest.mark.parametrize(("rule", "source"), [(r, s) for r, sources in BAD.items() for s in sources])
def test_each_rule_fires_once(rule, source):
    assert rules(source) == [rule]


def test_every_rule_is_tried():
    assert set(BAD) == set(lint.RULES)


GOOD = """
from typing import TYPE_CHECKING

import jax
import numpy as np
import onnx_ir as ir
import onnxruntime
from sardonyx import ir

if TYPE_CHECKING:
    import onnx

OUTPUTS = ["a", "b"]

@register(testcases=[{"callable": construct_and_call(Linear, 2, 3).with_rng_seed(0)}, {"callable": lambda x: x + 1}])
class Plugin:
    def lower(self, ctx, eqn):
        w = ctx.builder.initializer(ir.tensor(np.zeros(3)), name="w")
        v = ctx.builder.initializer(ir.tensor(np.zeros(3)), "v")
        s = ctx.builder.add_initializer_from_scalar("s", 1.0)
        t = ctx.builder.add_initializer_from_array(name=ctx.fresh_name("t"), array=np.zeros(3))
        names = [ctx.fresh_name("y")]
        y = ctx.builder.Relu(w, _outputs=names)
        a, b = ctx.builder.Split(y, axis=0, _outputs=OUTPUTS, _version=13)
        c = ctx.builder.Split(y, axis=0, _outputs=2, _version=13)
        d = ctx.builder.Custom(y, _domain="other", _version=1)
        many = [f"y{i}" for i in range(3)]
        e = ctx.builder.Split(y, None, _outputs=many)
        y.producer().name = "relu"
        y.producer().replace_input_with(0, v)
        ctx.builder.inputs = [w]
        graph.inputs.append(w)
        graph.inputs[0] = w
        f = ctx.builder.op("Add", [a, b], name="sum", doc_string="the sum")
        settings["initializers"] = 3
        return ctx.builder.initializer(**made)

def keys(key):
    key, first = jax.random.split(key)
    a = jax.random.normal(first, (2,))
    key, first = jax.random.split(key)
    return a + jax.random.normal(first, (2,)), np.random.rand(3) + np.random.rand(3)

def module():
    return nnx.Linear(2, 3, rngs=nnx.Rngs(0))
"""


def test_good_plugins_pass():
    assert lint.check_source(GOOD) == []


def test_a_line_can_allow_a_rule():
    line = "n = ir.Node('', 'Add', [a, b])"
    assert rules(f"{line}  # lint-plugin: allow manual-node\n") == []
    assert rules(f"{line}  # lint-plugin: allow node-inputs\n") == ["manual-node"]


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "sardonyx.plugins", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_the_command_names_file_and_line(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\ny = builder.Relu(x, _outputs='y')\n")
    done = run(bad)
    assert done.returncode == 1
    assert done.stdout == f"{bad}:2:30: _outputs is a string; put it into a list: _outputs=[name] [outputs-string]\n"
    good = tmp_path / "good.py"
    good.write_text("y = builder.Relu(x, _outputs=['y'])\n")
    assert run(good).returncode == 0
    assert run(tmp_path).returncode == 1  # folders are searched
    assert run(tmp_path / "missing.py").returncode == 2
    assert run().returncode == 2


def test_diff_looks_at_staged_files_only(tmp_path):
    def git(*arguments):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (tmp_path / "old.py").write_text("import onnx\n")
    git("add", "old.py")
    git("commit", "-qm", "old")
    assert run("--diff", cwd=tmp_path).returncode == 0
    (tmp_path / "new.py").write_text("import onnx\n")
    assert run("--diff", cwd=tmp_path).returncode == 0  # not staged yet
    git("add", "new.py")
    done = run("--diff", cwd=tmp_path)
    assert done.returncode == 1
    assert "new.py:1:1:" in done.stdout and "old.py" not in done.stdout
