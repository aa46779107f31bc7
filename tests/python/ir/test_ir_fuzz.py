"""Random edits across graphs and models. Refusals are clean, and users and producers always agree."""

import random

import numpy as np
import onnx
import pytest
import sardonyx
from sardonyx import ir


def check(graphs):
    """Checks what must hold for every graph after any edit."""
    for g in graphs:
        nodes = list(g)
        assert len(nodes) == len(g) and nodes == list(reversed(g))[::-1] and len(set(nodes)) == len(nodes)
        assert [v.graph for v in g.inputs] == [g] * len(g.inputs) and all(v.is_graph_input() for v in g.inputs)
        assert all(v.is_graph_output() for v in g.outputs)
        assert all(v.is_initializer() and v.graph is g and g.initializers[v.name] is v for v in g.initializers.values())
        for n in nodes:
            assert n.graph is g
            for i, v in enumerate(n.inputs):
                assert v is None or (n, i) in v.uses()
            for i, v in enumerate(n.outputs):
                assert v.producer() is n and v.index() == i
                assert all(u.inputs[k] is v for u, k in v.uses())
            for a in n.attributes.values():
                if a.type == ir.AttributeType.GRAPH:
                    assert a.as_graph()._parent_node is n


class World:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.values = [ir.val(f"v{i}", ir.DataType.FLOAT, ["N"]) for i in range(4)]
        self.nodes: list[ir.Node] = []
        self.graphs = [ir.Graph([], [], nodes=[], opset_imports={"": 23}, name=f"g{i}") for i in range(2)]
        self.models: list[ir.Model] = []

    def value(self):
        return self.r.choice(self.values)

    def node(self):
        n = ir.node(
            self.r.choice(["Add", "Relu", "Constant", "Odd"]),
            self.r.choices([*self.values, None], k=self.r.randrange(4)),
            num_outputs=self.r.randrange(1, 3),
            graph=self.r.choice([None, *self.graphs]),
        )
        self.nodes.append(n)
        self.values.extend(n.outputs)

    def constant(self):
        v = ir.val(f"c{self.r.randrange(5)}", const_value=ir.tensor(np.zeros(self.r.randrange(3), np.float32)))
        self.values.append(v)
        self.r.choice(self.graphs).initializers.add(v)

    def link(self):
        g, n = self.r.choice(self.graphs), self.r.choice(self.nodes)
        at = self.r.choice([*g, None]) if len(g) else None
        if at is None:
            g.append(n)
        else:
            self.r.choice([g.insert_before, g.insert_after])(at, n)

    def unlink(self):
        n = self.r.choice(self.nodes)
        if n.graph is not None:
            n.graph.remove(n, safe=self.r.random() < 0.5)

    def rewire(self):
        n = self.r.choice(self.nodes)
        n.replace_input_with(self.r.randrange(-1, len(n.inputs) + 1), self.r.choice([None, self.value()]))

    def resize(self):
        n = self.r.choice(self.nodes)
        self.r.choice([n.resize_inputs, n.resize_outputs])(self.r.randrange(4))
        self.values.extend(v for v in n.outputs if v not in self.values)

    def replace(self):
        self.value().replace_all_uses_with(self.value(), replace_graph_outputs=self.r.random() < 0.5)

    def ports(self):
        g = self.r.choice(self.graphs)
        ports = self.r.choice([g.inputs, g.outputs])
        what = self.r.randrange(4)
        if what == 0:
            ports.append(self.value())
        elif what == 1:
            ports.insert(self.r.randrange(3), self.value())
        elif len(ports):
            if what == 2:
                ports.pop(self.r.randrange(len(ports)))
            else:
                ports[self.r.randrange(len(ports))] = self.value()

    def drop(self):
        g = self.r.choice(self.graphs)
        if len(g.initializers):
            g.initializers.pop(self.r.choice(list(g.initializers)))

    def nest(self):
        self.r.choice(self.nodes).attributes["body"] = ir.AttrGraph("body", self.r.choice(self.graphs))

    def unnest(self):
        self.r.choice(self.nodes).attributes.pop("body", None)

    def graph(self):
        if len(self.graphs) < 8:
            self.graphs.append(
                ir.Graph(
                    [], [], nodes=self.r.sample(self.nodes, min(len(self.nodes), 2)), opset_imports={"": 23}, name="g"
                )
            )

    def model(self):
        if len(self.models) < 3:
            self.models.append(ir.Model(self.r.choice(self.graphs), ir_version=10))

    def clone(self):
        if len(self.graphs) < 8:
            self.graphs.append(self.r.choice(self.graphs).clone(allow_outer_scope_values=self.r.random() < 0.5))

    def rename(self):
        self.value().name = self.r.choice([None, "a", "b", f"n{self.r.randrange(99)}"])

    def retype(self):
        v = self.value()
        v.shape, v.dtype = self.r.choice([None, [1], ["N", 2]]), self.r.choice([ir.DataType.FLOAT, ir.DataType.INT64])

    def sort(self):
        self.r.choice(self.graphs).sort()

    def write(self):
        if self.models:
            proto = ir.to_proto(self.r.choice(self.models))
            assert isinstance(proto, onnx.ModelProto)


ACTS = [name for name, f in vars(World).items() if callable(f) and not name.startswith("_") and name != "value"]


@pytest.mark.parametrize("seed", range(30))
def test_random_edits(seed):
    world = World(seed)
    world.node()
    done = refused = 0
    for step in range(400):
        act = world.r.choice(["node", "link", "rewire", *ACTS])
        try:
            getattr(world, act)()
            done += 1
        except sardonyx.Error as e:
            assert e.code != "internal", f"step {step}, {act}: {e}"
            refused += 1
        if step % 20 == 0:
            check(world.graphs)
    check(world.graphs)
    assert done > 100 and refused > 10
