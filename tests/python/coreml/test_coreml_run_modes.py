"""MIL ops in all their modes on the evaluator, beside NumPy: those that the lowering of ONNX emits and that coremltools cannot fold."""

import itertools

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
from mil_programs import mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402

MODES = {
    "update": lambda old, new: new,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def evaluated(body, *inputs, target=ct.target.iOS17, tmp_path):
    specs = [mb.TensorSpec(shape=x.shape, dtype=types.int32 if x.dtype == np.int32 else types.fp32) for x in inputs]
    package = tmp_path / "x.mlpackage"
    programs.save(mb.program(input_specs=specs, opset_version=target)(body), package, target)
    return list(coreml.load(package).run(list(inputs)).values())


def normal(*shape, seed=3):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def scattered(data, places, mode):
    """places: pairs of an index into data and a number, in order."""
    out = data.astype(np.float64)
    for at, value in places:
        out[at] = MODES[mode](out[at], value)
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter(mode, target, axis, tmp_path):
    data, indices = normal(5, 7, 3), np.array([2, 0, 1], np.int32)
    shape = list(data.shape)
    shape[axis] = 3
    updates = normal(*shape, seed=5) + 3
    (found,) = evaluated(
        lambda d, u: mb.scatter(data=d, indices=indices, updates=u, axis=axis, mode=mode),
        data,
        updates,
        target=target,
        tmp_path=tmp_path,
    )
    places = []
    for k, i in enumerate(indices):
        at = [slice(None)] * 3
        at[axis] = int(i)
        places.append((tuple(at), np.take(updates, k, axis)))
    np.testing.assert_allclose(found, scattered(data, places, mode), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("repeated", [False, True])
def test_scatter_nd(mode, repeated, tmp_path):
    if repeated and mode == "update":
        pytest.skip("which update wins is not defined")
    data, indices = normal(5, 7, 3), np.array([[2, 4], [0, 6], [2, 4] if repeated else [2, 3]], np.int32)
    updates = normal(3, 3, seed=5) + 3
    (found,) = evaluated(
        lambda d, i, u: mb.scatter_nd(data=d, indices=i, updates=u, mode=mode),
        data,
        indices,
        updates,
        tmp_path=tmp_path,
    )
    places = [(tuple(map(int, i)), u) for i, u in zip(indices, updates, strict=True)]
    np.testing.assert_allclose(found, scattered(data, places, mode), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [0, 2])
def test_scatter_along_axis(mode, axis, tmp_path):
    data = normal(5, 7, 11)
    shape = [5, 7, 11]
    shape[axis] = 3
    rng = np.random.default_rng(7)
    # Each row of the axis has places of its own, without repetition.
    indices = np.sort(np.argsort(rng.random(data.shape), axis=axis).take(range(3), axis), axis).astype(np.int32)
    updates = normal(*shape, seed=5) + 3
    (found,) = evaluated(
        lambda d, i, u: mb.scatter_along_axis(data=d, indices=i, updates=u, axis=axis, mode=mode),
        data,
        indices,
        updates,
        tmp_path=tmp_path,
    )
    places = []
    for at in itertools.product(*map(range, shape)):
        to = list(at)
        to[axis] = int(indices[at])
        places.append((tuple(to), updates[at]))
    np.testing.assert_allclose(found, scattered(data, places, mode), rtol=1e-5, atol=1e-6)


def grid(mode, before, after):
    """Where the results lie among the inputs, as coremltools documents `sampling_mode`."""
    i = np.arange(after)
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        at = i * ((before - 1) / (after - 1)) if after > 1 else np.array([(before - 1) / 2 if mode[0] == "A" else 0.0])
    elif mode == "DEFAULT":
        at = i * ((before - before / after) / (after - 1)) if after > 1 else np.zeros(1)
    elif mode == "OFFSET_CORNERS":
        delta = max(1, before - 1) / after
        at = 0.5 * delta + i * delta
    else:
        at = (i + 0.5) * (before / after) - 0.5
    return np.clip(at, 0, before - 1)


def interpolated(x, axis, at):
    low = np.floor(at).astype(int)
    high, share = np.minimum(low + 1, x.shape[axis] - 1), at - low
    share = np.expand_dims(share, tuple(range(1, x.ndim - axis)))
    return np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share


@pytest.mark.parametrize(
    "mode", ["DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "OFFSET_CORNERS", "UNALIGN_CORNERS"]
)
@pytest.mark.parametrize("size", [(11, 13), (3, 2), (1, 17), (5, 7)])
def test_resize_bilinear(mode, size, tmp_path):
    x = normal(2, 3, 5, 7)
    (found,) = evaluated(
        lambda x: mb.resize_bilinear(x=x, target_size_height=size[0], target_size_width=size[1], sampling_mode=mode),
        x,
        target=ct.target.iOS16,
        tmp_path=tmp_path,
    )
    wanted = interpolated(interpolated(x.astype(np.float64), 2, grid(mode, 5, size[0])), 3, grid(mode, 7, size[1]))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid"])
def test_rnn(direction, activation, tmp_path):
    x, h = normal(5, 3, 7), normal(3, 2, seed=5)
    wi, wh, b = normal(2, 7, seed=7), normal(2, 2, seed=11), normal(2, seed=13)
    found = evaluated(
        lambda x, h: mb.rnn(
            x=x,
            initial_h=h,
            weight_ih=wi,
            weight_hh=wh,
            bias=b,
            direction=direction,
            output_sequence=True,
            activation=activation,
        ),
        x,
        h,
        tmp_path=tmp_path,
    )
    f = {"tanh": np.tanh, "relu": lambda v: np.maximum(v, 0), "sigmoid": lambda v: 1 / (1 + np.exp(-v))}[activation]
    steps = []
    for t in range(5) if direction == "forward" else reversed(range(5)):
        h = f(x[t] @ wi.T + h @ wh.T + b)
        steps.append(h)  # the results of "reverse" are in the order of reading
    np.testing.assert_allclose(found[0], np.stack(steps), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("reset_after", [None, False, True])
def test_gru(direction, bias, reset_after, tmp_path):
    x, h = normal(5, 3, 7), normal(3, 2, seed=5)
    wi, wh, b, bi = normal(6, 7, seed=7), normal(6, 2, seed=11), normal(6, seed=13) * bias, normal(6, seed=17) * bias
    extra = {} if reset_after is None else {"reset_after": reset_after, "input_bias": bi}
    found = evaluated(
        lambda x, h: mb.gru(
            x=x, initial_h=h, weight_ih=wi, weight_hh=wh, bias=b, direction=direction, output_sequence=True, **extra
        ),
        x,
        h,
        target=ct.target.iOS17 if reset_after is None else ct.target.iOS18,
        tmp_path=tmp_path,
    )
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    (i_r, i_o, i_z), (h_r, h_o, h_z), (b_r, b_o, b_z) = np.split(wi, 3), np.split(wh, 3), np.split(b, 3)
    bi_r, bi_o, bi_z = np.split(bi if extra else np.zeros(6), 3)
    steps = []
    for t in range(5) if direction == "forward" else reversed(range(5)):
        r = sigmoid(x[t] @ i_r.T + bi_r + h @ h_r.T + b_r)
        z = sigmoid(x[t] @ i_z.T + bi_z + h @ h_z.T + b_z)
        # What coremltools' tests of the op compute beside a device; with reset_after, PyTorch's GRU.
        new = r * (h @ h_o.T + b_o) if reset_after else (r * h) @ h_o.T + b_o
        h = (1 - z) * np.tanh(x[t] @ i_o.T + bi_o + new) + z * h
        steps.append(h)
    np.testing.assert_allclose(found[0], np.stack(steps), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [None, "float", "bool"])
def test_attention(mask, tmp_path):
    q, k, v = normal(2, 3, 5, 7), normal(2, 3, 11, 7, seed=5), normal(2, 3, 11, 13, seed=7)
    kept = np.random.default_rng(11).random((5, 11)) < 0.7
    kept[:, 0] = True
    given = {None: None, "float": normal(5, 11, seed=13), "bool": kept}[mask]

    def body(q, k, v):
        extra = {} if given is None else {"attn_mask": given}
        return mb.scaled_dot_product_attention(query=q, key=k, value=v, **extra)

    (found,) = evaluated(body, q, k, v, target=ct.target.iOS18, tmp_path=tmp_path)
    scores = q.astype(np.float64) @ k.transpose(0, 1, 3, 2) / 7**0.5
    if mask == "float":
        scores += given
    if mask == "bool":
        scores = np.where(kept, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
