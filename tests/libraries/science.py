"""Graphs, molecules, bodies, transport, evolution."""

import brax.envs
import e3nn_jax as e3nn
import evosax.algorithms
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import ott
from catalog import normal, positive, program
from ott.geometry import geometry, pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn


def _graph():
    rng = np.random.default_rng(3)
    return jraph.GraphsTuple(
        nodes=normal(7, 5), edges=normal(11, 3), senders=rng.integers(0, 7, 11).astype(np.int32),
        receivers=rng.integers(0, 7, 11).astype(np.int32), n_node=np.array([4, 3], np.int32),
        n_edge=np.array([6, 5], np.int32), globals=normal(2, 2),
    )  # fmt: skip


@program("jraph")
def jraph_graph_network():
    w, v, u = normal(3 + 5 + 5 + 2, 3), normal(5 + 3 + 3 + 2, 5, seed=1), normal(5 + 3 + 2, 2, seed=2)
    network = jraph.GraphNetwork(
        update_edge_fn=jraph.concatenated_args(lambda x: jnp.tanh(x @ w)),
        update_node_fn=jraph.concatenated_args(lambda x: jnp.tanh(x @ v)),
        update_global_fn=jraph.concatenated_args(lambda x: x @ u),
    )
    return network, [_graph()]


@program("jraph")
def jraph_attention():
    w, a = normal(5, 6), normal(12, 1, seed=1)
    layer = jraph.GAT(
        attention_query_fn=lambda n: n @ w,
        attention_logit_fn=lambda s, r, e: jax.nn.leaky_relu(jnp.concatenate([s, r], -1) @ a),
        node_update_fn=lambda n: jax.nn.elu(n),
    )
    return lambda g: layer(g).nodes, [_graph()]


@program("jraph")
def jraph_segments():
    def compute(graph):
        ids = graph.receivers
        return (
            jraph.segment_softmax(graph.edges[:, 0], ids, 7),
            jraph.segment_variance(graph.edges, ids, 7), jraph.segment_normalize(graph.edges, ids, 7),
            jraph.segment_max_or_constant(graph.edges, ids, 7),
        )  # fmt: skip

    return compute, [_graph()]


@program("jraph")
def jraph_padding():
    def compute(graph):
        padded = jraph.pad_with_graphs(graph, n_node=11, n_edge=13, n_graph=4)
        return padded.nodes, jraph.get_node_padding_mask(padded)

    return compute, [_graph()]


@program("e3nn_jax")
def e3nn_tensor_product():
    def compute(x, y):
        x, y = e3nn.IrrepsArray("2x0e + 1x1o + 1x2e", x), e3nn.IrrepsArray("1x0e + 1x1o", y)
        product = e3nn.tensor_product(x, y)
        return product.array, e3nn.norm(product).array

    return compute, [normal(3, 2 + 3 + 5), normal(3, 4, seed=1)]


@program("e3nn_jax")
def e3nn_spherical_harmonics():
    def compute(v):
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e + 3o", e3nn.IrrepsArray("1o", v), normalize=True)
        turned = harmonics.transform_by_angles(0.1, 0.2, 0.3)
        return harmonics.array, turned.array

    return compute, [normal(5, 3)]


@program("e3nn_jax")
def e3nn_gradient_of_a_layer():
    layer = e3nn.flax.Linear("3x0e + 2x1o")
    x = e3nn.IrrepsArray("2x0e + 1x1o", normal(5, 5))
    weights = layer.init(jax.random.key(0), x)

    def energy(v):
        out = layer.apply(weights, e3nn.IrrepsArray("2x0e + 1x1o", v))
        return jnp.sum(e3nn.gate(e3nn.concatenate([out, out.filter("0e")])).array ** 2)

    return jax.value_and_grad(energy), [normal(5, 5)]


@program("jax_md")
def jax_md_soft_spheres():
    from jax_md import energy, quantity, space

    displacement, shift = space.periodic(3.0)
    potential = energy.soft_sphere_pair(displacement)

    def step(r):
        force = quantity.force(potential)
        for _ in range(2):
            r = shift(r, 0.01 * force(r))
        return r, potential(r)

    return step, [np.random.default_rng(7).random((11, 2)).astype(np.float32) * 3]


@program("jax_md")
def jax_md_lennard_jones_nve():
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(4.0)
    potential = energy.lennard_jones_pair(displacement)
    init, apply = simulate.nve(potential, shift, 1e-3)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 2), -1).reshape(-1, 2).astype(np.float32) * 1.3

    def run(key, r):
        state = init(key, r, kT=0.1)
        return jax.lax.fori_loop(0, 7, lambda i, s: apply(s), state).position

    return run, [jax.random.key(3), grid]


@program("jax_md")
def jax_md_neighbor_list():
    from jax_md import energy, space

    displacement, _ = space.periodic(6.0)
    neighbors, potential = energy.lennard_jones_neighbor_list(displacement, 6.0, r_cutoff=1.5, dr_threshold=0.3)
    r = np.stack(np.meshgrid(*[np.arange(5)] * 2), -1).reshape(-1, 2).astype(np.float32) * 1.15
    r += 0.05 * normal(25, 2)
    nbrs = neighbors.allocate(r)

    def compute(r):
        updated = nbrs.update(r)
        return potential(r, updated), updated.did_buffer_overflow

    return compute, [r]


@program("brax")
def brax_environment_step():
    env = brax.envs.get_environment("fast")
    state = env.reset(jax.random.key(0))

    def step(state, action):
        for _ in range(2):
            state = env.step(state, action)
        return state.obs, state.reward

    return step, [state, np.float32(0.3) * np.ones(env.action_size, np.float32)]


@program("brax")
def brax_inverted_pendulum():
    env = brax.envs.get_environment("inverted_pendulum", backend="positional")
    state = jax.jit(env.reset)(jax.random.key(0))

    def step(q, qd, action):
        pipeline = env.pipeline_init(q, qd)
        after = env.pipeline_step(pipeline, action)
        return after.q, after.qd

    return step, [np.asarray(state.pipeline_state.q), np.asarray(state.pipeline_state.qd), np.array([0.3], np.float32)]


@program("ott")
def ott_sinkhorn():
    def transport(x, y):
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.1))
        out = sinkhorn.Sinkhorn(max_iterations=200)(problem)
        return out.reg_ot_cost, out.matrix

    return transport, [normal(7, 2), normal(5, 2, seed=1)]


@program("ott")
def ott_gradient_of_a_divergence():
    from ott.tools import sinkhorn_divergence

    def divergence(x, y):
        return sinkhorn_divergence.sinkhorn_divergence(pointcloud.PointCloud, x, y, epsilon=0.5)[0]

    return jax.grad(divergence), [normal(7, 2), normal(5, 2, seed=1)]


@program("ott")
def ott_costs_of_a_matrix():
    def transport(c, a):
        a = a / a.sum()
        problem = linear_problem.LinearProblem(geometry.Geometry(c, epsilon=0.2), a=a)
        return sinkhorn.Sinkhorn(lse_mode=False, max_iterations=100)(problem).matrix

    return transport, [positive(7, 5), positive(7, seed=1)]


@program("ott")
def ott_soft_sort():
    return lambda x: (ott.tools.soft_sort.sort(x), ott.tools.soft_sort.ranks(x)), [normal(7)]


def _generations(strategy, params, state, population=None):
    def run(key, state):
        for k in jax.random.split(key, 2):
            asked, state = strategy.ask(k, state, params)
            state, _ = strategy.tell(k, asked, jnp.sum(asked**2, axis=-1), state, params)
        return asked, state.best_fitness

    return run, [jax.random.key(3), state]


@program("evosax")
def evosax_cma_es():
    strategy = evosax.algorithms.CMA_ES(population_size=8, solution=jnp.zeros(3))
    params = strategy.default_params
    return _generations(strategy, params, strategy.init(jax.random.key(0), jnp.asarray(normal(3)), params))


@program("evosax")
def evosax_open_es():
    strategy = evosax.algorithms.Open_ES(population_size=8, solution=jnp.zeros(3))
    params = strategy.default_params
    return _generations(strategy, params, strategy.init(jax.random.key(0), jnp.asarray(normal(3)), params))


@program("evosax")
def evosax_differential_evolution():
    strategy = evosax.algorithms.DifferentialEvolution(population_size=8, solution=jnp.zeros(3))
    params = strategy.default_params
    population = jnp.asarray(normal(8, 3))
    state = strategy.init(jax.random.key(0), population, jnp.sum(population**2, -1), params)
    return _generations(strategy, params, state)
