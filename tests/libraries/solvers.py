"""Differential equations, linear and nonlinear solvers, fixed points."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jaxopt
import lineax
import optimistix
from catalog import normal, program


def decay(t, y, args):
    return -0.5 * y + jnp.sin(t) * args


@program("diffrax")
def diffrax_euler():
    def solve(y0, a):
        return diffrax.diffeqsolve(diffrax.ODETerm(decay), diffrax.Euler(), 0.0, 1.0, 0.05, y0, args=a).ys

    return solve, [normal(3), normal(3, seed=1)]


@program("diffrax")
def diffrax_tsit5_adaptive():
    def solve(y0, a):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(decay), diffrax.Tsit5(), 0.0, 2.0, 0.1, y0, args=a,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 2.0, 7)),
        )  # fmt: skip
        return solution.ys, solution.stats["num_steps"]

    return solve, [normal(3), normal(3, seed=1)]


@program("diffrax")
def diffrax_stiff_kvaerno5():
    def robertson(t, y, args):
        x, y, z = y
        f0 = -0.04 * x + 10.0 * y * z
        f2 = 30.0 * y**2
        return jnp.stack([f0, -f0 - f2, f2])

    def solve(y0):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(robertson), diffrax.Kvaerno5(), 0.0, 1.0, 0.01, y0,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        ).ys  # fmt: skip

    return solve, [jnp.array([1.0, 0.1, 0.2])]


@program("diffrax")
def diffrax_sde_by_a_virtual_tree():
    def solve(y0, key):
        path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(3,), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: 0.1 * jnp.eye(3), path)
        )
        return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.1, y0).ys

    return solve, [normal(3), jax.random.key(5)]


@program("diffrax")
def diffrax_neural_ode_gradient():
    field = eqx.nn.MLP(3, 3, 5, 2, activation=jnp.tanh, key=jax.random.key(1))
    weights, static = eqx.partition(field, eqx.is_array)

    def loss(weights, y0):
        field = eqx.combine(weights, static)
        solution = diffrax.diffeqsolve(diffrax.ODETerm(lambda t, y, a: field(y)), diffrax.Tsit5(), 0.0, 1.0, 0.1, y0)
        return jnp.sum(solution.ys**2)

    return lambda y0: jax.grad(loss)(weights, y0), [normal(3)]


def _spd(x):
    return x @ x.T + 3 * jnp.eye(x.shape[0])


@program("lineax")
def lineax_automatic():
    return lambda a, b: lineax.linear_solve(lineax.MatrixLinearOperator(a), b).value, [normal(5, 5), normal(5)]


@program("lineax")
def lineax_cholesky():
    def solve(a, b):
        operator = lineax.MatrixLinearOperator(_spd(a), lineax.positive_semidefinite_tag)
        return lineax.linear_solve(operator, b, lineax.Cholesky()).value

    return solve, [normal(5, 5), normal(5)]


@program("lineax")
def lineax_least_squares_by_qr():
    return lambda a, b: lineax.linear_solve(lineax.MatrixLinearOperator(a), b, lineax.QR()).value, [
        normal(7, 3),
        normal(7),
    ]


@program("lineax")
def lineax_svd_of_a_singular_matrix():
    def solve(a, b):
        return lineax.linear_solve(lineax.MatrixLinearOperator(a.at[0].set(0.0)), b, lineax.SVD()).value

    return solve, [normal(5, 3), normal(5)]


@program("lineax")
def lineax_cg():
    def solve(a, b):
        operator = lineax.MatrixLinearOperator(_spd(a), lineax.positive_semidefinite_tag)
        return lineax.linear_solve(operator, b, lineax.CG(rtol=1e-6, atol=1e-6)).value

    return solve, [normal(5, 5), normal(5)]


@program("lineax")
def lineax_gmres():
    def solve(a, b):
        operator = lineax.MatrixLinearOperator(a + 4 * jnp.eye(5))
        return lineax.linear_solve(operator, b, lineax.GMRES(rtol=1e-5, atol=1e-5)).value

    return solve, [normal(5, 5), normal(5)]


@program("lineax")
def lineax_tridiagonal():
    def solve(d, below, above, b):
        return lineax.linear_solve(lineax.TridiagonalLinearOperator(d + 5, below, above), b).value

    return solve, [normal(5), normal(4), normal(4, seed=1), normal(5, seed=2)]


@program("optimistix")
def optimistix_newton():
    def solve(y, a):
        return optimistix.root_find(
            lambda y, a: y + 0.1 * jnp.sin(y @ a) - 1.0, optimistix.Newton(rtol=1e-5, atol=1e-6), y, a
        ).value

    return solve, [normal(3), normal(3, 3)]


@program("optimistix")
def optimistix_bfgs():
    def solve(y):
        return optimistix.minimise(
            lambda y, a: jnp.sum((y - 1.0) ** 2) + 0.1 * jnp.sum(y**4), optimistix.BFGS(rtol=1e-5, atol=1e-5), y
        ).value

    return solve, [normal(3)]


@program("optimistix")
def optimistix_levenberg_marquardt():
    xs = jnp.linspace(0.0, 1.0, 11)

    def solve(p, ys):
        def residual(p, ys):
            return p[0] * jnp.exp(p[1] * xs) - ys

        return optimistix.least_squares(residual, optimistix.LevenbergMarquardt(rtol=1e-5, atol=1e-5), p, ys).value

    return solve, [jnp.array([1.0, 0.5]), 2.0 * jnp.exp(0.3 * xs)]


@program("optimistix")
def optimistix_fixed_point():
    return (
        lambda y: (
            optimistix.fixed_point(
                lambda y, a: jnp.cos(y), optimistix.FixedPointIteration(rtol=1e-5, atol=1e-5), y
            ).value
        ),
        [normal(3)],
    )


@program("optimistix")
def optimistix_gradient_of_bisection():
    def solve(a):
        solver = optimistix.Bisection(rtol=1e-5, atol=1e-5)
        return optimistix.root_find(
            lambda y, a: y**3 - a, solver, jnp.array(1.0), a, options={"lower": 0.0, "upper": 5.0}
        ).value

    return jax.value_and_grad(solve), [jnp.array(2.0)]


def _ridge(w, x, y):
    return jnp.mean((x @ w - y) ** 2) + 0.1 * jnp.sum(w**2)


@program("jaxopt")
def jaxopt_gradient_descent():
    def solve(w, x, y):
        return jaxopt.GradientDescent(_ridge, maxiter=20).run(w, x=x, y=y).params

    return solve, [normal(3), normal(7, 3), normal(7)]


@program("jaxopt")
def jaxopt_lbfgs():
    def solve(w, x, y):
        return jaxopt.LBFGS(_ridge, maxiter=7).run(w, x=x, y=y).params

    return solve, [normal(3), normal(7, 3), normal(7)]


@program("jaxopt")
def jaxopt_projected_gradient():
    def solve(w, x, y):
        solver = jaxopt.ProjectedGradient(_ridge, projection=jaxopt.projection.projection_simplex, maxiter=11)
        return solver.run(w, x=x, y=y).params

    return solve, [normal(3), normal(7, 3), normal(7)]


@program("jaxopt")
def jaxopt_implicit_gradient():
    def loss(l2, x, y):
        def objective(w, l2):
            return jnp.mean((x @ w - y) ** 2) + l2 * jnp.sum(w**2)

        weights = (
            jaxopt.GradientDescent(objective, maxiter=500, tol=1e-6, implicit_diff=True).run(jnp.zeros(3), l2).params
        )
        return jnp.sum(weights**2)

    return jax.grad(loss), [jnp.array(0.3), normal(7, 3), normal(7)]


@program("jaxopt")
def jaxopt_osqp():
    def solve(q, c):
        a = jnp.ones((1, 3))
        return jaxopt.EqualityConstrainedQP().run(params_obj=(_spd(q), c), params_eq=(a, jnp.ones(1))).params.primal

    return solve, [normal(3, 3), normal(3)]
