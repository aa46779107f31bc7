"""`check=True` names the first equation that differs; `shadow=` compares with another exporter."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from judge import RUNTIME
from sardonyx.compat.onnxsim import simplify


@pytest.fixture
def wrong_sine():
    """A lowering with a wrong result, as of a faulty plugin."""

    @sardonyx.lowering("sin")
    def lower_sin(ctx, eqn):
        return ctx.builder.Cos(ctx.get_value_for_var(eqn.invars[0]))

    yield
    sardonyx.plugins.unregister("sin")


def inner(x):
    y = jnp.exp(x) + 1
    return jnp.sin(y) * 2  # the line that differs


def test_the_first_equation_is_named(wrong_sine):
    with pytest.raises(sardonyx.Error, match="differs from JAX at B=2") as error:
        sardonyx.to_onnx(lambda x: inner(x) - 3, [("B", 3)], check=True)
    line = inner.__code__.co_firstlineno + 2
    assert (
        f"the first equation that differs is sin of f32[2,3] -> f32[2,3], at test_check.py:{line} (inner)"
        in error.value.notes[0]
    )


def test_calls_are_looked_into(wrong_sine):
    with pytest.raises(sardonyx.Error) as error:
        sardonyx.to_onnx(lambda x: jax.jit(inner)(jnp.tanh(x)) * 2, [("B", 3)], check=True)
    assert "is sin of f32[2,3]" in error.value.notes[0] and "(inner)" in error.value.notes[0]


def test_a_loop_is_named_as_a_whole(wrong_sine):
    def fn(x):
        return jax.lax.fori_loop(0, 3, lambda i, v: jnp.sin(v), x + 1)

    with pytest.raises(sardonyx.Error) as error:
        sardonyx.to_onnx(fn, [(3,)], check=True)
    assert "is scan of" in error.value.notes[0] or "is while of" in error.value.notes[0]


def kept(x):
    y = x[x > 0.5] * 3
    return jnp.sin(y) + 1  # the line that differs


def kept_in_a_call(x):
    return jax.jit(lambda x: kept(jnp.exp(x) - 1) * 2)(x) - 2


def found_by_index(x):
    (places,) = jnp.nonzero(x > 0.5)
    return jnp.sin(x[places])


def counted(x):
    return jnp.sin(jnp.arange(jnp.sum(x > 0).astype(int)) / 2.0) * jnp.ones(x.shape[0])[:, None]


def without_repeats(x):
    found, inverse = jnp.unique(jnp.round(x * 3).astype(int), return_inverse=True)
    return jnp.sin(found.astype(x.dtype))[inverse]


def kept_twice(x):
    return jnp.sin(x[x > 0.3].sum() * x[x > 0.5][1:])


def after_a_loop(x):
    y = x[x > 0.4]
    z = jax.lax.fori_loop(0, 3, lambda i, y: y + i, y)
    _, rows = jax.lax.scan(lambda c, v: (c + v.sum(), v * c), jnp.float32(1), jnp.stack([y, z]), reverse=True)
    w = jax.lax.cond(z.sum() > 0, lambda z: z + 1, lambda z: z * 2, z)
    last = jax.lax.while_loop(lambda v: jnp.all(v < 100), lambda v: v * 2 + v[v > 0].sum(), w)
    return jnp.sin(rows + last)


@pytest.mark.parametrize(
    ("fn", "at"),
    [
        (kept, (kept, 2)),
        (kept_in_a_call, (kept, 2)),
        (found_by_index, (found_by_index, 2)),
        (counted, (counted, 1)),
        (without_repeats, (without_repeats, 2)),
        (kept_twice, (kept_twice, 1)),
        (after_a_loop, (after_a_loop, 6)),
        (jax.value_and_grad(lambda x: kept(x).sum()), (kept, 2)),
    ],
)
def test_it_is_named_where_sizes_depend_on_data(wrong_sine, fn, at):
    with pytest.raises(sardonyx.Error, match="differs from JAX") as error:
        sardonyx.to_onnx(fn, ["f32[B]"], check=True)
    where, line = at
    line += where.__code__.co_firstlineno
    assert "the first equation that differs is sin of f32[" in error.value.notes[0]
    assert f"at test_check.py:{line} ({where.__name__})" in error.value.notes[0]


@pytest.mark.parametrize("fn", [kept_in_a_call, after_a_loop])
def test_what_jax_refuses_to_run_is_compared(fn):
    """Sizes that depend on data within jit and loops: JAX itself has no result to compare with."""
    with pytest.raises(IndexError, match="must be concrete"):
        fn(jnp.arange(3.0))
    sardonyx.to_onnx(fn, ["f32[B]"], check=True)


class Wrong(sardonyx.plugins.Plugin):
    """Its lowering is off; it has an impl in the second test only."""

    jaxpr_primitive = "patched_square"

    @classmethod
    def binding_specs(cls):
        return [sardonyx.plugins.AssignSpec(library, "square", lambda x: cls.primitive().bind(x))]

    @staticmethod
    def abstract_eval(x):
        return x

    def lower(self, ctx, eqn):
        return ctx.builder.Abs(ctx.get_value_for_var(eqn.invars[0]))


library = types.SimpleNamespace(__name__="library", square=lambda x: x * x)


def patched(x):
    y = jnp.exp(x)
    return jax.jit(lambda z: library.square(z) + 1)(y) - y


def test_a_patched_function_without_impl_is_named():
    sardonyx.plugins.register(Wrong)
    try:
        with pytest.raises(sardonyx.Error) as error:
            sardonyx.to_onnx(patched, [("B", 3)], check=True)
    finally:
        sardonyx.plugins.unregister("patched_square")
    assert (
        "what comes before it agrees; patched_square of f32[2,3] -> f32[2,3], at test_check.py" in error.value.notes[0]
    )
    assert "its plugin has no impl" in error.value.notes[0]


def test_a_patched_function_is_compared_with_its_impl():
    class Known(Wrong):
        jaxpr_primitive = "known_square"
        _PRIM = None

        @staticmethod
        def impl(x):
            return library.square(x)

    sardonyx.plugins.register(Known)
    try:
        with pytest.raises(sardonyx.Error) as error:
            sardonyx.to_onnx(patched, [("B", 3)], check=True)
    finally:
        sardonyx.plugins.unregister("known_square")
    assert "the first equation that differs is known_square of f32[2,3]" in error.value.notes[0]


def test_what_agrees_passes():
    def fn(x, k):
        return jax.random.normal(k, (3,)) + x, x > 0

    sardonyx.to_onnx(fn, [("B", 3), jax.random.key(0)], check=True)


def other_exporter(fn, inputs):
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[B,3] a) => (float[B,3] b) { c = Sin(a) b = Add(c, c) }'
    )


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.bfloat16, jnp.int4, jnp.uint4])
def test_small_types_are_compared(dtype):
    sardonyx.to_onnx(jnp.transpose, [jax.ShapeDtypeStruct((3, 5), dtype)], check=True)


def test_shadow():
    _, report = sardonyx.to_onnx(lambda x: jnp.sin(x) * 2, [("B", 3)], shadow=other_exporter, return_report=True)
    told = report.shadow
    assert told.same_results and (told.exporter, told.other_nodes) == ("other_exporter", 2)
    assert told.more == {"Mul": 1} and told.fewer == {"Add": 1}
    assert "results agree" in str(report)

    _, report = sardonyx.to_onnx(lambda x: jnp.sin(x) * 3, [("B", 3)], shadow=other_exporter, return_report=True)
    assert report.shadow.same_results is False


def test_shadow_with_jax2onnx_passes_on_shapes_and_dtypes(monkeypatch):
    seen = []

    def theirs(fn, inputs, *, opset, enable_double_precision, input_params=None):
        seen.append([(tuple(x), "given") if isinstance(x, tuple) else (x.shape, str(x.dtype)) for x in inputs])
        return sardonyx.to_onnx(fn, inputs, input_params, opset=opset, input_names="positional")

    monkeypatch.setitem(sys.modules, "jax2onnx", types.SimpleNamespace(to_onnx=theirs))

    def fn(p, i, *, scale):
        return {"y": jnp.take(p["w"], i, 0) * scale, "n": i + p["n"]}

    inputs = [{"w": "f32[7,H]", "n": "i32[]"}, "i32[B,2*T]"]
    _, report = sardonyx.to_onnx(fn, inputs, {"scale": np.float32(3)}, shadow="jax2onnx", return_report=True)
    assert report.shadow.same_results, str(report.shadow)
    assert seen == [[((), "int32"), ((7, "H"), "float32"), (("B", "2*T"), "int32")]]
    _, report = sardonyx.to_onnx(
        jnp.sin, [("B", 3)], shadow="jax2onnx", return_report=True
    )  # keywords that it already accepts stay as written
    assert report.shadow.same_results and seen[1] == [(("B", 3), "given")]


def test_shadow_that_fails():
    def broken(fn, inputs):
        raise RuntimeError("no way")

    model, report = sardonyx.to_onnx(jnp.sin, [("B", 3)], shadow=broken, return_report=True)
    assert len(model.graph.node) == 1
    assert "it failed: RuntimeError: no way" in report.shadow.text
    with pytest.raises(sardonyx.Error, match="shadow='torch'"):
        sardonyx.to_onnx(jnp.sin, [(3,)], shadow="torch")
    with pytest.raises(sardonyx.Error, match="must return an onnx.ModelProto, found int"):
        sardonyx.to_onnx(jnp.sin, [(3,)], shadow=lambda fn, inputs: 3)


def test_shadow_in_other_shapes():
    def flat(fn, inputs):
        return sardonyx.to_onnx(lambda x: jnp.ravel(fn(x)), inputs)

    _, report = sardonyx.to_onnx(jnp.sin, [(2, 3)], shadow=flat, return_report=True)
    assert "'output' is float32[6] there, float32[2, 3] here" in report.shadow.text
    assert np.isfinite(report.stages["shadow"])


# --- results that JAX leaves open


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def symmetric(x):
    return x + x.swapaxes(-1, -2)


CHOICES = {
    "eigh": (jnp.linalg.eigh, [symmetric(normal(5, 5))]),
    "eigh of the upper triangle": (
        lambda x: jax.lax.linalg.eigh(x, lower=False, symmetrize_input=False),
        [normal(5, 5)],
    ),
    "eigh of batches": (lambda x: jnp.linalg.eigh(symmetric(x)), [("B", 5, 5)]),
    "svd": (jnp.linalg.svd, [normal(2, 7, 4)]),
    "thin svd": (lambda x: jnp.linalg.svd(x, full_matrices=False), [normal(5, 7)]),
    "complex svd": (jnp.linalg.svd, [(normal(5, 4) + 1j * normal(5, 4)).astype(np.complex64)]),
    "svd of named sizes": (lambda x: jnp.linalg.svd(x, full_matrices=False), [("N", 4)]),
    "full svd of named sizes": (jnp.linalg.svd, [("B", "M", "N")]),
    "eig": (jnp.linalg.eig, [normal(5, 5)]),
    "schur": (jax.scipy.linalg.schur, [normal(5, 5)]),
    "principal components": (
        lambda x: x @ jnp.linalg.svd(x - x.mean(0), full_matrices=False)[2][:2].T,
        [normal(11, 5)],
    ),
    "one vector": (lambda x: jnp.linalg.eigh(symmetric(x))[1][:, 1] + jnp.sin(x[0]), [normal(5, 5)]),
    "a gradient": (jax.grad(lambda x: jnp.linalg.eigh(symmetric(x))[1][0].sum()), [normal(5, 5)]),
}


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("case", list(CHOICES))
def test_signs_and_phases_of_vectors_are_the_model_s_choice(case, double):
    fn, inputs = CHOICES[case]
    if case == "schur" and double and RUNTIME < (1, 27):
        pytest.skip("this onnxruntime has no Cos of doubles")
    if double:
        inputs = [x.astype(np.result_type(x, np.float64)) if hasattr(x, "astype") else x for x in inputs]
    sardonyx.to_onnx(fn, inputs, check=True, enable_double_precision=double)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            lambda b, v, w: [b.Mul(v, b.add_initializer_from_scalar("two", np.float32(2))), w],
            "first equation that differs is eigh",
        ),
        (lambda b, v, w: [v, b.Neg(w)], "first equation that differs is eigh"),
        (lambda b, v, w: [v, w], None),
    ],
)
def test_other_vectors_than_those_of_the_matrix_are_found(wrong, told):
    def lower(ctx, eqn):
        b = ctx.builder
        v = b.add_initializer_from_array("v", np.array([[-1, 1], [1, 1]], np.float32) / np.sqrt(np.float32(2)))
        w = b.add_initializer_from_array("w", np.array([1, 3], np.float32))
        return wrong(b, v, w)

    a = np.array([[2, 1], [1, 2]], np.float32)
    sardonyx.lowering("eigh")(lower)
    try:
        if told is None:
            sardonyx.to_onnx(lambda x: jnp.linalg.eigh(a + 0 * x)[1], [(2, 2)], check=True)
            return
        with pytest.raises(sardonyx.Error, match=told):
            sardonyx.to_onnx(lambda x: jnp.linalg.eigh(a + 0 * x), [(2, 2)], check=True)
    finally:
        sardonyx.plugins.unregister("eigh")


def test_a_fault_behind_an_open_result_is_named(wrong_sine):
    with pytest.raises(sardonyx.Error, match="first equation that differs is sin of"):
        sardonyx.to_onnx(lambda x: jnp.sin(jnp.linalg.eigh(x)[1]), [symmetric(normal(5, 5))], check=True)


def test_more_branches_in_each_other_than_a_file_can_hold():
    def nested(n):
        def level(k, x, i):
            return jnp.sin(x) if k == 0 else jax.lax.cond(i == k, lambda: x * k, lambda: level(k - 1, x, i))

        return lambda x, i: level(n, x, i)

    # Up to 1.27, onnxruntime's time to load a model doubles with each level.
    sardonyx.to_onnx(nested(31), [(3,), "i32[]"], check=RUNTIME >= (1, 31))
    with pytest.raises(sardonyx.Error, match="branches and loops are nested 32 deep.* at most 31") as e:
        sardonyx.to_onnx(nested(32), [(3,), "i32[]"])
    assert e.value.code == "limit" and "help: nested conds" in str(e.value) and "return_mode" not in str(e.value)
    model = sardonyx.to_onnx(nested(40), [(3,), "i32[]"], return_mode="ir")
    assert sardonyx.evaluate(model, {"x": np.ones(3, np.float32), "i": np.int32(7)})["output"].tolist() == [7, 7, 7]


class Broken:
    """onnxruntime with an optimizer that is at fault: results of sessions at its default level are one too large,
    or loading fails."""

    def __init__(self, monkeypatch, fails=None):

        class Session(onnxruntime.InferenceSession):
            def __init__(self, source, options, **kwargs):
                self.is_broken = options.graph_optimization_level == self.levels.ORT_ENABLE_ALL
                if self.is_broken and fails == "load":
                    raise RuntimeError("Node input 'mid' is not a graph input")
                super().__init__(source, options, **kwargs)
                self.made.append(self.is_broken)

            def run(self, names, feeds):
                if self.is_broken and fails == "run":
                    raise RuntimeError("Ranks of input data are different")
                return [x + (1 if self.is_broken else 0) for x in super().run(names, feeds)]

        Session.levels = onnxruntime.GraphOptimizationLevel
        Session.made = self.made = []
        monkeypatch.setattr(onnxruntime, "InferenceSession", Session)


def test_the_optimizer_of_onnxruntime_is_blamed(monkeypatch):
    Broken(monkeypatch)
    with pytest.raises(sardonyx.Error) as error:
        sardonyx.to_onnx(jnp.exp, [("B", 3)], check=True)

    assert error.value.message.startswith(
        f"onnxruntime {onnxruntime.__version__} changes the exported model's results when it optimizes the graph at B=2: "
        "result 0 ('output') differs by up to 1 "
    )
    assert error.value.notes[0] == "without its optimizations they agree with JAX: the model is right"


def test_compare_blames_it_too(monkeypatch):
    model = sardonyx.to_onnx(jnp.exp, [("B", 3)])
    Broken(monkeypatch)
    same, text = sardonyx.compare(jnp.exp, model, [(2, 3)])
    assert not same and "differs by up to 1 " in text
    assert text.endswith("changes the results when it optimizes the graph; without its optimizations they agree")


def test_a_wrong_model_is_not_its_fault(wrong_sine, monkeypatch):
    model = sardonyx.to_onnx(jnp.sin, [("B", 3)])
    assert "optimiz" not in sardonyx.compare(jnp.sin, model, [(2, 3)]).text
    Broken(monkeypatch)
    assert "optimiz" not in sardonyx.compare(jnp.sin, model, [(2, 3)]).text


@pytest.mark.parametrize("what", ["load", "run"])
def test_what_only_the_optimizer_cannot_do(monkeypatch, what):
    Broken(monkeypatch, fails=what)
    with pytest.raises(sardonyx.Error, match=f"does not {what} the model as it optimizes the graph: ") as error:
        sardonyx.to_onnx(jnp.exp, [("B", 3)], check=True)
    assert error.value.notes[0] == f"without its optimizations it does {what} it: the model is right"


def test_where_nothing_differs_one_session_is_made(monkeypatch):
    made = Broken(monkeypatch).made
    monkeypatch.setattr(
        "onnxruntime.InferenceSession.run", lambda self, names, feeds: [np.exp(x) for x in feeds.values()]
    )
    sardonyx.to_onnx(jnp.exp, [("B", 3)], check=True)
    assert made == [True]


def test_shadow_names_the_side_that_it_changes(monkeypatch):
    Broken(monkeypatch)
    _, report = sardonyx.to_onnx(jnp.exp, [("B", 3)], shadow=lambda fn, inputs: wrong_by_one(), return_report=True)
    told = report.shadow
    assert not told.same_results
    assert "ours: onnxruntime" in told.text and "theirs: onnxruntime" in told.text


def wrong_by_one():
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[B,3] x) => (float[B,3] y) '
        "{ one = Constant<value_float=2.0>() e = Exp(x) y = Add(e, one) }"
    )


def test_simplify_compares_with_the_model_as_it_is_written(monkeypatch):
    Broken(monkeypatch)
    with pytest.warns(UserWarning, match="changes the results when it optimizes the graph"):
        _, ok = simplify(wrong_by_one(), check_n=1, test_input_shapes={"x": [2, 3]})
    assert not ok
