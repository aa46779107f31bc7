"""`optimize --explain`: nodes that a pattern matches but for one place, and what differs there."""

import pytest
from command import sardonyx as command

GELU = """graph(x: f32[B,7]) {{
  d = {divide}
  e = {erf}(d)
  g = Mul(Mul(x, f32 {half}), Add(f32 1, e))
  return {results}
}}
"""
FITS = {"divide": "Div(x, f32 1.4142135)", "erf": "Erf", "half": 0.5, "results": "y = g"}


def told_about(tmp_path, text, explained):
    (tmp_path / "m.sx").write_text(text)
    done = command("optimize", tmp_path / "m.sx", "-o", tmp_path / "out.onnx", "--explain", explained, "--quiet")
    return done.stderr


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"half": 0.25},
            "erf: all of it is there but one operand: Mul reads the constant 0.25, expected the constant 0.5",
        ),
        ({"divide": "Div(x, f32 1.5)"}, "Div 'd' reads the constant 1.5, expected the constant 1.4142135"),
        ({"divide": "Sub(x, f32 1.4142135)"}, "Erf 'e' reads a result of Sub, expected a result of"),
        ({"erf": "Atan"}, None),  # without Erf and Tanh no rule is tried
        ({"results": "y = g, e"}, "a part of it has another user"),  # the rule's own condition
        ({}, None),
    ],
    ids=["constant", "inner constant", "operator", "without", "condition", "match"],
)
def test_what_nearly_was_a_gelu(tmp_path, changed, why):
    told = told_about(tmp_path, GELU.format(**FITS | changed), "fuse_gelu")
    if why is None:
        assert told == ""
        return
    assert why in told and "fuse_gelu: skipped a near match" in told and "at g = Mul(" in told
    # Other passes are not explained.
    assert told_about(tmp_path, GELU.format(**FITS | changed), "fuse_softmax") == ""


def test_two_differences_are_no_near_miss(tmp_path):
    changed = {"half": 0.25, "divide": "Div(x, f32 1.5)"}
    assert told_about(tmp_path, GELU.format(**FITS | changed), "fuse_gelu") == ""


def test_a_value_with_more_readers(tmp_path):
    text = """graph(x: f32[1,2,5,5]) {{
  c = Conv(x, f32[3,2,3,3]{{0.5...}})
  s = Mul(c, f32[3,1,1]{{2, 3, 5}})
  return {results}
}}
"""
    told = told_about(tmp_path, text.format(results="s, c"), "fuse_affine_into_conv")
    assert "scale: all of it is there, but more than one node reads a result of Conv" in told
    assert told_about(tmp_path, text.format(results="s"), "fuse_affine_into_conv") == ""
