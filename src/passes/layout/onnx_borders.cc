// The borders of If, Loop and Scan, and how often their bodies run.
//
//   If     result i: what each branch returns there
//   Loop   what it carries: start, input and result of the body, what comes out; what it stacks along axis 0
//   Scan   what it carries; what it cuts and stacks along an axis each
#include "passes/layout/onnx_operators.h"

namespace sardonyx::layout {
namespace {

constexpr int64_t kMostTrips = 1 << 20;

// The border if all its values have one rank, those that are stacked one more; `axis` counts from the end where it is negative.
void keep_if_ranked(Border b, std::vector<Border>& all, int64_t axis = 0) {
  size_t rank = 0;
  const auto fits = [&](const Value* v, bool stacked) {
    if (v == nullptr || !v->ranked() || v->type()->rank() > Layout::kMaxRank) return false;
    const size_t has = v->type()->rank() - (stacked ? 1 : 0);
    if (rank == 0) rank = has;
    return rank > 1 && has == rank;
  };
  std::vector<std::pair<const Value*, bool>> values;
  for (const Value* made : b.made) values.emplace_back(made, b.makes_stacks);
  for (const Border::Read& r : b.reads)
    values.emplace_back(r.owner->is_boundary() ? r.owner->graph()->output(r.slot) : r.owner->input(r.slot), b.reads_stacks);
  for (const auto& [v, stacked] : values) {
    if (!fits(v, stacked)) return;
  }
  b.axis = static_cast<int8_t>(axis < 0 ? axis + static_cast<int64_t>(rank) + 1 : axis);
  all.push_back(std::move(b));
}

// As many axes, which may be left out; nullopt where a function's call gives them.
std::optional<std::vector<int64_t>> axes_of(const Node& n, std::string_view name, size_t count) {
  return n.attr(name) != nullptr ? ints_attr(n, name) : std::vector<int64_t>(count, 0);
}

// Type inference has seen that counts of operands, results and axes fit, and that axes are in range: the node is not unchecked.

void of_if(Node& n, std::vector<Border>& all) {
  Node &a = n.body("then_branch")->boundary(), &b = n.body("else_branch")->boundary();
  for (size_t i = 0; i < n.num_results(); ++i) keep_if_ranked({.reads = {{&a, i}, {&b, i}}, .made = {n.result(i)}}, all);
}

void of_loop(Node& n, std::vector<Border>& all) {
  Graph* body = n.body("body");
  const size_t states = body->inputs().size() - 2;
  for (size_t i = 0; i < n.num_results(); ++i) {
    Border b{.reads = {{&body->boundary(), i + 1}}, .made = {n.result(i)}, .makes_stacks = i >= states};
    if (i < states) {
      b.reads.push_back({&n, i + 2});
      b.made.push_back(body->input(i + 2));
    }
    keep_if_ranked(std::move(b), all);
  }
}

// How many of a Scan's operands are carried, before those that are cut. Scan of opset 8, which has batches, is left alone.
std::optional<size_t> carried_by(const Node& n) {
  const auto cut = n.is("Scan") && n.op().since_version >= 9 ? int_attr(n, "num_scan_inputs") : std::nullopt;
  return cut ? std::optional(n.num_inputs() - static_cast<size_t>(*cut)) : std::nullopt;
}

void of_scan(Node& n, size_t states, std::vector<Border>& all) {
  Graph* body = n.body("body");
  const auto cut = axes_of(n, "scan_input_axes", n.num_inputs() - states);
  const auto stacked = axes_of(n, "scan_output_axes", n.num_results() - states);
  for (size_t i = 0; i < states; ++i) {
    keep_if_ranked({.reads = {{&n, i}, {&body->boundary(), i}}, .made = {body->input(i), n.result(i)}}, all);
  }
  for (size_t i = states; cut && i < n.num_inputs(); ++i) {
    keep_if_ranked({.reads = {{&n, i}}, .made = {body->input(i)}, .reads_stacks = true}, all, (*cut)[i - states]);
  }
  for (size_t i = states; stacked && i < n.num_results(); ++i) {
    keep_if_ranked({.reads = {{&body->boundary(), i}}, .made = {n.result(i)}, .makes_stacks = true}, all,
                   (*stacked)[i - states]);
  }
}

}  // namespace

std::vector<Border> onnx_borders(Node& n) {
  std::vector<Border> all;
  if (n.unchecked()) return all;
  if (n.is("If")) of_if(n, all);
  if (n.is("Loop")) of_loop(n, all);
  if (const auto states = carried_by(n)) of_scan(n, *states, all);
  return all;
}

Dim onnx_trips(const Node& n, PassContext& context) {
  if (n.unchecked()) return {};
  if (const auto states = carried_by(n)) {
    const Value& cut = *n.input(*states);
    const auto axes = axes_of(n, "scan_input_axes", n.num_inputs() - *states);
    if (!cut.ranked() || !axes) return {};
    const auto rank = static_cast<int64_t>(cut.type()->rank());
    return cut.type()->dim(static_cast<size_t>(axes->front() < 0 ? axes->front() + rank : axes->front()));
  }
  // A Loop that goes on while a condition holds may have a bound that says nothing.
  const auto bound = n.is("Loop") && n.input(0) != nullptr ? context.symbolic(n.input(0)) : std::nullopt;
  if (!bound) return {};
  const Dim trips = bound->elements[0];
  return trips.is_int() && trips.value() > kMostTrips ? Dim() : trips;
}

}  // namespace sardonyx::layout
