// Order, uses and lifetimes, which have no text form. The operators are opaque, so no dialect is involved.
#include <gtest/gtest.h>

#include <random>

#include "ir/graph/graph_summary.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

class GraphTest : public ::testing::Test {
 protected:
  GraphTest() { model.opset_imports = {{"", 23}}; }

  Node& make(std::initializer_list<Value*> inputs, size_t results = 1) {
    return model.new_node(model.opaque_op("test", "Op", 1), std::span<Value* const>(inputs.begin(), inputs.size()), results);
  }
  Node& append(std::initializer_list<Value*> inputs, std::string_view name = {}) {
    Node& n = make(inputs);
    n.set_name(model.name(name));
    graph.append(n);
    return n;
  }
  std::string order() const {
    std::string text;
    for (const Node& n : graph.nodes()) text += std::string(n.name().view());
    return text;
  }

  Model model;
  Graph& graph = model.add_function("main").graph();
};

TEST_F(GraphTest, UsesFollowOperands) {
  Value* x = graph.add_input("x", nullptr);
  Node& a = append({x, x}, "a");
  EXPECT_FALSE(x->has_one_use());
  a.set_input(1, nullptr);
  EXPECT_TRUE(x->has_one_use());
  a.set_input(0, nullptr);
  EXPECT_FALSE(x->has_uses());
}

TEST_F(GraphTest, ReplacingUsesMovesAllReadersAndKeepsThoseOfTheTarget) {
  Value* x = graph.add_input("x", nullptr);
  Value* y = graph.add_input("y", nullptr);
  Node& a = append({x}, "a");
  Node& b = append({x, y}, "b");
  graph.add_output(*x, "out");
  graph.replace_uses(*x, *y);
  EXPECT_FALSE(x->has_uses());
  EXPECT_EQ(a.input(0), y);
  EXPECT_EQ(b.input(0), y);
  EXPECT_EQ(graph.output(0), y);
  size_t readers = 0;
  for (const Use& u : y->uses()) readers += u.value == y ? 1 : 0;
  EXPECT_EQ(readers, 4u);
}

TEST_F(GraphTest, AResultOfTheGraphIsAUseOfItsBoundary) {
  Node& a = append({}, "a");
  graph.add_output(*a.result(), "out");
  ASSERT_TRUE(a.result()->has_one_use());
  EXPECT_TRUE((*a.result()->uses().begin()).owner->is_boundary());
  EXPECT_THROW(graph.erase(a), Error);
  graph.remove_output(0);
  graph.erase(a);
  EXPECT_EQ(graph.num_nodes(), 0u);
}

TEST_F(GraphTest, InsertingInTheMiddleKeepsTheOrderOverManyBlocks) {
  Node& last = append({}, "z");
  for (int i = 0; i < 61; ++i) {
    Node& n = make({});
    n.set_name(model.name(std::string(1, static_cast<char>('a' + i % 23))));
    graph.insert_before(last, n);
  }
  std::string expected;
  for (int i = 0; i < 61; ++i) expected += static_cast<char>('a' + i % 23);
  EXPECT_EQ(order(), expected + "z");
  std::string backwards;
  for (Node* n = graph.last(); n != nullptr; n = n->prev()) backwards += n->name().view();
  EXPECT_EQ(std::string(backwards.rbegin(), backwards.rend()), order());
}

TEST_F(GraphTest, AWalkSeesWhatIsInsertedBehindItAndSurvivesErasingTheCurrentNode) {
  for (const char* name : {"a", "b", "c", "d"}) append({}, name);
  std::string seen;
  for (Node& n : graph.nodes()) {
    seen += n.name().view();
    if (n.name().view() == "b") {
      Node& behind = make({});
      behind.set_name(model.name("x"));
      graph.insert_after(n, behind);
      Node& before = make({});
      before.set_name(model.name("y"));
      graph.insert_before(n, before);
      graph.erase(n);
    }
  }
  EXPECT_EQ(seen, "abxcd");
  EXPECT_EQ(order(), "ayxcd");
}

TEST_F(GraphTest, DetachedNodesKeepOperandsAndMayReturn) {
  Value* x = graph.add_input("x", nullptr);
  Node& a = append({x}, "a");
  Node& b = append({}, "b");
  graph.detach(a);
  EXPECT_TRUE(x->has_one_use());
  EXPECT_EQ(order(), "b");
  graph.insert_after(b, a);
  EXPECT_EQ(order(), "ba");
}

TEST_F(GraphTest, ErasingANodeDropsTheUsesOfItsBodies) {
  Value* x = graph.add_input("x", nullptr);
  Node& outer = append({}, "if");
  Graph& body = model.new_graph("then");
  outer.add_body("then_branch", body);
  Value* operands[] = {x};
  Node& inner = model.new_node(model.opaque_op("test", "Op", 1), operands, 1);
  body.append(inner);
  body.add_output(*inner.result(), "y");
  body.add_output(*x, "captured");
  EXPECT_EQ(model.num_nodes(), 2u);
  graph.erase(outer);
  EXPECT_FALSE(x->has_uses());
  EXPECT_FALSE(inner.alive());
  EXPECT_EQ(model.num_nodes(), 0u);
}

TEST_F(GraphTest, SortPutsProducersFirstAndLeavesTheRestInPlace) {
  Value& late = model.new_placeholder("late");
  Node& reader = append({&late}, "r");
  append({}, "s");
  Node& producer = append({}, "p");
  model.fill(late, *producer.result());
  EXPECT_EQ(reader.input(0), producer.result());
  graph.sort();
  EXPECT_EQ(order(), "prs");
  graph.sort();
  EXPECT_EQ(order(), "prs");
}

TEST_F(GraphTest, SortCountsCapturesOfBodiesAsOperands) {
  Node& outer = append({}, "i");
  Node& producer = append({}, "p");
  Graph& body = model.new_graph("body");
  outer.add_body("body", body);
  body.add_output(*producer.result(), "y");
  graph.sort();
  EXPECT_EQ(order(), "pi");
}

TEST_F(GraphTest, SortNamesACycle) {
  Value& back = model.new_placeholder("back");
  Node& a = append({&back}, "a");
  Node& b = append({a.result()}, "b");
  model.fill(back, *b.result());
  try {
    graph.sort();
    FAIL() << "a cycle was sorted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    EXPECT_NE(std::string(e.what()).find("'a'"), std::string::npos);
  }
}

TEST_F(GraphTest, CompactRenumbersDenselyAndKeepsAddresses) {
  std::vector<Node*> nodes;
  for (int i = 0; i < 97; ++i) nodes.push_back(&append({}));
  for (size_t i = 0; i < nodes.size(); i += 2) graph.erase(*nodes[i]);
  model.compact();
  EXPECT_EQ(model.node_id_limit(), 48u);
  uint32_t id = 0;
  for (Node& n : graph.nodes()) {
    EXPECT_EQ(&n, nodes[2 * id + 1]);
    EXPECT_EQ(n.id(), id++);
  }
  append({}, "new");
  EXPECT_EQ(graph.last()->name().view(), "new");
}

TEST_F(GraphTest, AnOperatorIsTheDialectsOwnAndKnown) {
  Value* x = graph.add_input("x", nullptr);
  EXPECT_TRUE(model.new_node(model.op("", "Relu"), {&x, 1}, 1).is("Relu"));
  EXPECT_FALSE(model.new_node(model.op("com.example", "Relu"), {&x, 1}, 1).is("Relu"));
  EXPECT_FALSE(model.new_node(model.opaque_op("", "Relu", 99), {&x, 1}, 1).is("Relu"));  // a future opset
}

TEST_F(GraphTest, TheCountOfAnOperatorFollowsTheGraph) {
  const Op& op = model.opaque_op("test", "Op", 1);
  Node& a = append({});
  const uint64_t with_one = op_set(model);
  Node& b = append({});
  EXPECT_EQ(model.op_count(op), 2u);
  EXPECT_EQ(op_counts(model)[op.id], 2u);
  graph.detach(a);
  EXPECT_EQ(model.op_count(op), 1u);
  EXPECT_EQ(op_set(model), with_one);
  graph.erase(b);
  EXPECT_NE(op_set(model), with_one);
}

TEST_F(GraphTest, RandomEditsKeepTheOrderOfAVector) {
  std::mt19937 random(7);
  std::vector<Node*> expected;
  for (int step = 0; step < 5003; ++step) {
    const size_t at = expected.empty() ? 0 : random() % expected.size();
    switch (expected.size() < 3 ? 0 : random() % 4) {
      case 0:
      case 1: {
        Node& n = make({});
        if (expected.empty()) {
          graph.append(n);
          expected.push_back(&n);
        } else {
          graph.insert_after(*expected[at], n);
          expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at) + 1, &n);
        }
        break;
      }
      case 2:
        graph.erase(*expected[at]);
        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      default: {
        Node* moved = expected[at];
        graph.detach(*moved);
        graph.append(*moved);
        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
        expected.push_back(moved);
      }
    }
    if (step % 501 == 0) model.compact();
  }
  std::vector<Node*> found;
  for (Node& n : graph.nodes()) found.push_back(&n);
  EXPECT_EQ(found, expected);
}

TEST_F(GraphTest, EqualAttributesAreOneSet) {
  const Attrs* a = model.attrs({attr("axis", 1), attr("perm", std::vector<int64_t>{2, 0, 1})});
  const Attrs* b = model.attrs({attr("perm", std::vector<int64_t>{2, 0, 1}), attr("axis", 1)});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, model.with_attr(*a, "axis", 2));
  EXPECT_EQ(a, model.with_attr(*model.without_attr(*a, "axis"), "axis", 1));
  EXPECT_NE(model.attrs({attr("alpha", 0.0)}), model.attrs({attr("alpha", -0.0)}));
  EXPECT_THROW(model.attrs({attr("axis", 1), attr("axis", 2)}), Error);
}

TEST_F(GraphTest, MergedProvenanceKeepsFourSourcesAndCountsAll) {
  uint32_t merged = 0;
  for (int line = 1; line <= 7; ++line) {
    Source s;
    s.file = "model.py";
    s.line = line;
    merged = model.merge_provenance(merged, model.add_provenance({{s}, 0, {}}));
  }
  EXPECT_EQ(model.provenance(merged).sources.size(), 4u);
  EXPECT_EQ(model.provenance(merged).source_count, 7u);
  EXPECT_EQ(model.merge_provenance(merged, merged), merged);
}

TEST_F(GraphTest, LongNamesSurvive) {
  const std::string text(100003, 'n');
  EXPECT_EQ(model.name(text).view(), text);
  EXPECT_TRUE(model.name("").empty());
}

}  // namespace
}  // namespace sardonyx
