// vary(): changes a graph at random.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "random/grow.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx::fuzz {
namespace {

using Ints = std::vector<int64_t>;
using Shape = std::vector<Dim>;

class Varied {
 public:
  Varied(const Model& from, Dice& dice) : from_(from), dice_(dice), model_(std::make_unique<Model>(from.dialect())) {
    for (const OpsetImport& o : from.opset_imports) model_->set_opset_version(o.domain, o.version);
    model_->add_function("main");
    builder_.emplace(model_->graph(), facts_);
    if (dice.one_in(3)) dtype_ = dice.one_of(kUsualFloats);
    oddness_ = dice.below(4);  // 0: only sizes and types change
  }

  std::unique_ptr<Model> model() {
    const Graph& g = from_.graph();
    Graph& to = model_->graph();
    for (const Port& p : g.inputs()) map_[p.value] = to.add_input(p.name.view(), type(p.declared));
    for (Value* v : g.constants()) map_[v] = to.add_constant(payload(v->constant()));
    for (const Node& n : g.nodes()) {
      if (!n.bodies().empty() || !n.op().known) return nullptr;
      if (n.has(Trait::kConstant)) {
        if (!n.result()->is_constant()) return nullptr;
        map_[n.result()] = to.add_constant(payload(n.result()->constant()));
        continue;
      }
      std::vector<Value*> operands;
      for (const Use& u : n.operands()) operands.push_back(u.value == nullptr ? nullptr : map_.at(u.value));
      if (oddness_ > 1 && n.has(Trait::kCommutative) && operands.size() == 2 && dice_.one_in(4))
        std::swap(operands[0], operands[1]);
      AttrInit attrs;
      for (const NamedAttr& a : n.attrs().items()) attrs.push_back(attr(a.name, attribute(a.name, a.value)));
      Node& made = builder_->make(n.op(), operands, n.num_results(), std::move(attrs));
      for (size_t i = 0; i < n.num_results(); ++i) map_[n.result(i)] = made.result(i);
    }
    for (const Port& p : g.outputs()) to.add_output(*map_.at(p.use->value), p.name.view());
    if (oddness_ > 2) {
      for (Node& n : to.nodes()) {
        if (dice_.one_in(20)) to.add_output(*n.result(), "extra" + std::to_string(n.id()));
      }
    }
    return std::move(model_);
  }

 private:
  DType dtype(DType t) const { return dtype_ && (t == DType::kF32 || t == DType::kF16 || t == DType::kF64) ? *dtype_ : t; }

  // Maps each size to one other size, so that equal sizes stay equal. Small sizes change less often: they may
  // count axes.
  int64_t size(int64_t s) {
    if (s <= 1) return s;
    const auto known = sizes_.find(s);
    if (known != sizes_.end()) return known->second;
    int64_t to = s;
    if (dice_.one_in(s == 2 ? 6 : 3)) to = dice_.one_in(4) ? 1 : dice_.one_of(kSizes);
    return sizes_[s] = to;
  }

  const Type* type(const Type* t) {
    if (t == nullptr) throw DeadEnd{};
    if (!t->is_tensor() || !t->ranked()) return model_->types().import(t, from_.types());
    Shape dims;
    for (Dim d : t->dims()) {
      if (d.is_int()) {
        dims.push_back(Dim::of(size(d.value())));
      } else {
        dims.push_back(model_->dims().import(d, from_.dims()));
      }
      if (oddness_ > 1 && dice_.one_in(40)) dims.back() = Dim::of(1);
    }
    return model_->types().tensor(dtype(t->dtype()), dims);
  }

  // One more or one less. The greatest integer wraps around to the least.
  int64_t beside(int64_t k) {
    return static_cast<int64_t>(static_cast<uint64_t>(k) + (dice_.one_in(2) ? uint64_t{1} : ~uint64_t{0}));
  }

  TensorPtr payload(const TensorPtr& t) {
    if (t->dtype() == DType::kString || is_complex(t->dtype())) return t;
    if (!is_float(t->dtype())) {
      auto v = t->to_ints(64);
      if (!v || t->rank() > 1 || t->dtype() != DType::kI64) return t;
      for (int64_t& k : *v) {
        if (sizes_.contains(k)) k = sizes_.at(k);
        if (oddness_ > 1 && dice_.one_in(25)) k = beside(k);
      }
      return t->rank() == 0 ? Tensor::scalar(v->front()) : Tensor::vector(*v);
    }
    Ints shape;
    for (int64_t s : t->shape()) shape.push_back(size(s));
    const DType to = dtype(t->dtype());
    int64_t count = 1;
    for (int64_t s : shape) count *= s;
    if (count > 1 << 16) throw DeadEnd{};
    std::vector<std::byte> bytes(byte_size(to, static_cast<uint64_t>(count)));
    const bool other = oddness_ > 0 && dice_.one_in(t->size() > 1 ? 2 : 6);
    for (int64_t i = 0; i < count; ++i) {
      double v = t->as_double(t->size() == 0 ? 0 : i % t->size());
      if (other) v = dice_.one_in(8) ? dice_.number() : t->size() > 1 ? dice_.normal() : v * (1 + 0.25 * dice_.normal());
      encode_element(to, bytes.data(), i, v);
    }
    if (oddness_ > 1 && count == 1 && dice_.one_in(6)) shape.assign(dice_.below(3), 1);
    return Tensor::own(to, shape, std::move(bytes));
  }

  Attr attribute(std::string_view name, const Attr& a) {
    if (const int64_t* i = a.get<int64_t>()) {
      if (name == "to" && dtype_ && (*i == 1 || *i == 10 || *i == 11))
        return Attr(static_cast<int64_t>(dtype(static_cast<DType>(*i))));
      if (oddness_ > 1 && dice_.one_in(25)) return Attr(beside(*i));
      return a;
    }
    if (const double* f = a.get<double>(); f != nullptr && oddness_ > 0 && dice_.one_in(5))
      return Attr(static_cast<double>(static_cast<float>(*f * (1 + 0.25 * dice_.normal()))));
    if (const Ints* list = a.get<Ints>(); list != nullptr && oddness_ > 1 && dice_.one_in(12) && !list->empty()) {
      Ints other = *list;
      std::swap(other[dice_.below(other.size())], other[dice_.below(other.size())]);
      return Attr(other);
    }
    return a;
  }

  const Model& from_;
  Dice& dice_;
  std::unique_ptr<Model> model_;
  ValueFacts facts_;
  std::optional<OnnxBuilder> builder_;
  std::optional<DType> dtype_;
  int64_t oddness_ = 0;
  std::map<int64_t, int64_t> sizes_;
  std::map<const Value*, Value*> map_;
};

}  // namespace

std::unique_ptr<Model> vary(const Model& seed, Dice& dice) {
  return model_or_null([&] { return Varied(seed, dice).model(); });
}

}  // namespace sardonyx::fuzz
