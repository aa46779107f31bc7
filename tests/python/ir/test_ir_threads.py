"""Two threads, each with its own models; and models that are destroyed while others live."""

import gc
import threading

import numpy as np
import onnx
from sardonyx import ir


def build(seed, size):
    rng = np.random.default_rng(seed)
    x = ir.val("x", ir.DataType.FLOAT, [4])
    b = ir.Builder()
    v = x
    for i in range(size):
        w = b.add_initializer_from_array(f"w{i}", rng.standard_normal(4).astype(np.float32))
        v = b.Mul(v, w) if i % 2 else b.Add(v, w)
    v.dtype, v.shape = ir.DataType.FLOAT, ir.Shape([4])
    graph = ir.Graph([x], [v], nodes=b.nodes, initializers=b.initializers, opset_imports={"": 18}, name=f"g{seed}")
    return ir.Model(graph, ir_version=10)


def test_threads_build_what_one_thread_builds():
    expected = {seed: ir.to_proto(build(seed, 60)).SerializeToString() for seed in range(2)}
    found, errors = {}, []

    def work(seed):
        try:
            for _ in range(10):
                model = build(seed, 60)
                clone = model.clone()
                for node in list(clone.graph)[::3]:
                    node.outputs[0].replace_all_uses_with(node.inputs[0], replace_graph_outputs=True)
                    clone.graph.remove(node, safe=True)
                model.graph.sort()
                found[seed] = ir.to_proto(model).SerializeToString()
                ir.from_proto(onnx.ModelProto.FromString(found[seed]))
        except Exception as e:  # the test must see it
            errors.append(e)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and found == expected


def test_handles_outlive_everything_else():
    model = build(0, 6)
    node, value, tensor = model.graph[2], model.graph[2].outputs[0], model.graph.initializers["w1"].const_value
    del model
    gc.collect()
    assert node.graph[0].op_type == "Add" and value.consumers()[0] is node.graph[3] and tensor.size == 4
    graph = node.graph
    del node, value
    gc.collect()
    assert len(graph) == 6
