// Nodes with bodies, local functions, and snippets from cases.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "random/generator.h"

namespace sardonyx::fuzz {
namespace {

// Whether a normalization divides by the root of v. Values other than the case's own would make it divide by
// zero.
bool divides(const Value& v) {
  static constexpr std::string_view kSlots[] = {"epsilon", "variance", "var", "input_var"};
  for (const Use& u : v.uses()) {
    const Node& n = *u.owner;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      const Slot* slot = n.input(i) == &v ? slot_of(n.op(), i, n.num_inputs()) : nullptr;
      if (slot != nullptr && std::ranges::find(kSlots, slot->name) != std::end(kSlots)) return true;
    }
  }
  return false;
}

}  // namespace

bool Generator::run_bodies(Node& n) {
  Graph& g = *n.graph();
  const size_t before = g.outputs().size();
  for (Value& r : n.results()) g.add_output(r, "probe");
  std::vector<Sample> results(n.num_results());
  bool fine = true;
  for (int which : {0, 1}) {
    try {
      const auto inputs = input_samples(g, which);
      const auto out = evaluate(g, inputs, kBounded);
      for (size_t i = 0; i < n.num_results() && fine; ++i) {
        const Array* a = out[before + i].array();
        fine = a != nullptr && ((n.op().outputs.empty() ? ~uint64_t{0} : n.op().outputs.back().types.tensor) &
                                (uint64_t{1} << static_cast<int>(a->dtype()))) != 0;
        if (!fine) break;
        // The shape of a result that a loop collects in zero iterations is unknown at run time.
        fine = a != nullptr && a->size() <= kMostElements && (a->size() > 0 || !n.is("Loop"));
        if (!fine) break;
        results[i][static_cast<size_t>(which)] = a->to_tensor();
        check_types(n, i, results[i][static_cast<size_t>(which)], which);
      }
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      fine = false;
    }
    if (!fine) break;
  }
  while (g.outputs().size() > before) g.remove_output(g.outputs().size() - 1);
  if (!fine) {
    g.erase(n);
    return false;
  }
  for (size_t i = 0; i < n.num_results(); ++i) show(*n.result(i), results[i]);
  return true;
}

Graph& Generator::open_body(std::string_view name, std::vector<std::pair<const Type*, Sample>> inputs) {
  Graph& g = model_->new_graph(name);
  scopes_.push_back({&g, std::make_unique<Builder>(g, facts_), {}});
  for (auto& [type, sample] : inputs) {
    Value* v = g.add_input(fmt::format("b{}_{}", scopes_.size(), g.inputs().size()), type);
    if (v->type() == nullptr) v->set_type(type);
    show(*v, sample);
  }
  return g;
}

bool Generator::add_if() {
  Value* cond = pick(bit(DType::kBool), 0, 0);
  if (cond == nullptr || chance(40)) {
    const std::vector<Dim> none;
    cond = chance(30) ? constant(DType::kBool, {}) : exactly(DType::kBool, none);
  }
  if (cond == nullptr) return false;
  Graph& then = open_body("then", {});
  for (int64_t k = between(1, 3); k > 0; --k) step();
  Value* result = nullptr;
  for (Value* v : scopes_.back().values) {
    if (v->type() != nullptr && v->ranked() && samples_.contains(v)) result = v;
  }
  if (result == nullptr || chance(10)) result = pick(~uint64_t{0});
  const Type* t = result == nullptr ? nullptr : result->type();
  if (t != nullptr) then.add_output(*result, "r");
  close_body();
  if (t == nullptr) return false;
  Graph& otherwise = open_body("else", {});
  for (int64_t k = between(0, 2); k > 0; --k) step();
  std::vector<Value*> fit;
  for (Value* v : visible()) {
    if (Types::equal(v->type(), t)) fit.push_back(v);
  }
  Value* other = fit.empty() ? exactly(t->dtype(), t->dims()) : chance(50) ? fit.back() : one_of(fit);
  if (other != nullptr && chance(50) && is_float(t->dtype())) {
    if (Value* v = add_one(mil() ? "relu" : chance(50) ? "Neg" : "Abs", {other})) other = v;
  }
  if (other != nullptr) otherwise.add_output(*other, "r");
  close_body();
  if (other == nullptr) return false;
  const Op* op = find(mil() ? "cond" : "If");
  if (!mil() && ((op->outputs[0].types.tensor >> static_cast<int>(t->dtype())) & 1) == 0) return false;
  Value* sampled = result;
  Node* n = nullptr;
  try {
    const Body bodies[] = {{model_->name(mil() ? "true_fn" : "then_branch"), &then},
                           {model_->name(mil() ? "false_fn" : "else_branch"), &otherwise}};
    Value* in[] = {cond};
    n = &scopes_.back().builder->make(*op, in, 1, {}, bodies);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return false;
  }
  if (scopes_.size() == 1) return run_bodies(*n);
  show(*n->result(), samples_[sampled]);
  return true;
}

bool Generator::add_loop() {
  const DType kinds[] = {main_dtype_, DType::kI64, DType::kF32};
  Value* carried = pick(bit(one_of(kinds)));
  if (carried == nullptr) return false;
  const Sample none = {Tensor::scalar(0), Tensor::scalar(0)};
  const TensorPtr yes = Tensor::full(DType::kBool, {}, 1);
  Graph& body = open_body(
      "body",
      {{types().scalar(DType::kI64), none}, {types().scalar(DType::kBool), {yes, yes}}, {carried->type(), samples_[carried]}});
  Value* state = body.input(2);
  for (int64_t k = between(1, 3); k > 0; --k) step();
  Value* next = next_state(*state, "Add");
  Value* go = chance(50) ? body.input(1) : constant(yes);
  Value* collected = chance(50) ? scopes_.back().values.back() : nullptr;
  if (collected != nullptr && (!collected->ranked() || collected->type()->rank() > 4)) collected = nullptr;
  body.add_output(*go, "go");
  body.add_output(*next, "next");
  if (collected != nullptr) body.add_output(*collected, "row");
  close_body();
  const std::vector<Dim> nothing;
  Value* trips = chance(80) ? constant(Tensor::scalar(between(0, 4))) : exactly(DType::kI64, nothing);
  if (trips == nullptr) return false;
  try {
    const Body bodies[] = {{model_->name("body"), &body}};
    Value* in[] = {trips, chance(50) ? nullptr : constant(yes), carried};
    return run_bodies(scopes_.back().builder->make(*find("Loop"), in, collected != nullptr ? 2 : 1, {}, bodies));
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return false;
  }
}

// A loop body's result for a state variable: a value of the same type, mostly not the state itself.
Value* Generator::next_state(Value& state, std::string_view add) {
  std::vector<Value*> fit;
  for (Value* v : scopes_.back().values) {
    if (Types::equal(v->type(), state.type())) fit.push_back(v);
  }
  Value* next = one_of(fit);
  if (next != &state || !chance(70)) return next;
  Value* p = partner(state, /*widen=*/false);
  Value* v = p != nullptr ? add_one(add, {&state, p}) : nullptr;
  return v != nullptr && Types::equal(v->type(), state.type()) ? v : next;
}

// A loop that counts to a number and changes a value on the way. One more variable may stay unchanged.
bool Generator::add_while() {
  Value* carried = pick(bit(main_dtype_), 0, 3);
  Value* kept = chance(40) ? pick(kMilInputs, 0, 3) : nullptr;
  if (carried == nullptr) return false;
  const TensorPtr zero = Tensor::full(DType::kI32, {}, 0);
  const auto variables = [&] {
    std::vector<std::pair<const Type*, Sample>> all{{types().scalar(DType::kI32), {zero, zero}},
                                                    {carried->type(), samples_[carried]}};
    if (kept != nullptr) all.emplace_back(kept->type(), samples_[kept]);
    return all;
  };
  Graph& test = open_body("test", variables());
  Value* go = add_one("less", {test.input(0), scalar(DType::kI32, static_cast<double>(between(0, 3)))});
  if (go != nullptr) test.add_output(*go, "go");
  close_body();
  if (go == nullptr) return false;
  Graph& body = open_body("body", variables());
  Value* state = body.input(1);
  for (int64_t k = between(1, 3); k > 0; --k) step();
  Value* next = next_state(*state, "add");
  Value* count = add_one("add", {body.input(0), scalar(DType::kI32, 1)});
  if (count != nullptr) {
    body.add_output(*count, "count");
    body.add_output(*next, "next");
    if (kept != nullptr) body.add_output(*body.input(2), "kept");
  }
  close_body();
  if (count == nullptr) return false;
  try {
    const Body bodies[] = {{model_->name("cond"), &test}, {model_->name("body"), &body}};
    std::vector<Value*> in{constant(zero), carried};
    if (kept != nullptr) in.push_back(kept);
    return run_bodies(scopes_.back().builder->make(*find("while_loop"), in, in.size(), {}, bodies));
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return false;
  }
}

bool Generator::add_scan() {
  Value* rows = pick(bit(main_dtype_), 1, 3);
  Value* state = pick(bit(main_dtype_), 0, 2);
  if (rows == nullptr || state == nullptr) return false;
  const auto dims = rows->type()->dims();
  std::vector<Dim> rest(dims.begin() + 1, dims.end());
  Sample row;
  for (size_t which : {0, 1}) {
    const Tensor& t = *samples_[rows][which];
    if (t.shape()[0] == 0) return false;
    std::vector<int64_t> shape(t.shape().begin() + 1, t.shape().end());
    row[which] = random_tensor(t.dtype(), shape);
  }
  Graph& body = open_body("body", {{state->type(), samples_[state]}, {types().tensor(main_dtype_, rest), row}});
  Value *in_state = body.input(0), *in_row = body.input(1);
  for (int64_t k = between(1, 3); k > 0; --k) step();
  std::vector<Value*> fit;
  for (Value* v : scopes_.back().values) {
    if (Types::equal(v->type(), in_state->type())) fit.push_back(v);
  }
  Value* next = one_of(fit);
  Value* out = scopes_.back().values.back();
  if (!out->ranked() || out->type()->rank() > 4) out = in_row;
  body.add_output(*next, "next");
  body.add_output(*out, "row");
  close_body();
  try {
    const Body bodies[] = {{model_->name("body"), &body}};
    Value* in[] = {state, rows};
    AttrInit attrs{attr("num_scan_inputs", Attr(1))};
    if (chance(30)) attrs.push_back(attr("scan_input_directions", Attr(Attr::Ints{1})));
    return run_bodies(scopes_.back().builder->make(*find("Scan"), in, 2, std::move(attrs), bodies));
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return false;
  }
}

// A local function. It is typed while it is built, by the operands of its first call.
bool Generator::add_call() {
  std::vector<Value*> operands;
  for (int64_t k = between(1, 2); k > 0; --k) operands.push_back(pick(bit(main_dtype_) | bit(DType::kI64)));
  for (Value* v : operands) {
    if (v == nullptr) return false;
  }
  std::vector<Scope> outside;
  outside.swap(scopes_);
  const bool nested = std::exchange(in_function_, true);
  Graph& body = model_->new_graph("body");
  scopes_.push_back({&body, std::make_unique<Builder>(body, facts_), {}});
  for (Value* v : operands) {
    Value* in = body.add_input(fmt::format("a{}", body.inputs().size()), nullptr);
    in->set_type(v->type());
    show(*in, samples_[v]);
  }
  for (int64_t k = between(1, 4); k > 0; --k) step();
  Value* result = scopes_.back().values.back();
  const bool made = result->def() != nullptr;
  if (made) body.add_output(*result, "r");
  in_function_ = nested;
  scopes_ = std::move(outside);
  if (!made) return false;
  Function& f = model_->add_function(fmt::format("f{}", functions_++), body);
  f.domain = "local";
  f.opset_imports = {{"", opset_}, {"local", 1}};
  model_->set_opset_version("local", 1);
  bool any = false;
  for (int64_t calls = between(1, 2); calls > 0; --calls) {
    Node& n = model_->new_node(model_->op("local", f.name), operands, 1);
    scopes_.back().graph->append(n);
    try {
      infer_node(n, facts_);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      scopes_.back().graph->erase(n);
      break;
    }
    any |= run_bodies(n);
  }
  return any;
}

// The limit for constants of a snippet. A splat of gigabytes takes no memory until something is computed from
// it.
constexpr size_t kMostBytes = 64 << 20;

bool Generator::add_snippet() {
  if (options_.snippets.empty()) return false;
  const std::string& text = options_.only_snippet < options_.snippets.size() && scopes_.size() == 1
                                ? options_.snippets[options_.only_snippet]
                                : one_of(options_.snippets);
  std::unique_ptr<Model> piece;
  try {
    piece = parse(text, "snippet");
  } catch (const Error&) {
    return false;
  }
  if (piece->dialect() != options_.dialect || piece->functions().size() != 1) return false;
  if (!mil() && piece->opset_version("").value_or(23) != opset_ && (piece->opset_version("").value_or(23) != 23 || opset_ < 18))
    return false;
  const Graph& from = piece->graph();
  if (from.num_nodes() > 60) return false;
  Graph& to = *scopes_.back().graph;
  std::unordered_map<const Value*, Value*> map;
  for (const Port& p : from.inputs()) {
    const Type* t = p.declared;
    if (t == nullptr || !t->is_tensor() || !t->ranked() || is_complex(t->dtype()) || t->dtype() == DType::kUndefined)
      return false;
    std::vector<Dim> dims;
    for (Dim d : t->dims()) {
      const Dim own = d.is_unknown() ? palette_[0] : model_->dims().import(d, piece->dims());
      dims.push_back(own);
    }
    Value* v = exactly(t->dtype(), dims);
    if (v == nullptr) return false;
    map[p.value] = v;
  }
  std::vector<Node*> made;
  const auto undo = [&] {
    for (auto n = made.rbegin(); n != made.rend(); ++n) {
      if ((*n)->any_result_used()) return false;
      to.erase(**n);
    }
    return false;
  };
  for (Value* c : from.constants()) {
    TensorPtr payload = c->constant();
    if (payload->is_promise() || payload->byte_size() > kMostBytes || !has_constants_of(payload->dtype())) return false;
    if (payload->size() <= 8 && is_float(payload->dtype()) && chance(4) && !divides(*c))
      payload = random_tensor(payload->dtype(), {payload->shape().begin(), payload->shape().end()});
    map[c] = constant(std::move(payload));
  }
  std::vector<Value*> tops;
  for (const Node& n : from.nodes()) {
    if (!n.bodies().empty() || !n.op().known || n.has(Trait::kRandom)) return undo();
    if (mil() && n.op().name.starts_with("complex")) return undo();  // exist in no package
    if (n.has(Trait::kConstant)) {
      if (n.result()->constant() == nullptr || n.result()->constant()->is_promise()) return undo();
      map[n.result()] = constant(n.result()->constant());
      continue;
    }
    const Op* op = n.op().domain.empty() ? find(n.op().name) : nullptr;
    if (op == nullptr || (mil() && op != &n.op())) return undo();
    for (const NamedAttr& a : n.attrs().items()) {  // an attribute of another version
      if (std::none_of(op->attrs.begin(), op->attrs.end(), [&](const AttrSpec& s) { return s.name == a.name; })) return undo();
    }
    Draft d{.op = op, .results = n.num_results()};
    for (const Use& u : n.operands()) {
      Value* v = u.value == nullptr ? nullptr : map[u.value];
      if (u.value != nullptr && v == nullptr) return undo();
      d.in.push_back(v);
    }
    d.attrs.assign(n.attrs().items().begin(), n.attrs().items().end());
    for (NamedAttr& a : d.attrs) {  // files hold floats
      if (const double* f = a.value.get<double>()) a.value = Attr(static_cast<double>(static_cast<float>(*f)));
    }
    if (chance(2) && !d.in.empty() && d.in[0] != nullptr) {  // sometimes a node in between
      if (Value* v = add_one(mil() ? "identity" : "Identity", {d.in[0]})) {
        made.push_back(v->def());
        d.in[0] = v;
      }
    }
    const size_t before = scopes_.back().values.size();
    if (!add(d)) {
      for (auto k = made.rbegin(); k != made.rend(); ++k) {
        for (Value& r : (*k)->results()) std::erase(scopes_.back().values, &r);
      }
      return undo();
    }
    Node& copy = *scopes_.back().values[before]->def();
    made.push_back(&copy);
    for (size_t i = 0; i < n.num_results(); ++i) map[n.result(i)] = copy.result(i);
  }
  return !made.empty();
}

}  // namespace sardonyx::fuzz
