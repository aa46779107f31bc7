"""Models broken in many ways: inference either types them or reports the fault, and never fails otherwise."""

import collections
import random

import pytest
import sardonyx
from sardonyx._sardonyx import infer_types
from test_shape_inference import cases, erase_results

EXTREME = [
    0,
    -1,
    1,
    2,
    7,
    65,
    1 << 20,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 40,
    (1 << 60) - 1,
    1 << 61,
    (1 << 63) - 1,
    -(1 << 63),
]


def break_shape(model, rng):
    shapes = [v.type.tensor_type.shape for v in model.graph.input if v.type.WhichOneof("value") == "tensor_type"]
    if not shapes:
        return
    shape = rng.choice(shapes)
    how = rng.randrange(3)
    if how == 0 and shape.dim:
        rng.choice(shape.dim).dim_value = rng.choice(EXTREME)
    elif how == 1 and shape.dim:
        del shape.dim[-1]
    else:
        shape.dim.add().dim_value = rng.choice(EXTREME)


def break_attribute(model, rng):
    attributes = [a for n in model.graph.node for a in n.attribute]
    if not attributes:
        return
    attribute = rng.choice(attributes)
    if attribute.type == attribute.INT:
        attribute.i = rng.choice(EXTREME)
    elif attribute.type == attribute.INTS and attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(EXTREME)
    elif attribute.type == attribute.STRING:
        attribute.s = rng.choice([b"", b"x", attribute.s + b"x"])
    elif attribute.type == attribute.FLOAT:
        attribute.f = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])


def break_operands(model, rng):
    node = rng.choice(model.graph.node)
    if not node.input:
        return
    how = rng.randrange(3)
    if how == 0:
        del node.input[-1]
    elif how == 1:
        node.input[rng.randrange(len(node.input))] = ""
    else:
        node.input.append(rng.choice(list(node.input)))


@pytest.mark.parametrize("seed", range(4))
def test_broken_models_are_typed_or_refused(seed):
    rng = random.Random(seed)
    models = list(cases().values())
    counts = collections.Counter()
    for _ in range(500):
        model = erase_results(rng.choice(models))
        for _ in range(rng.randint(1, 3)):
            rng.choice([break_shape, break_attribute, break_operands])(model, rng)
        try:
            _, messages = infer_types(model.SerializeToString())
            counts["refused" if messages else "typed"] += 1
        except sardonyx.Error:
            counts["not read"] += 1
    # Each outcome occurs: broken models are noticed, and the others are typed.
    assert counts["refused"] > 50 and counts["typed"] > 50 and counts["not read"] > 5, counts
