#include "ir/graph/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "ir/graph/graph_summary.h"
#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

constexpr std::string_view kText = R"(
graph(x: f32[B,3], w: f32[3], c: bool[]) {
  k = f32[3]{1,2,4}
  a = Add(x, w)
  b = Mul(a, k)
  p, q = Split<axis=1, split=[1,2]>(b)
  d = If<then_branch=graph() { e = Exp(a)  f = Neg(e)  return f }, else_branch=graph() { g = If<then_branch=graph() { return b }, else_branch=graph() { h = Abs(b)  return h }>(c)  return g }>(c)
  s = Sum(d, b, f32[3]{7,8,9})
  r = custom::twice(s)
  return r, d, p
}
function custom::twice<alpha=1>(u) opset 18 { v = Add(u, u)  return v }
)";

std::string all_of(const Model& m) { return print(m, {.full_constants = true, .types = true}); }

std::vector<Graph*> graphs_of(Model& m) {
  std::vector<Graph*> all;
  for (const auto& f : m.functions()) all.push_back(&f->graph());
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Node& n : all[i]->nodes()) {
      for (const Body& b : n.bodies()) all.push_back(b.graph);
    }
  }
  return all;
}

// The cached nodes with bodies are those that a walk finds.
void expect_bodies_known(Model& m) {
  for (const Graph* g : graphs_of(m)) {
    std::vector<const Node*> found;
    for (const Node& n : g->nodes()) {
      if (!n.bodies().empty()) found.push_back(&n);
    }
    EXPECT_TRUE(std::ranges::equal(nodes_with_bodies(*g), found));
  }
}

struct State {
  std::string text;
  std::unique_ptr<Model> copy;
  std::vector<uint32_t> counts;
  size_t nodes;
};

State state_of(Model& m) {
  State s{all_of(m), clone_model(m), {}, m.num_nodes()};
  for (Graph* g : graphs_of(m)) {
    for (const Node& n : g->nodes()) s.counts.push_back(m.op_count(n.op()));
  }
  return s;
}

void expect_same(Model& m, const State& s) {
  EXPECT_EQ(all_of(m), s.text);
  std::string why;
  EXPECT_TRUE(equal_models(m, *s.copy, &why)) << why;
  const State now = state_of(m);
  EXPECT_EQ(now.counts, s.counts);
  EXPECT_EQ(now.nodes, s.nodes);
  expect_bodies_known(m);
  verify(m);
}

// Makes random edits of every kind that a pass can make, whether sensible or not.
class Editor {
 public:
  Editor(Model& m, uint32_t seed) : m_(m), random_(seed) {}

  void edit() {
    const auto graphs = graphs_of(m_);
    Graph& g = *graphs[pick(graphs.size())];
    std::vector<Node*> nodes;
    for (Node& n : g.nodes()) nodes.push_back(&n);
    Node* n = nodes.empty() ? nullptr : nodes[pick(nodes.size())];
    const size_t kind = pick(30);
    if (n == nullptr && kind < 17) return;
    ++done[kind];
    switch (kind) {
      case 0: return g.append(make(g));
      case 1: return g.insert_before(*n, make(g));
      case 2: return g.insert_after(*n, make(g));
      case 3:
        if (!n->any_result_used()) g.erase(*n);
        return;
      case 4:
        for (Value& v : n->results()) g.replace_uses(v, any_but(g, n));
        return g.erase(*n);
      case 5:
        if (n->num_inputs() > 0) n->set_input(pick(n->num_inputs()), pick(4) == 0 ? nullptr : &any(g));
        return;
      case 6: return n->result()->set_type(m_.types().tensor(DType::kF64, {static_cast<int64_t>(pick(9))}));
      case 7: return n->result()->set_name(m_.name(fmt_name()));
      case 8: return n->set_name(m_.name(fmt_name()));
      case 9: return n->set_attrs(m_.attrs({attr("alpha", static_cast<int64_t>(pick(9)))}));
      case 10: return n->set_op(m_.op("", "Max"));
      case 11: return n->set_provenance(m_.add_provenance({.sources = {{.file = fmt_name(), .line = 3}}, .source_count = 1}));
      case 12: n->edit_extra().doc = fmt_name(); return;
      case 13: {  // moved, with other metadata
        g.detach(*n);
        n->set_name(m_.name(fmt_name()));
        n->result()->set_type(nullptr);
        if (n->num_inputs() > 0) n->set_input(0, &any(g));
        if (Node* at = g.first(); at != nullptr && pick(3) > 0) {
          g.insert_before(*at, *n);
        } else if (pick(2) == 0) {
          g.append(*n);
        } else {
          drop_inputs(*n);
        }
        return;
      }
      case 14: {
        Graph& body = m_.new_graph();
        body.append(make(g));
        body.add_output(*body.last()->result(), "z");
        return n->add_body("extra", body);
      }
      case 15:
        if (!n->bodies().empty()) n->remove_body(pick(n->bodies().size()));
        return;
      case 16:
        g.edit_value_info(*n->result()).declared = m_.types().tensor(DType::kF64, {static_cast<int64_t>(pick(9))});
        return;
      case 17: g.add_constant(Tensor::scalar(static_cast<int64_t>(pick(99))), fmt_name()); return;
      case 18:
        if (!g.constants().empty())
          g.set_constant(*g.constants()[pick(g.constants().size())], Tensor::scalar(static_cast<int64_t>(pick(99))));
        return;
      case 19: g.erase_unused_constants(); return;
      case 20:
        for (Value* v : g.constants()) {
          if (!v->has_uses()) return g.erase_constant(*v);
        }
        return;
      case 21: g.add_input(fmt_name(), nullptr); return;
      case 22:
        for (size_t i = 0; i < g.inputs().size(); ++i) {
          if (!g.input(i)->has_uses()) return g.remove_input(i);
        }
        return;
      case 23: return g.add_output(any(g), fmt_name());
      case 24:
        if (!g.outputs().empty()) g.remove_output(pick(g.outputs().size()));
        return;
      case 25:
        if (!g.outputs().empty()) g.set_output(pick(g.outputs().size()), any(g));
        return;
      case 26:
        if (!g.outputs().empty()) g.output_port(0).name = m_.name(fmt_name());
        return;
      case 27: {
        Function& f = m_.add_function(fmt_name());
        f.graph().append(make(f.graph()));
        return;
      }
      case 28: {
        if (m_.functions().size() < 2) return;
        Function& f = *m_.functions()[1 + pick(m_.functions().size() - 1)];
        Value& stays = *f.graph().add_constant(Tensor::scalar(1));
        for (Node& inner : f.graph().nodes()) {  // by now in any order
          for (Value& v : inner.results()) f.graph().replace_uses(v, stays);
        }
        return m_.erase_function(f);
      }
      case 29:
        m_.set_opset_version(fmt_name(), 3);
        try {
          g.sort();
        } catch (const Error&) {  // cyclic
        }
        return;
    }
  }

  size_t done[30] = {};

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  std::string fmt_name() { return "name" + std::to_string(pick(1000000)); }
  static void drop_inputs(Node& n) {
    for (size_t i = 0; i < n.num_inputs(); ++i) n.set_input(i, nullptr);
  }
  // A value visible to nodes of g.
  Value& any(Graph& g) { return any_but(g, nullptr); }
  Value& any_but(Graph& g, const Node* but) {
    std::vector<Value*> values;
    for (Graph* at = &g; at != nullptr; at = at->enclosing()) {
      for (const Port& p : at->inputs()) values.push_back(p.value);
      for (Value* v : at->constants()) values.push_back(v);
      for (Node& n : at->nodes()) {
        for (Value& v : n.results()) {
          if (&n != but) values.push_back(&v);
        }
      }
    }
    return values.empty() ? *g.add_constant(Tensor::scalar(1)) : *values[pick(values.size())];
  }
  Node& make(Graph& g) {
    Value* operands[] = {&any(g), &any(g)};
    return m_.new_node(m_.op("", "Min"), operands, 1);
  }

  Model& m_;
  std::mt19937 random_;
};

TEST(Journal, random_edits_are_taken_back) {
  size_t done[30] = {};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const auto m = parse(kText);
    for (Graph* g : graphs_of(*m)) {
      for (Node& n : g->nodes()) g->value_info[n.result()].declared = n.result()->type();
    }
    const State before = state_of(*m);
    {
      Journal journal(*m);
      Editor editor(*m, seed);
      for (uint32_t i = 0; i < 1 + seed; ++i) {
        editor.edit();
        if (seed % 10 == 0) expect_bodies_known(*m);
      }
      for (size_t k = 0; k < 30; ++k) done[k] += editor.done[k];
      journal.rollback();
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_same(*m, before);
    if (HasFailure()) break;
    // The model is fully usable: it can be edited, compacted and rolled back again.
    m->compact();
    Journal again(*m);
    Editor editor(*m, seed + 1000);
    for (uint32_t i = 0; i < 20; ++i) editor.edit();
    again.rollback();
    expect_same(*m, before);
    if (HasFailure()) break;
  }
  for (size_t k = 0; k < 30; ++k) EXPECT_GT(done[k], 100u) << "edits of kind " << k;
}

TEST(Journal, what_was_done_stays_without_rollback) {
  const auto m = parse(kText);
  const std::string before = all_of(*m);
  {
    Journal journal(*m);
    m->graph().output_port(0).name = m->name("changed");
    EXPECT_GT(journal.size(), 0u);
  }
  EXPECT_EQ(m->journal(), nullptr);
  EXPECT_NE(all_of(*m), before);
  m->compact();
}

TEST(Journal, records_only_its_own_model) {
  const auto m = parse(kText), other = parse(kText);
  Journal journal(*m);
  other->graph().first()->result()->set_name(other->name("changed"));
  other->graph().first()->result()->set_type(nullptr);
  EXPECT_EQ(journal.size(), 0u);
  journal.rollback();
  EXPECT_EQ(other->graph().first()->result()->type(), nullptr);
}

TEST(Journal, a_model_has_one_and_is_not_compacted_meanwhile) {
  const auto m = parse(kText);
  Journal journal(*m);
  EXPECT_THROW(Journal{*m}, Error);
  EXPECT_THROW(m->compact(), Error);
  journal.rollback();
  m->compact();
  Journal again(*m);
}

TEST(Journal, two_million_edits) {
  Model m(DialectId::kOnnx);
  m.set_opset_version("", 23);
  Graph& g = m.add_function("main").graph();
  Value* x = g.add_input("x", m.types().tensor(DType::kF32, {3}));
  const Op& relu = m.op("", "Relu");
  for (int i = 0; i < 500000; ++i) {
    Value* operand[] = {x};
    Node& n = m.new_node(relu, operand, 1);
    g.append(n);
    x = n.result();
  }
  g.add_output(*x, "y");
  const auto count = [&] { return m.num_nodes(); };
  Journal journal(m);
  for (Node& n : g.nodes()) {
    n.result()->set_type(m.types().tensor(DType::kF32, {3}));
    n.set_attrs(m.empty_attrs());
    g.replace_uses(*n.result(), *n.input(0));
    g.erase(n);
  }
  EXPECT_EQ(count(), 0u);
  EXPECT_GE(journal.size(), 2000000u);
  const std::clock_t begin = std::clock();
  journal.rollback();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(count(), 500000u);
  EXPECT_LT(seconds, 2.0);
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  verify(m, {.types = false});
}

}  // namespace
}  // namespace sardonyx
