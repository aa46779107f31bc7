//   reshape(x, shape = (B, 2, n)) : (B, 2, 6)    =>    reshape(x, shape = {-1, 2, 6})
//
// The shape must be known at compile time, symbols included. It becomes that of the result, with -1 for the
// one symbolic size. What stops it: a shape that is already constant, that is known only at run time, or that
// has another user. The option two_symbols decides about results with two symbolic sizes: they are skipped,
// as in coremltools' pass of this name, or are an error, as its documentation says (apply_pass by name).
#include <fmt/format.h>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// Whether the shape is known at compile time, though not all of it as numbers.
bool is_symbolic(const Value* shape, PassContext& context) {
  if (shape == nullptr || context.ints(shape)) return false;
  // In memory, a const op may hold symbols: the bridge marks it.
  if (shape->def() != nullptr && shape->def()->attr("symbolic") != nullptr) return true;
  return context.symbolic(shape).has_value();
}

}  // namespace

Pass remove_symbolic_reshape() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  return Pass(Rule{
                  .match = m::reshape(x),
                  .when =
                      [](const Match& found) {
                        const Value* shape = operand(found.root(), found.context(), "shape");
                        return is_symbolic(shape, found.context()) && shape->has_one_use() && found.root().result()->ranked();
                      },
                  .build = [](Rewriter& b, const Match& found) -> Value* {
                    Node& n = found.root();
                    std::vector<int64_t> sizes;
                    size_t symbols = 0;
                    for (Dim d : n.result()->type()->dims()) {
                      sizes.push_back(d.is_int() ? d.value() : -1);
                      symbols += d.is_int() ? 0 : 1;
                    }
                    if (symbols > 1) {
                      if (b.context().options().text("two_symbols", "skip") != "error") return nullptr;
                      throw Error(ErrorCode::kInvalidModel,
                                  fmt::format("a reshape to {} has more than one symbolic size",
                                              b.types().to_string(n.result()->type())),
                                  {"help: give the program's inputs fixed sizes, or leave this pass out"});
                    }
                    const Value* shape = operand(n, b.context(), "shape");
                    std::vector<int32_t> numbers(sizes.begin(), sizes.end());
                    const auto rank = static_cast<int64_t>(numbers.size());
                    Value* fixed = b.constant(Tensor::of<int32_t>(DType::kI32, {rank}, numbers),
                                              shape->name().empty() ? std::string() : fmt::format("{}x", shape->name().view()));
                    return b.reshape(found[x], fixed);
                  },
                  .same_type = true,
              })
      .option("two_symbols", "what to do with a result of two symbolic sizes: skip, error");
}

}  // namespace sardonyx::mil
