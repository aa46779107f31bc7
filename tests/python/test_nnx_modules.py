"""Modules of Flax NNX whose own variables cannot be touched from within a trace: NNX's transformations of parts of them, and training."""

import jax
import numpy as np
import sardonyx
from flax import nnx
from judge import compare, outputs

X = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)


class Stack(nnx.Module):
    """Layers that are one module with a leading axis, as NNX scans over them."""

    def __init__(self):
        @nnx.vmap(in_axes=0, out_axes=0)
        def layers(key):
            return nnx.Linear(7, 7, rngs=nnx.Rngs(key))

        self.layers, self.head = layers(jax.random.split(jax.random.key(0), 4)), nnx.Linear(7, 3, rngs=nnx.Rngs(1))

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def run(x, layer):
            return x + nnx.relu(layer(x))

        return self.head(run(x, self.layers))


def test_a_scan_over_layers():
    model = Stack()
    exported = sardonyx.to_onnx(model, [("B", 7)])
    assert [n.op_type for n in exported.graph.node] == ["Scan", "MatMul"]
    assert {i.name for i in exported.graph.initializer} >= {"layers.kernel", "layers.bias", "head.kernel"}
    compare(model(X), outputs(exported, [X]), 2e-5)


class Trained(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.norm = nnx.Linear(7, 5, rngs=rngs), nnx.BatchNorm(5, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.features(x))

    def features(self, x):
        return self.norm(self.linear(x))


def test_a_module_in_training_is_exported_and_left_as_it_was():
    model = Trained(nnx.Rngs(0))
    before = str(nnx.state(model))
    exported = sardonyx.to_onnx(model, [("B", 7)])
    features = sardonyx.to_onnx(model.features, [("B", 7)])
    assert str(nnx.state(model)) == before
    assert exported.SerializeToString() == sardonyx.to_onnx(model, [("B", 7)]).SerializeToString()
    assert [i.name for i in features.graph.input] == ["x"]
    compare(model.features(X), outputs(features, [X]), 2e-5)
    compare(Trained(nnx.Rngs(0))(X), outputs(exported, [X]), 2e-5)
