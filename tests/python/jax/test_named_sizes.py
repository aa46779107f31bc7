"""Symbolic sizes where JAX itself requires a number: loops over a size, associative scans, axes of vmap,
singular values; and the errors for the rest."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sardonyx
from jax import lax
from judge import compare, outputs

RNG = np.random.default_rng(3)


def agree(fn, inputs, *data, tolerance=1e-5):
    """Exports one model and compares it with JAX at each of these operands, where sizes are known."""
    model = sardonyx.to_onnx(fn, inputs)
    for operands in data:
        compare(fn(*map(jnp.asarray, operands)), outputs(model, list(operands)), tolerance)
    return model


def rows(*sizes, rest=(3,)):
    return [[RNG.standard_normal((n, *rest)).astype(np.float32)] for n in sizes]


def test_a_loop_as_long_as_an_axis():
    def fn(x):
        return lax.scan(lambda c, _: (c * 0.5 + x[0], c), jnp.zeros(3), None, length=x.shape[0])

    agree(fn, [("B", 3)], *rows(5, 2, 1))
    agree(lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x, length=x.shape[0])[1], [("B", 3)], *rows(5, 1))
    half = lambda x: lax.scan(lambda c, _: (c + 1, c), 0.0, (), length=x.shape[0] // 2 + 1)[1]  # noqa: E731
    agree(half, [("B", 3)], *rows(7, 1))


def test_a_loop_as_long_as_a_value_says():
    model = sardonyx.to_onnx(lambda n: lax.scan(lambda c, _: (c * 2, c), 1.0, None, length=n)[1], ["i32[]"])
    for n in (5, 1, 0):
        assert outputs(model, [np.array(n, np.int32)])[0].tolist() == [2.0**i for i in range(n)]


def test_a_loop_of_another_length_than_its_arrays():
    with pytest.raises(sardonyx.Error, match=r"scan got `length` floordiv\(B, 2\), and arrays of B rows"):
        sardonyx.to_onnx(lambda x: lax.scan(lambda c, r: (c, r), 0.0, x, length=x.shape[0] // 2)[1], [("B", 3)])


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scans(reverse):
    def linear(a, b):
        return lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b), reverse=reverse)

    agree(linear, [("T", 3), ("T", 3)], *([*a, *b] for a, b in zip(rows(11, 7, 2, 1), rows(11, 7, 2, 1), strict=True)))
    agree(lambda x: lax.associative_scan(jnp.maximum, x, reverse, axis=1), [("B", "T")], *rows(5, 2, rest=(13,)))
    agree(lambda x: lax.associative_scan(jnp.matmul, x, reverse), [("T", 2, 2)], *rows(7, 1, rest=(2, 2)))


def test_gradients_of_associative_scans():
    def fn(x):
        return jax.grad(lambda x: (lax.associative_scan(jnp.multiply, x) ** 2).sum())(x)

    agree(fn, [("T", 3)], *rows(5, 1), tolerance=1e-4)


def test_an_axis_of_vmap_with_a_name():
    def fn(v):
        return (v - lax.pmean(v, "i")) * lax.axis_size("i") + lax.psum(1, "i") + lax.psum(2.5, "i")

    agree(jax.vmap(fn, axis_name="i"), [("B", 3)], *rows(5, 1))


@pytest.mark.parametrize("full", [False, True])
def test_singular_values_of_tall_and_wide_matrices_by_one_model(full):
    model = sardonyx.to_onnx(lambda x: jnp.linalg.svd(x, full_matrices=full), [("M", "N")])
    values = sardonyx.to_onnx(lambda x: jnp.linalg.svd(x, compute_uv=False), [("M", "N")])
    for m, n in ((5, 3), (3, 5), (4, 4), (1, 7), (7, 1), (1, 1), (2, 11)):
        x = RNG.standard_normal((m, n)).astype(np.float32)
        for a in (x, x[:, :1] @ x[:1], 0 * x):
            u, s, vh = outputs(model, [a])
            k = min(m, n)
            assert (u.shape, s.shape, vh.shape) == (((m, m), (k,), (n, n)) if full else ((m, k), (k,), (k, n)))
            for found, wanted in (
                ((u[:, :k] * s) @ vh[:k], a),
                (u.T @ u, np.eye(u.shape[1])),
                (vh @ vh.T, np.eye(vh.shape[0])),
                (s, np.linalg.svd(a, compute_uv=False)),
                (outputs(values, [a])[0], np.linalg.svd(a, compute_uv=False)),
            ):
                np.testing.assert_allclose(found, wanted, atol=2e-5)


def first(x):
    return x[:4] if x.shape[0] > 4 else x


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (first, ["N <= 4", "N >= 5"]),
        (lambda x: x[:4] if x.shape[0] >= 4 else x, ["N >= 4", "N <= 3"]),
        (lambda x: x[:4] if x.shape[0] < 4 else x, ["N >= 4", "N <= 3"]),
        (lambda x: x * 2 if x.shape[0] <= 4 else x, ["N <= 4", "N >= 5"]),
        (jnp.linalg.pinv, ["N >= 4", "N <= 3"]),
        (lambda x: x * 2 if 7 - x.shape[0] >= 0 else x, ["N <= 7", "N >= 8"]),
        (lambda x: x * 2 if 3 * x.shape[0] + 2 > 12 else x, ["N <= 3", "N >= 4"]),
        (lambda x: x * 2 if 3 * x.shape[0] < 12 else x, ["N >= 4", "N <= 3"]),
    ],
)
def test_what_is_said_to_be_stated_is_enough(fn, said):
    with pytest.raises(sardonyx.Error, match="inconclusive") as e:
        sardonyx.to_onnx(fn, [("N", 4)])
    (told,) = [note for note in e.value.notes if note.startswith("help: state ")]
    for fact in said:
        assert f'"{fact}"' in told
        sardonyx.to_onnx(fn, [(fact, 4)])


def test_a_number_that_no_statement_gives():
    with pytest.raises(sardonyx.Error, match="help: JAX wants a number here: give B one in the inputs") as e:
        sardonyx.to_onnx(lambda x: x + int(x.shape[0]), [("B", 3)])
    assert "B >= 2" not in str(e.value)


def equal(x, y):
    return x.sum() + y.sum() if x.shape[0] == y.shape[0] else x.sum()


def unequal(x, y):
    return x.sum() if x.shape[0] != y.shape[0] else x.sum() + y.sum()


def shapes(x, y):
    return x + y if x.shape == y.shape else x


@pytest.mark.parametrize("fn", [equal, unequal, shapes])
def test_a_branch_on_two_names_is_told(fn):
    with pytest.warns(
        UserWarning, match=rf'{fn.__name__} compares .* "B == T" at test_named_sizes.py:\d+ \({fn.__name__}\)'
    ):
        sardonyx.to_onnx(fn, [("B", 3), ("T", 3)])
    agree(fn, [("B", 3), ("B", 3)], [np.ones((5, 3), np.float32)] * 2)  # one name: decided, and nothing is said


@pytest.mark.parametrize(
    ("fn", "taken", "decided"),
    [
        (lambda x: x * 2 if x.shape[0] == 1 else x, "B == 1", "B >= 2"),
        (lambda x: x * 2 if x.shape[0] % 2 == 0 else x, r"mod\(B, 2\) == 0", "2*B"),
        (lambda x: x * 2 if x.shape[0] % 2 else x, r"mod\(B, 2\) == 0", "2*B"),
        (lambda x: x * 2 if x.shape[0] in (3, 5) else x, "B == 3", 7),
        (lambda x: x if x.shape[0] else x * 2, None, "B"),  # a size is at least 1
    ],
)
def test_a_branch_on_one_name_is_told(fn, taken, decided):
    if taken:
        with pytest.warns(UserWarning, match=taken) as told:
            sardonyx.to_onnx(fn, [("B", 3)])
        assert isinstance(decided, int) or f'"{decided}"' in str(told[0].message)
    sardonyx.to_onnx(fn, [(decided, 3)])


def test_a_check_compares_at_sizes_of_the_side_that_was_taken():
    with pytest.warns(UserWarning, match="mod"):
        sardonyx.to_onnx(lambda x: x * 2 if x.shape[0] % 2 == 0 else x, [("B", 3)], check=True)
    # No size that is tried has the other side.
    with pytest.warns(UserWarning, match="mod"), pytest.raises(sardonyx.Error, match="the model has the side where"):
        sardonyx.to_onnx(lambda x: x * 2 if x.shape[0] % 2 == 0 else x, [("B >= 2048", 3)], check=True)


def test_a_comparison_that_fails_is_named_in_the_error():
    def fn(x, y):
        assert x.shape[0] == y.shape[0]
        return x

    with pytest.raises(sardonyx.Error, match='help: "B == T" at .* is not known to hold') as e:
        sardonyx.to_onnx(fn, [("B", 3), ("T", 3)])
    assert "use one name in the shapes" in str(e.value)


def test_sizes_compare_as_before_outside_of_an_export():
    from jax import export

    sardonyx.to_onnx(lambda x: x, [("B", 3)])
    kind = type(export.symbolic_shape("B")[0])
    assert "__bool__" not in vars(kind) and kind.__eq__.__module__.startswith("jax")


TABLE = np.ones((64, 8), np.float32)


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (lambda x: x + jnp.asarray(TABLE)[: x.shape[1]], 'state "T <= 64" in place of T'),
        (lambda x: np.sin(x), "write jnp.sin: NumPy"),
        (lambda x: x[:, 0] * np.arange(x.shape[0])[:, None], "write jnp.arange: NumPy"),
        (lambda x: x + np.zeros(x.shape), "write jnp.zeros: NumPy"),
        (lambda x: x * len(x), "write x.shape[0] for len(x)"),
        (lambda x: x * float(x.shape[0]), "write jnp.float32(x.shape[0])"),
        (lambda x: x / math.sqrt(x.shape[1]), "write jnp.sqrt: a size with a name"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), "jax.lax.fori_loop"),
    ],
)
def test_what_python_needs_a_number_for_is_answered(fn, told):
    with pytest.raises(sardonyx.Error, match="does not trace") as e:
        sardonyx.to_onnx(fn, [("B", "T", 8)])
    (note,) = [note for note in e.value.notes if note.startswith("help: ")]
    assert told in note


def test_the_smaller_of_a_size_and_a_number():
    with pytest.raises(
        sardonyx.Error, match=r'write jax\.core\.min_dim\(a, b\) for min\(a, b\) of sizes, or state .*"N <= 5"'
    ):
        sardonyx.to_onnx(lambda x: x[: min(x.shape[0], 5)], [("N", 3)])
    sardonyx.to_onnx(lambda x: x[: jax.core.min_dim(x.shape[0], 5)], [("N", 3)], check=True)


def test_a_table_that_is_long_enough_is_sliced():
    agree(lambda x: x + jnp.asarray(TABLE)[: x.shape[1]], [("B", "T <= 64", 8)], [np.ones((3, 5, 8), np.float32)])


@pytest.mark.parametrize(
    ("fn", "ops"),
    [
        (lambda x: x[::-1], ["Slice"]),
        (lambda x: x[:, ::-1], ["Slice"]),
        (lambda x: jnp.flip(x, 0), ["Slice"]),
        (lambda x: x[::2], None),
        (lambda x: x[1::3], None),
        (lambda x: x[jnp.arange(x.shape[0])], []),
    ],
)
def test_every_so_many_rows_are_a_slice(fn, ops):
    for shape, axis in ((("B >= 4", 3), 0), ((3, "B >= 4"), 1)):
        given = fn if axis == 0 else lambda x: fn(x.T).T
        found = {n.op_type for n in sardonyx.to_onnx(fn, [("B >= 4", 3)]).graph.node}
        assert "Gather" not in found and (ops is None or found <= {*ops, "Identity"})
        agree(
            given,
            [shape],
            *([np.arange(3.0 * n, dtype=np.float32).reshape((n, 3) if axis == 0 else (3, n))] for n in (4, 5, 11)),
        )
