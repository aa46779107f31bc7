// The borders of If, Loop and Scan, and how often their bodies run.
//
//   If     result i: what each branch returns there
//   Loop   what it carries: start, input and result of the body, what comes out; what it stacks along axis 0
//   Scan   what it carries; what it cuts and stacks along an axis each. Scan of opset 8, which has batches, is left alone.
#include "passes/layout/onnx_operators.h"

namespace sardonyx::layout {
namespace {

constexpr int64_t kMostTrips = 1 << 20;

// The border if all its values have one rank, those that are stacked one more.
void keep_if_ranked(Border b, std::vector<Border>& all) {
  size_t rank = 0;
  const auto fits = [&](const Value* v, bool stacked) {
    if (v == nullptr || !v->ranked() || v->type()->rank() > Layout::kMaxRank) return false;
    const size_t has = v->type()->rank();
    if (stacked && has == 0) return false;
    if (rank == 0) rank = stacked ? has - 1 : has;
    return rank > 1 && has == rank + (stacked ? 1 : 0);
  };
  for (const Value* made : b.made) {
    if (!fits(made, b.makes_stacks)) return;
  }
  for (const Border::Read& r : b.reads) {
    if (!fits(r.owner->is_boundary() ? r.owner->graph()->output(r.slot) : r.owner->input(r.slot), b.reads_stacks)) return;
  }
  if (b.axis >= 0 && b.axis <= static_cast<int>(rank)) all.push_back(std::move(b));
}

// Element i of a list of axes that may be left out; -1 where nothing is known.
int8_t axis_at(const Node& n, std::string_view name, size_t i, const Value* stack) {
  const auto list = n.attr(name) != nullptr ? ints_attr(n, name) : std::vector<int64_t>(i + 1, 0);
  if (!list || i >= list->size() || stack == nullptr || !stack->ranked()) return -1;
  const auto rank = static_cast<int64_t>(stack->type()->rank());
  const int64_t axis = (*list)[i] < 0 ? (*list)[i] + rank : (*list)[i];
  return axis < 0 || axis >= rank || axis > static_cast<int64_t>(Layout::kMaxRank) ? int8_t{-1} : static_cast<int8_t>(axis);
}

void of_if(Node& n, std::vector<Border>& all) {
  Graph* branches[] = {n.body("then_branch"), n.body("else_branch")};
  for (const Graph* g : branches) {
    if (g == nullptr || g->outputs().size() != n.num_results()) return;
  }
  for (size_t i = 0; i < n.num_results(); ++i) {
    keep_if_ranked({.reads = {{&branches[0]->boundary(), i}, {&branches[1]->boundary(), i}}, .made = {n.result(i)}}, all);
  }
}

void of_loop(Node& n, std::vector<Border>& all) {
  Graph* body = n.body("body");
  if (body == nullptr || n.num_inputs() < 2) return;
  const size_t states = n.num_inputs() - 2;
  if (body->inputs().size() != states + 2 || body->outputs().size() != n.num_results() + 1 || n.num_results() < states) return;
  for (size_t i = 0; i < n.num_results(); ++i) {
    Border b{.reads = {{&body->boundary(), i + 1}}, .made = {n.result(i)}, .makes_stacks = i >= states};
    if (i < states) {
      b.reads.push_back({&n, i + 2});
      b.made.push_back(body->input(i + 2));
    }
    keep_if_ranked(std::move(b), all);
  }
}

// How many of a Scan's operands are cut.
std::optional<size_t> cut_by(const Node& n) {
  const auto count = int_attr(n, "num_scan_inputs");
  if (n.op().since_version < 9 || !count || *count < 0 || *count > static_cast<int64_t>(n.num_inputs())) return std::nullopt;
  return static_cast<size_t>(*count);
}

void of_scan(Node& n, std::vector<Border>& all) {
  Graph* body = n.body("body");
  const auto cut = cut_by(n);
  if (body == nullptr || !cut) return;
  const size_t states = n.num_inputs() - *cut;
  if (body->inputs().size() != n.num_inputs() || body->outputs().size() != n.num_results() || n.num_results() < states) return;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    Border b{.reads = {{&n, i}}, .made = {body->input(i)}, .reads_stacks = i >= states};
    if (i < states) {
      b.reads.push_back({&body->boundary(), i});
      b.made.push_back(n.result(i));
    } else {
      b.axis = axis_at(n, "scan_input_axes", i - states, n.input(i));
    }
    keep_if_ranked(std::move(b), all);
  }
  for (size_t i = states; i < n.num_results(); ++i) {
    keep_if_ranked({.reads = {{&body->boundary(), i}},
                    .made = {n.result(i)},
                    .makes_stacks = true,
                    .axis = axis_at(n, "scan_output_axes", i - states, n.result(i))},
                   all);
  }
}

}  // namespace

std::vector<Border> onnx_borders(Node& n) {
  std::vector<Border> all;
  if (n.unchecked() || !n.op().known || !n.op().domain.empty() || n.op().dialect != DialectId::kOnnx) return all;
  if (n.is("If")) of_if(n, all);
  if (n.is("Loop")) of_loop(n, all);
  if (n.is("Scan")) of_scan(n, all);
  return all;
}

Dim onnx_trips(const Node& n, PassContext& context) {
  if (n.is("Scan")) {
    const auto cut = cut_by(n);
    const size_t first = cut ? n.num_inputs() - *cut : 0;
    const int8_t axis = cut && *cut > 0 ? axis_at(n, "scan_input_axes", 0, n.input(first)) : int8_t{-1};
    return axis >= 0 ? n.input(first)->type()->dim(static_cast<size_t>(axis)) : Dim();
  }
  // A Loop that goes on while a condition holds may have a bound that says nothing.
  const auto bound = n.input(0) != nullptr ? context.symbolic(n.input(0)) : std::nullopt;
  if (!bound || bound->elements.size() != 1) return Dim();
  const Dim trips = bound->elements[0];
  return trips.is_int() && trips.value() > kMostTrips ? Dim() : trips;
}

}  // namespace sardonyx::layout
