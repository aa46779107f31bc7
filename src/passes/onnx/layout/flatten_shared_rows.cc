//   x: [B,T,K] ─┬─ MatMul(w1) ── Add(b1) ── Reshape ── y1
//               ├─ MatMul(w2) ── Add(b2) ── Reshape ── y2
//               └─ MatMul(w3) ── Add(b3) ── Reshape ── y3
//     =>   x ── Reshape [-1,K] ─┬─ Gemm(w1, b1) ── Reshape ── y1
//                               ├─ Gemm(w2, b2) ── Reshape ── y2
//                               └─ Gemm(w3, b3) ── Reshape ── y3
//
// Handles queries, keys and values of one operand that are each split into heads. One Reshape serves all
// products, and each product saves a node. onnxruntime takes the same time for both forms (width 384; 16, 128
// and 512 rows: within 2 %), because it turns each product into a Gemm between Reshapes anyway. A single
// product would gain nothing, and unflatten_matmul prefers it without Reshapes.
//
// What stops it: fewer than two such products; a following Reshape that copies axes of unknown size; other
// users in between; weights that are not constant; a bias of more than one axis; element types without a
// kernel.
// Rounds: the sum of products starts at the bias.
#include <algorithm>
#include <vector>

#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

struct Product {
  Node *matmul, *add, *reshape;
  std::vector<int64_t> target;
};

// The only user of the result, if it is a node of the same graph.
Node* only_user(const Node& n) {
  const Value& v = *n.result();
  if (!v.has_one_use()) return nullptr;
  Node* user = (*v.uses().begin()).owner;
  return user->is_boundary() || user->graph() != n.graph() || user->unchecked() ? nullptr : user;
}

// The target shape of the last Reshape, without copied axes: its operand will have two axes only.
std::optional<std::vector<int64_t>> target_of(const Node& reshape, PassContext& context) {
  auto target = reshape.input(1) != nullptr ? context.ints(reshape.input(1)) : std::nullopt;
  if (!target || std::find(target->begin(), target->end(), 0) == target->end()) return target;
  const Type* t = reshape.result()->type();
  if (t == nullptr || !t->is_static() || *t->static_size() == 0) return std::nullopt;
  for (size_t i = 0; i < target->size(); ++i) (*target)[i] = t->dim(i).value();
  return target;
}

std::optional<Product> product_at(Node& n, PassContext& context) {
  if (!n.is("MatMul") || n.unchecked()) return std::nullopt;
  const Value *x = n.input(0), *w = n.input(1);
  if (!x->ranked() || x->type()->rank() < 3 || !has_kernel(context.model, "Gemm", x->dtype()) || !w->is_constant())
    return std::nullopt;
  if (w->type()->rank() != 2 || w->type()->dim(0).is(0)) return std::nullopt;
  Node* add = only_user(n);
  if (add == nullptr || !add->is("Add")) return std::nullopt;
  const Value* bias = add->input(add->input(0) == n.result() ? 1 : 0);
  if (!bias->is_constant() || bias->type()->rank() != 1 || !(bias->type()->dim(0) == w->type()->dim(1))) return std::nullopt;
  Node* reshape = only_user(*add);
  if (reshape == nullptr || !reshape->is("Reshape") || reshape->input(0) != add->result()) return std::nullopt;
  auto target = target_of(*reshape, context);
  if (!target) return std::nullopt;
  return Product{&n, add, reshape, std::move(*target)};
}

void flatten(std::span<const Product> products, PassContext& context) {
  Node& first = *products.front().matmul;
  Rewriter b(*first.graph(), context);
  b.set_insertion_point(&first);
  b.set_provenance(first.provenance());
  Value* rows = b.Reshape(first.input(0), b.i64s({-1, first.input(1)->type()->dim(0).value()}));
  for (const Product& p : products) {
    b.set_insertion_point(p.add);
    b.set_provenance(p.add->provenance());
    Value* bias = p.add->input(p.add->input(0) == p.matmul->result() ? 1 : 0);
    Value* made = b.op("Gemm", {rows, p.matmul->input(1), bias});
    b.set_insertion_point(p.reshape);
    p.reshape->set_input(1, b.i64s(p.target));
    p.reshape->set_input(0, made);
    p.reshape->graph()->erase(*p.add);
    p.reshape->graph()->erase(*p.matmul);
    context.log.count("products");
  }
}

}  // namespace

Pass flatten_shared_rows() {
  return Pass::on_graph(Numerics::kRounds, needs({"MatMul"}), [](Graph& top, PassContext& context) {
    const auto opset = context.model.opset_version("");
    if (!opset || *opset < 11) return false;
    bool changed = false;
    for (Graph* g : graphs_in(top)) {
      std::vector<std::vector<Product>> groups;  // by operand, in the order of their first products
      std::unordered_map<const Value*, size_t> by_operand;
      for (Node& n : g->nodes()) {
        auto product = product_at(n, context);
        if (!product) continue;
        const auto [at, is_new] = by_operand.try_emplace(n.input(0), groups.size());
        if (is_new) groups.emplace_back();
        groups[at->second].push_back(std::move(*product));
      }
      for (const auto& products : groups) {
        if (products.size() < 2) continue;
        flatten(products, context);
        changed = true;
      }
    }
    return changed;
  });
}

}  // namespace sardonyx::onnx
