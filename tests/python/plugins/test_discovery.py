"""Plugins that installed packages offer as entry points: discovery, precedence, and broken ones."""

import os
import subprocess
import sys
import textwrap

import pytest

# One package; `offers` are its entry points by name. Its modules are below.
MODULES = {
    "by_import": """
        import sardonyx
        @sardonyx.lowering("tan")
        def lower_tan(ctx, eqn):
            x = ctx.get_value_for_var(eqn.invars[0])
            return ctx.builder.Div(ctx.builder.Sin(x), ctx.builder.Cos(x))
    """,
    "by_class": """
        from sardonyx import plugins
        class Sinh(plugins.Plugin):
            jaxpr_primitive = "sinh"
            def lower(self, ctx, eqn):
                return ctx.builder.Neg(ctx.get_value_for_var(eqn.invars[0]))
    """,
    "by_call": """
        from sardonyx import plugins
        def register():
            plugins.lowering("cosh")(lambda ctx, eqn: ctx.builder.Abs(ctx.get_value_for_var(eqn.invars[0])))
    """,
    "broken": "raise RuntimeError('out of order')",
    "number": "value = 3",
}


@pytest.fixture
def package(tmp_path):
    """Installs a distribution in its own folder. Returns a function that runs a program with it."""

    def install(*offers):
        for name, text in MODULES.items():
            (tmp_path / f"offered_{name}.py").write_text(textwrap.dedent(text))
        info = tmp_path / "offered-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[sardonyx.plugins]\n" + "\n".join(offers) + "\n")

        def run(program):
            path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
            done = subprocess.run(
                [sys.executable, "-W", "always", "-c", textwrap.dedent(program)],
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout, done.stderr

        return run

    return install


OPS = """
    import jax.numpy as jnp, sardonyx
    def ops(fn):
        return [n.op_type for n in sardonyx.to_onnx(fn, [(3,)]).graph.node]
"""


def test_installed_packages_bring_plugins(package):
    run = package("a = offered_by_import", "b = offered_by_class:Sinh", "c = offered_by_call:register")
    out, err = run(OPS + "    print(ops(jnp.tan), ops(jnp.sinh), ops(jnp.cosh))")
    assert out == "['Sin', 'Cos', 'Div'] ['Neg'] ['Abs']\n"
    assert "left out" not in err


def test_what_the_program_registers_wins(package):
    run = package("a = offered_by_import", "b = offered_by_class:Sinh")
    mine = """
    @sardonyx.lowering("tan")
    def mine(ctx, eqn):
        return ctx.builder.Tan(ctx.get_value_for_var(eqn.invars[0]))
    print(ops(jnp.tan), ops(jnp.sinh))
    """
    assert run(OPS + mine)[0] == "['Tan'] ['Neg']\n"


def test_one_that_fails_is_left_out_and_named(package):
    run = package("a = offered_broken", "b = offered_by_class:Sinh", "c = offered_number:value")
    out, err = run(OPS + "    print(ops(jnp.sinh), ops(jnp.sinh))")
    assert out == "['Neg'] ['Neg']\n"
    assert err.count("left out") == 2
    assert "the plugin 'a' of offered (offered_broken) is left out: RuntimeError: out of order" in err
    assert "the plugin 'c' of offered (offered_number:value) is left out: Error: a module, a Plugin" in err


def test_nothing_is_imported_before_an_export(package):
    run = package("a = offered_broken")
    assert "left out" not in run("import sardonyx, sardonyx.plugins; sardonyx.plugins.lowering('tan')(len)")[1]
