"""`precision="f16"` on the small graphs of half_graphs.py: finite, and within 2 percent of single precision.

Judged in true half arithmetic by the evaluator, and by onnxruntime with its default optimizations and without.
"""

import numpy as np
import pytest
import sardonyx
from half_graphs import GRAPHS, model_of
from onnx import TensorProto
from test_half_precision import error, in_onnxruntime


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: g.name)
def test_small_graphs(graph):
    model = model_of(graph)
    wanted = list(sardonyx.evaluate(model, graph.inputs).values())
    assert all(np.isfinite(w).all() for w in wanted)
    half = sardonyx.optimize(model, precision="f16")
    runs = [list(sardonyx.evaluate(half, graph.inputs).values())]
    runs += [in_onnxruntime(half, graph.inputs, optimized) for optimized in (True, False)]
    for found in runs:
        assert all(np.isfinite(f).all() for f in found)
        assert error(found, wanted) < 0.02
    in_half = any(t.data_type == TensorProto.FLOAT16 for t in half.graph.initializer)
    assert in_half != graph.stays


def test_names():
    assert len({g.name for g in GRAPHS}) == len(GRAPHS) >= 60
