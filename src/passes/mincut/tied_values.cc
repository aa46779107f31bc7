#include "passes/mincut/tied_values.h"

namespace sardonyx::layout {
namespace {

constexpr int64_t kMostTrips = 1 << 20;

// Keeps the values if all have one rank, those that are stacked one more; a negative `axis` counts from the
// end.
void keep_if_ranked(TiedValues t, std::vector<TiedValues>& all, int64_t axis = 0) {
  size_t rank = 0;
  const auto fits = [&](const Value* v, bool stacked) {
    if (v == nullptr || !v->ranked() || v->type()->rank() > Layout::kMaxRank) return false;
    const size_t has = v->type()->rank() - (stacked ? 1 : 0);
    if (rank == 0) rank = has;
    return rank > 1 && has == rank;
  };
  for (const Value* made : t.made) {
    if (!fits(made, t.made_stacked)) return;
  }
  for (const TiedValues::Operand& o : t.read) {
    if (!fits(o.value(), t.read_stacked)) return;
  }
  t.axis = static_cast<int8_t>(axis < 0 ? axis + static_cast<int64_t>(rank) + 1 : axis);
  all.push_back(std::move(t));
}

// `count` axes, zeros if they are left out; nullopt if a function's call gives them.
std::optional<std::vector<int64_t>> axes_of(const Node& n, std::string_view name, size_t count) {
  return n.attr(name) != nullptr ? ints_attr(n, name) : std::vector<int64_t>(count, 0);
}

// Type inference has seen that counts of operands, results and axes fit, and that axes are in range: the node
// is not unchecked.

void of_if(Node& n, std::vector<TiedValues>& all) {
  Node &a = n.body("then_branch")->boundary(), &b = n.body("else_branch")->boundary();
  for (size_t i = 0; i < n.num_results(); ++i) keep_if_ranked({.read = {{&a, i}, {&b, i}}, .made = {n.result(i)}}, all);
}

void of_loop(Node& n, std::vector<TiedValues>& all) {
  Graph* body = n.body("body");
  const size_t states = body->inputs().size() - 2;
  for (size_t i = 0; i < n.num_results(); ++i) {
    TiedValues t{.read = {{&body->boundary(), i + 1}}, .made = {n.result(i)}, .made_stacked = i >= states};
    if (i < states) {
      t.read.push_back({&n, i + 2});
      t.made.push_back(body->input(i + 2));
    }
    keep_if_ranked(std::move(t), all);
  }
}

// How many operands a Scan carries, before those that it cuts. Scan of opset 8, which has batches, is left
// alone.
std::optional<size_t> carried_by(const Node& n) {
  const auto cut = n.is("Scan") && n.op().since_version >= 9 ? int_attr(n, "num_scan_inputs") : std::nullopt;
  return cut ? std::optional(n.num_inputs() - static_cast<size_t>(*cut)) : std::nullopt;
}

void of_scan(Node& n, size_t states, std::vector<TiedValues>& all) {
  Graph* body = n.body("body");
  const auto cut = axes_of(n, "scan_input_axes", n.num_inputs() - states);
  const auto stacked = axes_of(n, "scan_output_axes", n.num_results() - states);
  for (size_t i = 0; i < states; ++i) {
    keep_if_ranked({.read = {{&n, i}, {&body->boundary(), i}}, .made = {body->input(i), n.result(i)}}, all);
  }
  for (size_t i = states; cut && i < n.num_inputs(); ++i) {
    keep_if_ranked({.read = {{&n, i}}, .made = {body->input(i)}, .read_stacked = true}, all, (*cut)[i - states]);
  }
  for (size_t i = states; stacked && i < n.num_results(); ++i) {
    keep_if_ranked({.read = {{&body->boundary(), i}}, .made = {n.result(i)}, .made_stacked = true}, all,
                   (*stacked)[i - states]);
  }
}

}  // namespace

std::vector<TiedValues> tied_values(Node& n) {
  std::vector<TiedValues> all;
  if (n.unchecked()) return all;
  if (n.is("If")) of_if(n, all);
  if (n.is("Loop")) of_loop(n, all);
  if (const auto states = carried_by(n)) of_scan(n, *states, all);
  return all;
}

Dim trips(const Node& n, PassContext& context) {
  if (n.unchecked()) return {};
  if (const auto states = carried_by(n)) {
    const Value& cut = *n.input(*states);
    const auto axes = axes_of(n, "scan_input_axes", n.num_inputs() - *states);
    if (!cut.ranked() || !axes) return {};
    const auto rank = static_cast<int64_t>(cut.type()->rank());
    return cut.type()->dim(static_cast<size_t>(axes->front() < 0 ? axes->front() + rank : axes->front()));
  }
  // A Loop that runs while a condition holds may have a bound that says nothing.
  const auto bound = n.is("Loop") && n.input(0) != nullptr ? context.symbolic(n.input(0)) : std::nullopt;
  if (!bound) return {};
  const Dim most = bound->elements[0];
  return most.is_int() && most.value() > kMostTrips ? Dim() : most;
}

}  // namespace sardonyx::layout
