"""Symbolic sizes where JAX itself requires a number: loops over a size, associative scans, axes of vmap,
singular values; and the errors for the rest."""

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
