"""`sx_test --fmt`: cases of Core ML in their shortest form."""

import subprocess

from command import BUILD

LONG = """pass fuse_gelu_sigmoid_approximation

case "a comment stays, and so does a name that says something"
graph mil(x: f32[2,3]) mil_opset "CoreML7" {
  scaled: f32[2,3] = mul(x, f32 1.5)
  s: f32[2,3] = sigmoid(scaled)
  y: f32[2,3] = mul(s, scaled)
  return y
}
=> same

// about the next one
case "both graphs, and a value with two users"
graph mil(x: f32[2,3], c: bool[]) mil_opset "CoreML7" {
  a: f32[2,3] = relu(x)
  b: f32[2,3] = tanh(a)
  t: f32[2,3] = cond<true_fn=graph() {
    u: f32[2,3] = exp(b)
    v: f32[2,3] = add(u, u)
    return v
  }, false_fn=graph() {
    return a
  }>(c)
  y: f32[2,3] = erf(t)
  return y, b
}
=> same
"""

SHORT = """pass fuse_gelu_sigmoid_approximation

case "a comment stays, and so does a name that says something"
graph mil(x: f32[2,3]) {
  scaled = mul(x, f32 1.5)
  return y = mul(sigmoid(scaled), scaled)
}
=> same

// about the next one
case "both graphs, and a value with two users"
graph mil(x: f32[2,3], c: bool[]) {
  a = relu(x)
  b = tanh(a)
  t = cond<true_fn=graph() {
    u = exp(b)
    return v = add(u, u)
  }, false_fn=graph() {
    return a
  }>(c)
  return y = erf(t), b
}
=> same
"""


def sx_test(*arguments):
    return subprocess.run([BUILD / "sx_test", *arguments], capture_output=True, text=True, check=False)


def test_cases_become_short_once(tmp_path):
    file = tmp_path / "cases.sx"
    file.write_text(LONG)
    assert sx_test("--fmt", "--check", file).returncode == 1
    assert file.read_text() == LONG
    sx_test("--fmt", file)
    assert file.read_text() == SHORT
    assert sx_test("--fmt", "--check", file).returncode == 0
    assert "2 hold, 0 fail" in sx_test(file).stdout


def test_what_a_case_needs_stays(tmp_path):
    # No rule infers the results of an unknown op, its name has a meaning of its own, and "exactly" compares names.
    text = """pass noop_elimination

case "an op of another program"
graph mil(x: f32[2,3]) {
  t: f32[5] = some_op(data=x)
  return y = relu(t)
}
=> same

case "names are compared"
graph mil(x: f32[2,3]) {
  t: f32[2,3] = identity(x)
  y: f32[2,3] = relu(t)
  return y
}
=> exactly
graph mil(x: f32[2,3]) {
  y = relu(x)
  return y
}
"""
    file = tmp_path / "cases.sx"
    file.write_text(text)
    before = sx_test(file).stdout
    sx_test("--fmt", file)
    assert file.read_text() == text
    assert "2 hold, 0 fail" in before
