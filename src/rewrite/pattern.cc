#include "rewrite/pattern.h"

#include <fmt/format.h>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

Pattern::Data changed(const Pattern& p) { return p.data(); }

std::string_view shown_name(const Pattern::Data& d) { return d.onnx.empty() ? d.mil : d.onnx; }

OpBits always_needed(const Pattern::Data& d) {
  OpBits needed;
  if (d.kind == Pattern::Kind::kAnyOf) {
    needed.set();
    for (const Pattern& c : d.children) needed &= c.data().always;
    return needed;
  }
  if (d.rows > 0) {
    const DialectId dialect_id = d.mil.empty() ? DialectId::kOnnx : DialectId::kMil;
    needed = op_bits(dialect(dialect_id).ops()[d.first_row].id, dialect_id);
  }
  for (const Pattern& c : d.children) needed |= c.data().always;
  return needed;
}

void print(const Pattern& p, std::string& out) {
  const Pattern::Data& d = p.data();
  if (d.sole) out += "sole(";
  switch (d.kind) {
    case Pattern::Kind::kAny: out += d.vars.empty() ? "_" : ""; break;
    case Pattern::Kind::kConstant: out += "constant"; break;
    case Pattern::Kind::kSplat: out += fmt::format("{}", d.number); break;
    case Pattern::Kind::kAbsent: out += "absent"; break;
    case Pattern::Kind::kRest: out += "..."; break;
    case Pattern::Kind::kTrait: out += "with_operand("; break;
    case Pattern::Kind::kAnyOf: out += "any_of("; break;
    case Pattern::Kind::kOp: {
      out += shown_name(d);
      std::string inside;
      for (const auto& [name, value] : d.attrs) {
        static Dims dims;
        static const Types types(dims);
        inside += fmt::format("{}{}={}", inside.empty() ? "" : ", ", name, to_string(value, types));
      }
      if (!d.attrs_of.empty()) inside += fmt::format("{}attributes of %{}", inside.empty() ? "" : ", ", d.attrs_of);
      if (!inside.empty()) out += "<" + inside + ">";
      if (d.result != 0) out += fmt::format(".{}", d.result);
      out += "(";
      break;
    }
  }
  if (d.kind == Pattern::Kind::kOp || d.kind == Pattern::Kind::kTrait || d.kind == Pattern::Kind::kAnyOf) {
    for (size_t i = 0; i < d.children.size(); ++i) {
      if (i != 0) out += ", ";
      print(d.children[i], out);
    }
    out += ")";
  }
  for (size_t i = 0; i < d.vars.size(); ++i) {
    const bool bare = d.kind == Pattern::Kind::kAny && i == 0;
    out += fmt::format("{}%{}", bare ? "" : " as ", d.vars[i]);
  }
  if (d.sole) out += ")";
}

}  // namespace

Pattern::Pattern(const Pattern&) = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(const Pattern&) = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern::Pattern(Data d) {
  d.always = always_needed(d);
  data_ = std::make_shared<const Data>(std::move(d));
}

Pattern::Pattern(Var v) : Pattern(Data{.vars = {v.name}}) {}

Pattern Pattern::as(Var v) const {
  Data d = changed(*this);
  d.vars.push_back(v.name);
  return Pattern(std::move(d));
}

Pattern Pattern::attr(std::string_view name, Attr value) const {
  Data d = changed(*this);
  d.attrs.emplace_back(name, std::move(value));
  return Pattern(std::move(d));
}

Pattern Pattern::attrs_of(Var v) const {
  Data d = changed(*this);
  d.attrs_of = v.name;
  return Pattern(std::move(d));
}

Pattern Pattern::result(uint32_t index) const {
  Data d = changed(*this);
  d.result = index;
  return Pattern(std::move(d));
}

Pattern Pattern::since(int version) const {
  Data d = changed(*this);
  d.since = version;
  return Pattern(std::move(d));
}

std::string to_string(const Pattern& p) {
  std::string out;
  print(p, out);
  return out;
}

Pattern PatternOp::make(std::initializer_list<Pattern> operands) const {
  return Pattern({.kind = Pattern::Kind::kOp,
                  .onnx = onnx,
                  .mil = mil,
                  .domain = domain,
                  .first_row = first_row,
                  .rows = rows,
                  .children = operands});
}

namespace pattern {

const Pattern any{Pattern::Data{}};
const Pattern constant{Pattern::Data{.kind = Pattern::Kind::kConstant}};
const Pattern absent{Pattern::Data{.kind = Pattern::Kind::kAbsent}};
const Pattern rest{Pattern::Data{.kind = Pattern::Kind::kRest}};

Pattern splat(double value) { return Pattern({.kind = Pattern::Kind::kSplat, .number = value}); }

Pattern near(double value, double tolerance) {
  return Pattern({.kind = Pattern::Kind::kSplat, .number = value, .tolerance = tolerance});
}

Pattern sole(const Pattern& p) {
  Pattern::Data d = changed(p);
  d.sole = true;
  return Pattern(std::move(d));
}

Pattern any_of(std::vector<Pattern> alternatives) {
  return Pattern({.kind = Pattern::Kind::kAnyOf, .children = std::move(alternatives)});
}

Pattern any_of(std::initializer_list<Pattern> alternatives) { return any_of(std::vector<Pattern>(alternatives)); }

Pattern with_operand(Trait trait, const Pattern& p) {
  return Pattern({.kind = Pattern::Kind::kTrait, .trait = trait, .children = {p}});
}

Pattern op(std::string_view domain, std::string_view name, std::vector<Pattern> operands) {
  return Pattern({.kind = Pattern::Kind::kOp, .onnx = name, .domain = domain, .children = std::move(operands)});
}

}  // namespace pattern
}  // namespace sardonyx
