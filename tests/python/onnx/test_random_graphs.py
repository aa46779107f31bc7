"""Random graphs (from sx_fuzz) on onnxruntime. A graph that runs before the passes must run after them, with
the same results."""

import collections
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
import sardonyx
from command import BUILD
from onnx import TensorProto, helper, numpy_helper

SIZES = {"B": 5, "T": 3}
TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-7}  # share of a result's largest magnitude, by bytes per element


LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


def run(model, inputs, level=LEVELS[0]):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


# Besides numbers around 0, numbers at which kernels go wrong.
INTEGERS = (2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**53 + 1, 2**62 + 3, -(2**31) - 1, -(2**62))


def made_up(model, extreme=False):
    """Inputs by name. With `extreme`, they include infinities and integers of up to 64 bits. None if they
    cannot be drawn."""
    rng = np.random.default_rng(1)
    inputs = {}
    for port in model.graph.input:
        tensor = port.type.tensor_type
        shape = [SIZES.get(d.dim_param, d.dim_value) for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            inputs[port.name] = np.asarray(rng.standard_normal(shape) * 1.5).astype(dtype)
            if extreme:
                special = rng.choice(np.array([np.inf, -np.inf, -0.0, 0.0], dtype), shape)
                inputs[port.name] = np.where(rng.random(shape) < 0.2, special, inputs[port.name]).astype(dtype)
        elif dtype.kind in "iub":
            inputs[port.name] = np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 3, shape)).astype(dtype)
            if extreme and dtype.kind != "b" and dtype.itemsize >= 4:
                some = np.array([v % 2 ** (8 * dtype.itemsize) for v in INTEGERS], np.uint64).astype(
                    f"u{dtype.itemsize}"
                )
                chosen = rng.choice(some, shape).astype(f"u{dtype.itemsize}").view(dtype)
                inputs[port.name] = np.where(rng.random(shape) < 0.5, chosen, inputs[port.name]).astype(dtype)
        else:
            return None
    return inputs


def narrowest(model) -> int:
    """Bytes of the narrowest float dtype among inputs and constants: values that pass through it keep its
    rounding."""
    types = [p.type.tensor_type.elem_type for p in model.graph.input] + [t.data_type for t in model.graph.initializer]
    sizes = [helper.tensor_dtype_to_np_dtype(t).itemsize for t in types if t in (1, 10, 11)]
    return min(sizes, default=8)


def difference(a, b, narrow=8, but=()):
    """The first difference, ignoring results in `but`. `narrow`: bytes of the narrowest float dtype on the
    way."""
    for k, (u, v) in enumerate(zip(a, b, strict=True)):
        if k in but:
            continue
        u, v = np.asarray(u), np.asarray(v)
        if u.shape != v.shape or u.dtype != v.dtype:
            return f"result {k}: {u.dtype}{list(u.shape)} became {v.dtype}{list(v.shape)}"
        if u.dtype.kind != "f":
            if not (u == v).all():
                return f"result {k}: {u.ravel()[:5]} became {v.ravel()[:5]}"
            continue
        finite = np.isfinite(u) & np.isfinite(v)
        largest = max(1.0, np.abs(u[finite]).max()) if finite.any() else 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(u[finite].astype(np.float64) - v[finite].astype(np.float64))
        if (np.isnan(u) != np.isnan(v)).any() or (off > TOLERANCE[min(narrow, u.dtype.itemsize)] * largest).any():
            return f"result {k}: {u.ravel()[:5]} became {v.ravel()[:5]}"
    return None


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    command = [BUILD / "sx_fuzz", "--seed=1", "--count=200", "--passes=remove_dead_nodes", f"--write={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    found = {}
    for path in sorted(folder.glob("*.onnx")):
        model = onnx.load(path)
        model.ir_version = 10  # drawn for the newest; onnxruntime accepts no newer one
        found[path.stem] = model
    return found


def verdict(model, optimized, inputs, narrow) -> str | None:
    """None if the optimized model agrees with the model, "refused" if the model does not run, else the
    difference."""
    try:
        before = run(model, inputs)
    except Exception:  # no kernel for that operator and type
        return "refused"
    for level in LEVELS:
        try:
            after = run(optimized, inputs, level)
        except Exception as error:
            return str(error)
        what = difference(before, after, narrow)
        if what is None:
            continue
        evaluated = sardonyx.evaluate(model, inputs)
        evaluated = [evaluated[o.name] for o in model.graph.output]
        # Kernels can be wrong: the result may be right where the model's own was not.
        if difference(evaluated, after, narrow) is None:
            continue
        # Ignore floats on which onnxruntime contradicts itself before any pass. It leaves the result of an
        # empty product uninitialized, and its Tan near a pole depends on whether the operand was rounded to
        # f16.
        open_to_doubt = {
            k
            for k, (u, v) in enumerate(zip(before, evaluated, strict=True))
            if np.asarray(u).dtype.kind == "f" and difference([u], [v], narrow)
        }
        if what := difference(before, after, narrow, open_to_doubt):
            return f"{what} ({level})"
    return None


@pytest.mark.parametrize("extreme", [False, True], ids=["numbers about 0", "infinities and large integers"])
def test_onnxruntime_takes_what_passes_make(models, extreme: bool):
    counts, wrong = collections.Counter(), []
    for seed, model in models.items():
        inputs = made_up(model, extreme)
        if inputs is None:
            continue
        what = verdict(model, sardonyx.optimize(model), inputs, narrowest(model))
        counts[what if what in (None, "refused") else "different"] += 1
        if what not in (None, "refused"):
            wrong.append(f"seed {seed}: {what}")
    assert not wrong, "\n".join(wrong)
    assert counts[None] > 80, counts


# --- attention as exporters write it, with masks in every form

FORMS = ("S", "1S", "TS", "B11S", "111S", "BH1S", "B1TS", "11TS", "BHTS")
FILLS = (float("-inf"), float(np.finfo(np.float32).min), -1e9, -1e4)


def attention(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Scores, a mask that is added or selects, softmax, values; some rows are fully masked. Also returns the
    inputs."""
    rng = np.random.default_rng(seed)
    sizes = {"B": 2, "H": 4, "T": int(rng.choice([1, 3])), "S": 5, "1": 1}
    form, fill = rng.choice(FORMS), float(rng.choice(FILLS))
    dims = [sizes[d] for d in form]
    named = [d if d in "BTS" and rng.random() < 0.5 else sizes[d] for d in form]
    b, h, t, s, d = sizes["B"], sizes["H"], sizes["T"], sizes["S"], 8
    batch = "B" if "B" in named or rng.random() < 0.3 else b
    named = [batch if f == "B" else n for f, n in zip(form, named, strict=True)]
    query, keys = ("T" if "T" in named else t), ("S" if "S" in named else s)
    named = [{"T": query, "S": keys}.get(f, n) for f, n in zip(form, named, strict=True)]
    info, node = helper.make_tensor_value_info, helper.make_node
    inputs = [
        info("q", 1, [batch, h, query, d]),
        info("k", 1, [batch, h, keys, d]),
        info("v", 1, [batch, h, keys, d]),
    ]
    arrays = {
        "q": rng.standard_normal((b, h, t, d)).astype(np.float32),
        "k": rng.standard_normal((b, h, s, d)).astype(np.float32),
        "v": rng.standard_normal((b, h, s, d)).astype(np.float32),
    }
    seen = rng.random(dims) < 0.6
    if seen.ndim and rng.random() < 0.7:
        seen[tuple(int(rng.integers(n)) for n in dims[:-1])] = False  # a fully masked row
    constants = {"scale": np.float32(d**-0.5), "fill": np.float32(fill), "zero": np.float32(0)}
    nodes = [node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2])]
    if rng.random() < 0.5:
        nodes += [node("MatMul", ["q", "kt"], ["raw"]), node("Mul", ["raw", "scale"], ["scores"])]
    else:
        nodes += [node("Mul", ["q", "scale"], ["scaled"]), node("MatMul", ["scaled", "kt"], ["scores"])]
    way = rng.choice(["selects", "is added", "is made and added"])
    if way == "is added":
        inputs.append(info("mask", 1, named))
        arrays["mask"] = np.where(seen, np.float32(0), np.float32(fill))
        nodes.append(node("Add", ["scores", "mask"], ["masked"]))
    else:
        inputs.append(info("mask", 9, named))
        arrays["mask"] = seen
        if way == "selects":
            nodes.append(node("Where", ["mask", "scores", "fill"], ["masked"]))
        else:
            nodes += [node("Where", ["mask", "zero", "fill"], ["made"]), node("Add", ["scores", "made"], ["masked"])]
    nodes += [node("Softmax", ["masked"], ["weights"], axis=-1), node("MatMul", ["weights", "v"], ["y"])]
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, f"{form} {way} {fill}", inputs, [info("y", 1, None)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), arrays


@pytest.mark.parametrize("seed", range(60))
def test_masks_of_every_form(seed: int):
    model, inputs = attention(seed)
    wanted = run(model, inputs)
    optimized = sardonyx.optimize(model)
    for level in LEVELS:
        found = difference(wanted, run(optimized, inputs, level))
        assert found is None, f"{model.graph.name}: {found}"


def test_what_leaves_a_loop_is_returned_by_a_node():
    """Relu leaves the loop. Its body returned it under its own name and gets an Identity."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["row"]), helper.make_node("Identity", ["c"], ["go"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, [])],
        [info("go", TensorProto.BOOL, []), info("row", TensorProto.FLOAT, [3])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", ""], ["y"], body=body)],
        "g",
        [info("n", TensorProto.INT64, []), info("x", TensorProto.FLOAT, [3])],
        [info("y", TensorProto.FLOAT, ["N", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    inputs = {"n": np.array(4), "x": np.array([-1, 2, 3], np.float32)}
    optimized = sardonyx.optimize(model)
    assert "Relu" in [node.op_type for node in optimized.graph.node]
    assert difference(run(model, inputs), run(optimized, inputs)) is None
