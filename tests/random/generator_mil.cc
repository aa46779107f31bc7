// States and lists, which only Core ML has. They are not tensors, so no recipe draws them: a few ops are made
// together, of which the last returns a tensor.
#include <fmt/format.h>

#include "random/generator.h"

namespace sardonyx::fuzz {

// Makes the results visible if the whole model so far runs.
Value* Generator::make_and_run(const Op* op, std::vector<Value*> in) {
  if (op == nullptr) return nullptr;
  try {
    Node& n = scopes_.back().builder->make(*op, in, 1, {});
    return run_bodies(n) ? scopes_.back().values.back() : nullptr;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return nullptr;
  }
}

// Reads a state, replaces it and reads it again, in any order. The state may be an earlier one of the same
// type.
bool Generator::add_state() {
  const Op *read = find("read_state"), *update = find("coreml_update_state");
  Value* v = nullptr;
  for (int k = 0; k < 6 && (v == nullptr || v->is_constant() || !v->type()->is_static()); ++k)
    v = pick(bit(DType::kF16) | bit(DType::kF32), 0, 4);
  if (read == nullptr || update == nullptr || v == nullptr || v->is_constant() || !v->type()->is_static()) return false;
  Graph& g = *scopes_.front().graph;
  const Type* element = v->type();
  const Type* type = types().make(TypeKind::kState, DType::kUndefined, {&element, 1});
  Value* state = nullptr;
  for (const Port& p : g.inputs()) {
    if (p.value->type() == type && chance(70)) state = p.value;
  }
  if (state == nullptr) {
    state = g.add_input(fmt::format("x{}", g.inputs().size()), type);
    std::vector<int64_t> shape;
    for (Dim d : element->dims()) shape.push_back(d.value());
    samples_[state] = {random_tensor(element->dtype(), shape), random_tensor(element->dtype(), shape)};
  }
  bool done = false;
  for (int64_t k = between(1, 3); k > 0; --k)
    done |= (chance(50) ? make_and_run(read, {state}) : make_and_run(update, {state, v})) != nullptr;
  return done;
}

// Makes a list of tensors of one type, writes one or more elements, and reads it.
bool Generator::add_list() {
  Value* v = nullptr;
  for (int k = 0; k < 6 && (v == nullptr || !v->type()->is_static()); ++k) v = pick(bit(main_dtype_) | bit(DType::kI32), 1, 3);
  const Op *write = find("list_write"), *scatter = find("list_scatter");
  if (v == nullptr || !v->type()->is_static() || v->dtype() == DType::kF64 || v->type()->dim(0).is(0)) return false;
  const bool rows = chance(40) && v->type()->rank() > 1;  // each row of v becomes an element
  std::vector<Dim> dims(v->type()->dims().begin(), v->type()->dims().end());
  const int64_t count = rows ? dims[0].value() : between(1, 3);
  if (rows) dims.erase(dims.begin());
  const char* dtype = v->dtype() == DType::kI32 ? "int32" : v->dtype() == DType::kF16 ? "fp16" : "fp32";
  std::vector<Value*> in{scalar(DType::kI32, static_cast<double>(count)), scalar(DType::kBool, chance(50) ? 1 : 0),
                         constant(Tensor::strings({}, {dtype}))};
  for (Dim d : dims) in.push_back(scalar(DType::kI32, static_cast<double>(d.value())));
  Builder& b = *scopes_.back().builder;
  std::vector<Node*> made;
  bool done = false;
  try {
    made.push_back(&b.make(*find("make_list"), in, 1, {}));
    if (rows) {
      std::vector<int64_t> places;
      for (int64_t i = 0; i < count; ++i) places.push_back(count - 1 - i);
      made.push_back(&b.make(*scatter, std::vector<Value*>{made.back()->result(), ints(places), v}, 1, {}));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        Value* one = i == 0 ? v : partner(*v, /*widen=*/false);
        if (one == nullptr || !Types::equal(one->type(), v->type())) one = v;
        Value* place = scalar(DType::kI32, static_cast<double>(i));
        made.push_back(&b.make(*write, std::vector<Value*>{made.back()->result(), place, one}, 1, {}));
      }
    }
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    made.clear();  // ill-typed: the nodes made so far remain without users
    return false;
  }
  Value* list = made.back()->result();
  const int64_t last = count - 1;
  if (chance(60))
    done |= make_and_run(find("list_read"), {list, scalar(DType::kI32, static_cast<double>(below(count)))}) != nullptr;
  if (chance(40)) done |= make_and_run(find("list_gather"), {list, ints({last, 0})}) != nullptr;
  if (!done) done = make_and_run(find("list_length"), {list}) != nullptr;
  if (done) return true;
  for (auto n = made.rbegin(); n != made.rend(); ++n) (*n)->graph()->erase(**n);
  return false;
}

}  // namespace sardonyx::fuzz
