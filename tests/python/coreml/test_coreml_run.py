"""MIL ops on the evaluator, compared with coremltools' values where it has them, and with NumPy otherwise."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install -r requirements-dev.txt")

import coremltools as ct  # noqa: E402
import mil_programs as programs  # noqa: E402
import sardonyx  # noqa: E402
from mil_programs import mb, types  # noqa: E402
from sardonyx import coreml  # noqa: E402


def make(one, rng):
    if one.dtype == types.bool:
        return rng.random(one.shape) < 0.5
    if one.dtype == types.int32:  # indices, most of them
        return rng.integers(0, 2, one.shape).astype(np.int32)
    return rng.standard_normal(one.shape).astype(types.nptype_from_builtin(one.dtype))


def inputs_of(case):
    names = [n for n, v in case.operands.items() if isinstance(v, programs.Input)] if case.build is None else None
    return names, [case.operands[n] for n in names] if names is not None else case.inputs


def expected_values(case, target, values, names):
    """The values that coremltools computes for constants; None where it does not."""
    results = []

    def body(dummy):
        constants = [mb.const(val=v) for v in values]
        if case.build is not None:
            out = case.build(*constants)
        else:
            fixed = {n: v for n, v in case.operands.items() if n not in names}
            out = getattr(mb, case.op)(**dict(zip(names, constants, strict=True)), **fixed)
        results.extend(out if isinstance(out, (list, tuple)) else [out])
        return mb.identity(x=dummy)

    try:
        with programs.quiet():
            mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=target)(body)
    except (TypeError, ValueError):  # it cannot fold this one
        return None
    found = [r.val for r in results]
    return None if any(v is None for v in found) else found


def run(case, target, values, path):
    programs.save(programs.build(case, target), path, target)
    results = list(coreml.load(path).run(values if values else [np.zeros(1, np.float32)]).values())
    return results if values else results[1:]


# Programs that draw new constants each time they are built, and ops whose folding ignores a parameter.
OTHER_VALUES = {"const", "cond", "concat-interleave"}
CASES = [pytest.param(c, t, id=f"{c.id}-{t.name}") for c in programs.CASES for t in programs.targets_of(c)]


def close(got, want, tolerance=2e-5):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if got.dtype == bool or want.dtype == bool:
        assert (got == want).all()
        return
    half = 1e-3 if np.float16 in (got.dtype, want.dtype) else tolerance
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=half, atol=half / 20)


@pytest.mark.parametrize(("case", "target"), CASES)
def test_against_coremltools(case, target, tmp_path):
    rng = np.random.default_rng(3)
    names, inputs = inputs_of(case)
    values = [make(one, rng) for one in inputs]
    got = run(case, target, values, tmp_path / "x.mlpackage")
    want = expected_values(case, target, values, names)
    if case.id in OTHER_VALUES or want is None:
        return  # it ran
    for a, b in zip(got, want, strict=True):
        close(a, b)


# ----------------------------------------------------------------------------------------------------------------------
# NumPy implementations, element by element, from the definitions


def case_named(name, newest=True):
    found = [c for c in programs.CASES if c.id == name]
    targets = programs.targets_of(found[0])
    return found[0], targets[-1 if newest else 0]


def pads_of(kind, sizes, kernel, strides, given):
    if kind == "valid":
        return [(0, 0)] * len(sizes)
    if kind == "custom":
        return [(given[2 * k], given[2 * k + 1]) for k in range(len(sizes))]
    pads = []
    for n, k, s in zip(sizes, kernel, strides, strict=True):
        total = max(0, (math.ceil(n / s) - 1) * s + k - n)
        pads.append((total // 2, total - total // 2) if kind == "same" else (total - total // 2, total // 2))
    return pads


def conv(x, weight, bias=None, strides=None, pad_type="valid", pad=None, dilations=None, groups=1):
    spatial = x.ndim - 2
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    kernel = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    pads = pads_of(pad_type, x.shape[2:], kernel, strides, pad)
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    sizes = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], kernel, strides, strict=True)]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    per = weight.shape[0] // groups
    for place in itertools.product(*map(range, sizes)):
        window = x[
            (..., *(slice(p * s, p * s + k, d) for p, s, k, d in zip(place, strides, kernel, dilations, strict=True)))
        ]
        for o in range(weight.shape[0]):
            g = o // per
            part = window[:, g * weight.shape[1] : (g + 1) * weight.shape[1]]
            out[(slice(None), o, *place)] = (part * weight[o]).reshape(x.shape[0], -1).sum(1)
    return out if bias is None else out + bias.reshape(-1, *[1] * spatial)


def conv_transpose(x, weight, bias=None, strides=None, pad_type="valid", pad=None, dilations=None, groups=1):
    spatial = x.ndim - 2
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    kernel = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    out = np.zeros((x.shape[0], weight.shape[1] * groups, *sizes))
    per = weight.shape[0] // groups
    for place in itertools.product(*map(range, x.shape[2:])):
        at = tuple(slice(p * s, p * s + k, d) for p, s, k, d in zip(place, strides, kernel, dilations, strict=True))
        for c in range(x.shape[1]):
            to = slice(c // per * weight.shape[1], (c // per + 1) * weight.shape[1])
            value = x[(slice(None), c, *place)].reshape(-1, *[1] * (spatial + 1))
            out[(slice(None), to, *at)] += value * weight[c]
    if pad_type == "custom":
        cut = (slice(pad[2 * k], sizes[k] - pad[2 * k + 1]) for k in range(spatial))
        out = out[(..., *cut)]
    return out if bias is None else out + bias.reshape(-1, *[1] * spatial)


def pool(
    op, x, kernel_sizes, strides=None, pad_type="valid", pad=None, ceil_mode=False, exclude_padding_from_average=False
):
    spatial = x.ndim - 2
    strides = strides or [1] * spatial
    pads = pads_of(pad_type, x.shape[2:], kernel_sizes, strides, pad)
    sizes = []
    for n, k, s, (a, b) in zip(x.shape[2:], kernel_sizes, strides, pads, strict=True):
        size = math.ceil((n + a + b - k) / s) + 1 if ceil_mode else (n + a + b - k) // s + 1
        sizes.append(size - (ceil_mode and (size - 1) * s >= n + a))
    out = np.zeros((*x.shape[:2], *sizes))
    for place in itertools.product(*map(range, sizes)):
        cut, count = [], 1
        for p, s, k, (a, b), n in zip(place, strides, kernel_sizes, pads, x.shape[2:], strict=True):
            cut.append(slice(max(0, p * s - a), min(n, p * s - a + k)))
            count *= min(p * s - a + k, n + b) - (p * s - a)  # with the padding
        window = x[(..., *cut)].astype(np.float64).reshape(*x.shape[:2], -1)
        if op == "max_pool":
            value = window.max(-1)
        elif op == "l2_pool":
            value = np.sqrt((window**2).sum(-1))
        else:
            value = window.sum(-1) / (window.shape[-1] if exclude_padding_from_average else count)
        out[(..., *place)] = value
    return out


def lstm(x, initial_h, initial_c, weight_ih, weight_hh, bias=None, output_sequence=False, reverse=False):
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    h, c, steps = initial_h.astype(np.float64), initial_c.astype(np.float64), []
    for step in x[::-1] if reverse else x:
        gates = step @ weight_ih.T + h @ weight_hh.T + (0 if bias is None else bias)
        i, f, o, z = np.split(gates, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    steps = steps[::-1] if reverse else steps
    return np.stack(steps) if output_sequence else h[None], h, c


def gru(x, initial_h, weight_ih, weight_hh, bias=None, input_bias=0, output_sequence=False, reset_after=False):
    """As coremltools' tests of the op on a device have it: the state is reset before the product."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    h, steps = initial_h.astype(np.float64), []
    w_r, w_o, w_z = np.split(weight_hh, 3)
    b_r, b_o, b_z = np.split(np.zeros(len(weight_hh)) if bias is None else bias, 3)
    for step in x:
        x_r, x_o, x_z = np.split(step @ weight_ih.T + input_bias, 3, axis=-1)
        r, z = sigmoid(x_r + h @ w_r.T + b_r), sigmoid(x_z + h @ w_z.T + b_z)
        kept = r * (h @ w_o.T + b_o) if reset_after else (r * h) @ w_o.T + b_o
        h = (1 - z) * np.tanh(x_o + kept) + z * h
        steps.append(h)
    return np.stack(steps) if output_sequence else h[None], h


def normalized(x, axes, epsilon):
    x = x.astype(np.float64)
    centered = x - x.mean(axes, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axes, keepdims=True) + epsilon)


def per_channel(v, x):
    return np.reshape(v, (1, -1, *[1] * (x.ndim - 2)))


def batch_norm(x, mean, variance, gamma=1.0, beta=0.0, epsilon=1e-5):
    y = (x - per_channel(mean, x)) / np.sqrt(per_channel(variance, x).astype(np.float64) + epsilon)
    return y * per_channel(gamma, x) + per_channel(beta, x)


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    out = np.zeros(x.shape)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].astype(np.float64)
        out[:, c] = x[:, c] / (k + alpha / size * (near**2).sum(1)) ** beta
    return out


def shuffled(x, r, channel_first):
    n, c, height, width = x.shape
    out = np.zeros((n, c // (r * r), height * r, width * r), x.dtype)
    for o, i, j in itertools.product(range(c // (r * r)), range(r), range(r)):
        # pixel_shuffle: blocks of a channel are neighbours; depth_to_space: channels of a block are.
        source = o * r * r + i * r + j if channel_first else (i * r + j) * (c // (r * r)) + o
        out[:, o, i::r, j::r] = x[:, source]
    return out


def bilinear(x, sizes, align_corners):
    def grid(n, size):
        if align_corners:
            at = np.arange(size) * ((n - 1) / (size - 1))
        else:
            at = np.arange(size) * (n / size) + 0.5 * (n / size) - 0.5
        at = np.clip(at, 0, n - 1)
        low = np.minimum(np.floor(at).astype(int), n - 1)
        return low, np.minimum(low + 1, n - 1), at - low

    a, b, t = grid(x.shape[2], sizes[0])
    x = x[:, :, a] * (1 - t)[:, None] + x[:, :, b] * t[:, None]
    a, b, t = grid(x.shape[3], sizes[1])
    return x[..., a] * (1 - t) + x[..., b] * t


def definition(case, v, k):
    """The op's expected values; v are the inputs, k the constants."""
    op = case.op
    if op == "conv":
        return [conv(*v, **k)]
    if op == "conv_transpose":
        return [conv_transpose(*v, **k)]
    if op.endswith("_pool"):
        return [pool(op, *v, **k)]
    if op == "batch_norm":
        return [batch_norm(*v, **k)]
    if op == "instance_norm":
        y = normalized(v[0], tuple(range(2, v[0].ndim)), k["epsilon"])
        return [y * per_channel(k["gamma"], y) + per_channel(k["beta"], y)]
    if op == "local_response_norm":
        return [local_response_norm(*v, **k)]
    if op == "lstm" and "direction" in k:
        size = k["weight_hh"].shape[1]
        rest = {n: k[n] for n in ("output_sequence",)}
        f = lstm(v[0], k["initial_h"][:, :size], k["initial_c"][:, :size], k["weight_ih"], k["weight_hh"], **rest)
        b = lstm(
            v[0],
            k["initial_h"][:, size:],
            k["initial_c"][:, size:],
            k["weight_ih_back"],
            k["weight_hh_back"],
            reverse=True,
            **rest,
        )
        return [np.concatenate(pair, -1) for pair in zip(f, b, strict=True)]
    if op == "lstm":
        return list(lstm(*v, **k))
    if op == "gru":
        return list(gru(*v, **k))
    if op in ("pixel_shuffle", "depth_to_space"):
        return [shuffled(v[0], k.get("upscale_factor", k.get("block_size")), op == "pixel_shuffle")]
    if op == "upsample_bilinear":
        sizes = [
            math.floor(v[0].shape[2] * k["scale_factor_height"]),
            math.floor(v[0].shape[3] * k["scale_factor_width"]),
        ]
        return [bilinear(v[0], sizes, k.get("align_corners", True))]
    if op == "upsample_nearest_neighbor":
        return [np.repeat(np.repeat(v[0], k["scale_factor_height"], 2), k["scale_factor_width"], 3)]
    if op == "silu":
        return [v[0] / (1 + np.exp(-v[0].astype(np.float64)))]
    if op == "cumsum":  # exclusive, from the end
        y = np.flip(np.cumsum(np.flip(v[0], 1), 1), 1)
        return [np.concatenate([y[:, 1:], np.zeros_like(y[:, :1])], 1)]
    if op == "crop":
        (a, b), (c, d) = k["crop_height"], k["crop_width"]
        return [v[0][:, :, a : v[0].shape[2] - b, c : v[0].shape[3] - d]]
    if op == "sliding_windows":
        return [np.stack([v[0][:, s : s + 3] for s in range(0, 7, 2)], 1)]
    if op == "gather_nd" and "batch_dims" in k:
        return [np.stack([x[i[:, 0]] for x, i in zip(*v, strict=True)])]
    if op == "gather_nd":
        return [v[0][v[1][:, 0], v[1][:, 1]]]
    if op == "scatter":
        out = v[0].copy()
        np.add.at(out, v[1], v[2])
        return [out]
    if op == "reverse_sequence":
        out = v[0].copy()
        for b, n in enumerate(k["lengths"]):
            out[b, :n] = out[b, :n][::-1]
        return [out]
    if op == "one_hot":
        depth, axis = k["one_hot_vector_size"], k.get("axis", -1)
        hot = np.moveaxis(np.eye(depth)[v[0]], -1, axis)
        return [hot * (k.get("on_value", 1) - k.get("off_value", 0)) + k.get("off_value", 0)]
    raise KeyError(op)


DEFINED = """conv conv-plain conv-same conv-lower conv-custom conv-1d conv-3d conv_transpose conv_transpose-custom conv_transpose-1d
    avg_pool avg_pool-same avg_pool-1d avg_pool-ceil max_pool max_pool-same max_pool-1d max_pool-ceil l2_pool l2_pool-same l2_pool-1d
    batch_norm batch_norm-all instance_norm local_response_norm lstm lstm-bidirectional gru-18 pixel_shuffle depth_to_space
    upsample_bilinear upsample_bilinear-float upsample_nearest_neighbor silu cumsum crop sliding_windows gather_nd gather_nd-batch
    scatter reverse_sequence one_hot one_hot-default""".split()


@pytest.mark.parametrize("name", DEFINED)
def test_against_the_definition(name, tmp_path):
    rng = np.random.default_rng(5)
    case, target = case_named(name)
    names, inputs = inputs_of(case)
    values = [make(one, rng) for one in inputs]
    constants = {n: v for n, v in case.operands.items() if n not in names}
    got = run(case, target, values, tmp_path / "x.mlpackage")
    for a, b in zip(got, definition(case, values, constants), strict=True):
        close(a, b)


def test_there_and_back(tmp_path):
    """Ops that undo each other return their input."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 12, 4, 6))], opset_version=ct.target.iOS18)
    def prog(x):
        a = mb.pixel_unshuffle(x=mb.pixel_shuffle(x=x, upscale_factor=2), downscale_factor=np.uint32(2))
        b = mb.space_to_depth(x=mb.depth_to_space(x=x, block_size=2), block_size=2)
        c = mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[0, 2], [1, 2]])
        return a, b, mb.batch_to_space(x=c, block_shape=[2, 3], crops=[[0, 2], [1, 2]])

    programs.save(prog, tmp_path / "x.mlpackage", ct.target.iOS18)
    x = np.random.default_rng(1).standard_normal((2, 12, 4, 6)).astype(np.float32)
    for y in coreml.load(tmp_path / "x.mlpackage").run([x]).values():
        assert (y == x).all()


def test_interleaved_concatenation(tmp_path):
    case, target = case_named("concat-interleave")
    a, b = (np.random.default_rng(k).standard_normal((2, 6, 3)).astype(np.float32) for k in range(2))
    (y,) = run(case, target, [a, b], tmp_path / "x.mlpackage")
    assert (y[:, 0::2] == a).all() and (y[:, 1::2] == b).all()


def test_loops_and_branches(tmp_path):
    case, target = case_named("while_loop")
    x, n = np.array([[1.0, -2.0, 3.0]] * 2, np.float32), np.array([1], np.int32)
    k, y = run(case, target, [x, n], tmp_path / "x.mlpackage")
    want, count = np.maximum(x, 0), 1
    while count < 7:
        want = want + x if count < 3 else want * 2
        count += 1
    assert k[0] == 7
    close(y, want)


def test_compressed_weights(tmp_path):
    x = np.zeros((4, 16), np.float32)
    case, target = case_named("constexpr_blockwise_shift_scale")
    rng = np.random.default_rng(2)
    scale = rng.standard_normal((4, 2)).astype(np.float32)
    data, offset = np.arange(64).reshape(4, 16) % 16 - 8, np.arange(8).reshape(4, 2) % 7

    @mb.program(input_specs=[mb.TensorSpec(shape=(4, 16))], opset_version=ct.target.iOS18)
    def blocks(x):
        y = mb.constexpr_blockwise_shift_scale(
            data=programs.sub_byte(data, "int4"), scale=scale, offset=programs.sub_byte(offset, "int4")
        )
        return mb.add(x=x, y=y)

    programs.save(blocks, tmp_path / "blocks.mlpackage", target)
    (y,) = coreml.load(tmp_path / "blocks.mlpackage").run([x]).values()
    close(y, (data - np.repeat(offset, 8, 1)) * np.repeat(scale, 8, 1))

    for bits in (1, 2, 3, 4, 6, 8):
        lut = rng.standard_normal((2, 1, 1 << bits, 1)).astype(np.float32)
        indices = np.arange(64).reshape(4, 16) % (1 << bits)

        @mb.program(input_specs=[mb.TensorSpec(shape=(4, 16))], opset_version=ct.target.iOS18)
        def table(x):
            y = mb.constexpr_lut_to_dense(indices=programs.sub_byte(indices, f"uint{bits}"), lut=lut)  # noqa: B023
            return mb.add(x=x, y=y)

        programs.save(table, tmp_path / f"lut{bits}.mlpackage", target)
        (y,) = coreml.load(tmp_path / f"lut{bits}.mlpackage").run([x]).values()
        want = np.stack([lut[row // 2, 0, indices[row], 0] for row in range(4)])
        close(y, want)


def test_tables_of_vectors(tmp_path):
    lut, indices = (
        np.random.default_rng(5).standard_normal((1, 3, 4, 2)).astype(np.float32),
        np.arange(30).reshape(5, 6),
    )

    @mb.program(input_specs=[mb.TensorSpec(shape=(10, 6))], opset_version=ct.target.iOS18)
    def prog(x):
        packed = programs.sub_byte(indices * 7 % 4, "uint2")
        return mb.add(x=x, y=mb.constexpr_lut_to_dense(indices=packed, lut=lut, vector_axis=0))

    programs.save(prog, tmp_path / "x.mlpackage", ct.target.iOS18)
    (y,) = coreml.load(tmp_path / "x.mlpackage").run([np.zeros((10, 6), np.float32)]).values()
    want = np.array([[lut[0, c // 2, indices[r // 2, c] * 7 % 4, r % 2] for c in range(6)] for r in range(10)])
    close(y, want)


def test_lists_hold_what_was_written(tmp_path):
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3)), mb.TensorSpec(shape=(2,), dtype=types.int32)])
    def prog(x, at):
        ls = mb.make_list(init_length=4, dynamic_length=True, elem_shape=(3,))
        ls = mb.list_scatter(ls=ls, indices=at, value=x)
        ls = mb.list_write(ls=ls, index=5, value=np.float32([7, 8, 9]))
        return mb.list_gather(ls=ls, indices=[5, 1]), mb.list_read(ls=ls, index=2), mb.list_length(ls=ls)

    programs.save(prog, tmp_path / "x.mlpackage", ct.target.iOS16)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    rows, one, length = coreml.load(tmp_path / "x.mlpackage").run([x, np.int32([2, 1])]).values()
    close(rows, [[7, 8, 9], x[1]])
    close(one, x[0])
    assert length == 6
    with pytest.raises(sardonyx.Error, match="element 1 of the list has not been written"):
        coreml.load(tmp_path / "x.mlpackage").run([x, np.int32([2, 0])])


def test_random_numbers_are_the_seed_s(tmp_path):
    @mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=ct.target.iOS16)
    def prog(x):
        shape = np.int32([20000])
        logits = np.log(np.float32([[0.5, 0.25, 0.25]]))
        return (
            mb.random_uniform(shape=shape, low=-1.0, high=3.0, seed=7, name="uniform"),
            mb.random_uniform(shape=shape, low=-1.0, high=3.0, seed=7, name="again"),
            mb.random_uniform(shape=shape, low=-1.0, high=3.0, seed=8, name="other"),
            mb.random_normal(shape=shape, mean=2.0, stddev=3.0, seed=7, name="normal"),
            mb.random_bernoulli(shape=shape, prob=0.25, seed=7, name="coin"),
            mb.random_categorical(x=logits, size=20000, seed=7, name="kind"),
            mb.identity(x=x),
        )

    programs.save(prog, tmp_path / "x.mlpackage", ct.target.iOS16)
    got = coreml.load(tmp_path / "x.mlpackage").run([np.zeros(1, np.float32)])
    u = got["uniform"]
    assert (u == got["again"]).all() and (u != got["other"]).mean() > 0.99
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.03 and abs(u.std() - 4 / 12**0.5) < 0.03
    assert abs(got["normal"].mean() - 2) < 0.08 and abs(got["normal"].std() - 3) < 0.08
    assert set(np.unique(got["coin"])) == {0, 1} and abs(got["coin"].mean() - 0.25) < 0.02
    counts = np.bincount(got["kind"].ravel().astype(int), minlength=3) / 20000
    np.testing.assert_allclose(counts, [0.5, 0.25, 0.25], atol=0.02)


def test_old_tables_are_packed_bits(tmp_path):
    x = np.zeros((4, 13), np.float32)
    lut, packed = np.float32([0.5, -1, 2, 4]), (np.arange(13) * 37 % 256).astype(np.uint8)

    @mb.program(input_specs=[mb.TensorSpec(shape=(4, 13))], opset_version=ct.target.iOS16)
    def prog(x):
        return mb.add(x=x, y=mb.constexpr_lut_to_dense(indices=packed, lut=lut, shape=np.uint32([4, 13])))

    programs.save(prog, tmp_path / "x.mlpackage", ct.target.iOS16)
    (y,) = coreml.load(tmp_path / "x.mlpackage").run([x]).values()
    bits = np.unpackbits(packed, bitorder="little").reshape(-1, 2)
    close(y, lut[bits[:, 0] + 2 * bits[:, 1]].reshape(4, 13))


def test_inputs_by_name(tmp_path):
    case, target = case_named("add")
    path = tmp_path / "x.mlpackage"
    programs.save(programs.build(case, target), path, target)
    program = coreml.load(path)
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    assert (program.run({"in_1": y, "in_0": x})["the_op"] == 3).all()
    with pytest.raises(sardonyx.Error, match="there is no input 'z'"):
        program.run({"z": x})
    with pytest.raises(sardonyx.Error, match="input 'in_1' is missing"):
        program.run({"in_0": x})
    with pytest.raises(sardonyx.Error, match="no function 'other'"):
        program.run([x, y], "other")
