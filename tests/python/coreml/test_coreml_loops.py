"""coremltools programs in memory whose ops have blocks: loops for the older backend, and blocks in functions
that a pass makes."""

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
from mil_programs import get_new_symbol, mb  # noqa: E402
from sardonyx import coreml  # noqa: E402

ONE = np.float32(1)


def loop(body, *start, times=3):
    """Calls body(x, ...) that many times. That backend counts in floats."""

    def counted(i, *x):
        results = body(*x)
        return (mb.add(x=i, y=ONE), *(results if isinstance(results, tuple) else (results,)))

    return mb.while_loop(
        _cond=lambda i, *x: mb.less(x=i, y=np.float32(times)), _body=counted, loop_vars=(np.float32(0), *start)
    )[1:]


def invariant(x):
    a, b = loop(lambda a, b: (mb.mul(x=a, y=b), b), x, mb.exp(x=x))
    return mb.add(x=a, y=b)


def nested(x):
    return mb.exp(x=loop(lambda a: mb.tanh(x=loop(lambda b: mb.relu(x=b), a, times=2)[0]), x)[0])


def reads_outside(x):
    y = mb.exp(x=x)
    return loop(lambda a: mb.add(x=a, y=y), y)[0]


def swapped(x):
    a, b = loop(lambda a, b: (b, a), x, mb.exp(x=x))
    return mb.sub(x=a, y=b)


def two(x):
    y = mb.exp(x=loop(lambda a: mb.sin(x=a), x)[0])
    return mb.add(x=loop(lambda a: mb.cos(x=a), y)[0], y=y)


def branch(x):
    def body(a):
        first = mb.less(x=mb.reduce_sum(x=a, keep_dims=False), y=ONE)
        return mb.cond(pred=first, _true_fn=lambda: mb.relu(x=a), _false_fn=lambda: mb.exp(x=a))

    return loop(body, x)[0]


def returned(x):
    return loop(lambda a: mb.tanh(x=a), x)[0]


def one_start(x):
    a, b = loop(lambda a, b: (mb.relu(x=a), mb.exp(x=b)), x, x)
    return mb.sub(x=a, y=b)


def layers(network):
    all_layers = []
    for layer in network.layers:
        kind = layer.WhichOneof("layer")
        inner = {
            "loop": lambda at: (at.loop.conditionNetwork, at.loop.bodyNetwork),
            "branch": lambda at: (at.branch.ifBranch, at.branch.elseBranch),
        }.get(kind, lambda at: ())(layer)
        all_layers.append((kind, list(layer.input), list(layer.output), [layers(n) for n in inner]))
    return all_layers


@pytest.mark.parametrize(
    "fn",
    [invariant, nested, reads_outside, swapped, two, branch, returned, one_start],
    ids=lambda f: f.__name__,
)
def test_neural_networks_with_loops(fn):
    def convert():
        mb.name_count.clear()
        prog = mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))])(fn)
        with programs.quiet():
            return layers(ct.convert(prog, convert_to="neuralnetwork").get_spec().neuralNetwork)

    expected = convert()
    assert any(kind == "loop" for kind, *_ in expected)
    with coreml.native_passes():
        assert convert() == expected


# --- functions with blocks

WEIGHT = np.float32([[1], [2]])


def with_cond(x, p):
    return mb.cond(
        pred=mb.squeeze(x=mb.cast(x=p, dtype="bool")),
        _true_fn=lambda: mb.add(x=mb.relu(x=x), y=WEIGHT),
        _false_fn=lambda: mb.exp(x=x),
    )


def with_two_results(x, p):
    a, b = mb.cond(
        pred=mb.squeeze(x=mb.cast(x=p, dtype="bool")),
        _true_fn=lambda: (mb.relu(x=x), x),
        _false_fn=lambda: (mb.exp(x=x), mb.tanh(x=x)),
    )
    return mb.sub(x=a, y=b)


def with_loop(x, p):
    def body(i, a):
        inner = mb.cond(
            pred=mb.less(x=i, y=2), _true_fn=lambda: mb.add(x=a, y=WEIGHT), _false_fn=lambda: mb.mul(x=a, y=a)
        )
        return mb.add(x=i, y=1), inner

    _, y = mb.while_loop(_cond=lambda i, a: mb.less(x=i, y=3), _body=body, loop_vars=(np.int32(0), x))
    return mb.mul(x=y, y=p)


def structure(block):
    return [
        (op.op_type, [structure(b) for b in op.blocks], [str(v.dtype) for v in op.outputs])
        for op in block.operations
        if op.op_type != "const"
    ]


@pytest.mark.parametrize("fn", [with_cond, with_two_results, with_loop], ids=lambda f: f.__name__)
def test_functions_with_blocks_are_made(fn, tmp_path):
    """coremltools' own pass fails on each of these."""
    specs = [mb.TensorSpec(shape=(2, get_new_symbol())), mb.TensorSpec(shape=(1,))]
    prog = mb.program(input_specs=specs, opset_version=ct.target.iOS18)(fn)
    sizes = {"of_5": 5, "of_7": 7}
    coreml.apply_pass(
        prog,
        "materialize_symbolic_shape_program",
        function_name_to_materialization_map={name: {"x": (2, n)} for name, n in sizes.items()},
    )
    prog.validate()
    main = prog.functions["main"]
    for name, n in sizes.items():
        function = prog.functions[name]
        assert structure(function) == structure(main)
        assert function.outputs[0].shape == (2, n)
    path = tmp_path / "many.mlpackage"
    prog.default_function_name = "main"
    programs.save(prog, path, ct.target.iOS18)
    program = coreml.load(path)
    for name, n in sizes.items():
        for p in (0.0, 1.0):
            x = np.linspace(-1, 1, 2 * n, dtype=np.float32).reshape(2, n)
            (y,) = program.run({"x": x, "p": np.float32([p])}, function=name).values()
            np.testing.assert_allclose(y, expected_of(fn, x, p), rtol=1e-6, atol=1e-6)


def expected_of(fn, x, p):
    if fn is with_cond:
        return np.maximum(x, 0) + WEIGHT if p else np.exp(x)
    if fn is with_two_results:
        return np.maximum(x, 0) - x if p else np.exp(x) - np.tanh(x)
    return (x + WEIGHT + WEIGHT) ** 2 * p
