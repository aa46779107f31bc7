// What passes on Core ML programs include: rules, walks, and the builder that their right sides use.
#pragma once

#include "rewrite/rewriter.h"

namespace sardonyx::mil {

class Rewriter : public RewriterOf<Builder> {
 public:
  using RewriterOf::RewriterOf;

  // An op by the names of its slots, those of a list given once per value. Absent slots keep their defaults. The op has the newest
  // version that the function's op set allows.
  struct Operand {
    std::string_view slot;
    Value* value;
  };
  Value* mil(std::string_view op, std::initializer_list<Operand> operands);
  int mil_version() const;                  // of the function's op set: 8 is iOS 17; the newest when it has none
  Value* text(std::string_view s);          // str[]
  Value* i32(int32_t v);                    // i32[]
  Value* i32s(std::span<const int64_t> v);  // i32[n]
  Value* boolean(bool v);                   // bool[]
};

}  // namespace sardonyx::mil
