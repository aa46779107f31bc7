#include "io/mlir/bytecode_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "io/mlir/operations.h"

namespace sardonyx::mlir {
namespace {

constexpr std::string_view kMagic = "ML\xefR";
constexpr uint64_t kNewestFormat = 6;
constexpr int kNewestMinor = 20;  // StableHLO 1.20

// The formats in which something was added.
constexpr uint64_t kDialectVersions = 1, kIsolatedSections = 2, kUseOrders = 3, kOptionalLocations = 4, kProperties = 5;

// What an operation has, by the bits of a byte.
enum HeadBit : uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseOrders = 32,
  kHasProperties = 64,
};

struct VhloRow {
  std::string_view name, attributes;
};

constexpr VhloRow kVhlo[] = {
#define VHLO(name, attributes) {name, attributes},
#include "io/mlir/vhlo.def"
#undef VHLO
};

// Null for an operation without attributes.
const VhloRow* vhlo_row(std::string_view name) {
  const auto* row = std::ranges::find(kVhlo, name, &VhloRow::name);
  return row == std::end(kVhlo) ? nullptr : row;
}

// Attributes of VHLO that StableHLO keeps inside its hints.
constexpr std::string_view kHints[] = {
    "lhs_precision_type",           "rhs_precision_type",  "accumulation_type",
    "lhs_component_count",          "rhs_component_count", "num_primitive_operations",
    "allow_imprecise_accumulation",
};

// Attributes of VHLO as those of the generic form: it has the fields of structures as attributes of the
// operation.
AttrInit generic_attributes(std::string_view operation, AttrInit given) {
  std::erase_if(given, [](const NamedAttr& a) { return std::ranges::find(kHints, a.name) != std::end(kHints); });
  for (NamedAttr& a : given) {
    if (a.name == "channel_id") a.name = "handle";
    if (a.name == "channel_type") a.name = "type";
  }
  if (operation == "stablehlo.dynamic_conv") {  // its first version had both the operand and the attribute
    std::erase_if(given, [](const NamedAttr& a) { return a.name == "padding"; });
  }
  const Operation* row = find_operation(operation);
  if (row == nullptr) return given;
  for (const AttrRule& rule : row->attributes) {
    if (rule.kind != AttrKind::kStruct) continue;
    AttrDict fields;
    for (const Field& f : rule.fields) {
      const auto at = std::ranges::find(given, f.name, &NamedAttr::name);
      if (at == given.end()) continue;
      fields.emplace_back(f.name, std::move(at->value));
      given.erase(at);
    }
    if (!fields.empty()) given.emplace_back(rule.name, Attr(std::move(fields)));
  }
  return given;
}

}  // namespace

bool is_bytecode(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

void BytecodeReader::read() {
  ByteReader in(source_.bytes, source_.bytes.data());
  (void)in.bytes(kMagic.size());
  version_ = in.varint();
  if (version_ > kNewestFormat) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("MLIR bytecode of format {}: formats up to {} are known", version_, kNewestFormat));
  }
  check_producer(in, in.zero_terminated());
  while (!in.at_end()) {
    const auto [id, data] = section(in);
    auto& slot = sections_[static_cast<size_t>(id)];
    if (slot) in.fail("a section is there twice");
    slot = data;
  }
  read_strings();
  read_dialects();
  read_offsets();
  if (sections_[static_cast<size_t>(Section::kProperties)]) {
    ByteReader list = of(Section::kProperties, "properties");
    for (size_t n = list.count(); n > 0; --n) properties_.push_back(list.blob());
  }
  ByteReader operations = of(Section::kOperations, "operations");
  (void)block(operations, nullptr);
}

// "StableHLO_v1.15.0" is the version that the file is for.
void BytecodeReader::check_producer(const ByteReader& in, std::string_view producer) const {
  constexpr std::string_view kPrefix = "StableHLO_v";
  if (!producer.starts_with(kPrefix)) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("MLIR bytecode written by '{}': only portable artifacts of StableHLO are read", producer.substr(0, 60)),
        {"help: save the module as text, or with stablehlo-translate --serialize --target=1.0.0"});
  }
  const std::string_view version = producer.substr(kPrefix.size());
  int major = 0, minor = 0;
  const char* end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.' ||
      std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) {
    in.fail("its producer names no version");
  }
  if (major > 1 || (major == 1 && minor > kNewestMinor)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a portable artifact of StableHLO {}: versions up to 1.{} are known", version, kNewestMinor),
                {fmt::format("help: serialize for an older version, such as 1.{}.0", kNewestMinor)});
  }
}

// --- sections

std::pair<BytecodeReader::Section, std::span<const std::byte>> BytecodeReader::section(ByteReader& in) const {
  const uint8_t head = in.byte();
  const auto id = static_cast<Section>(head & 0x7f);
  const uint64_t length = in.varint();
  if (id >= Section::kCount) in.fail(fmt::format("section {} is not known", head & 0x7f));
  if ((head & 0x80) != 0) {
    const uint64_t alignment = in.varint();
    if (alignment == 0 || !std::has_single_bit(alignment)) in.fail("the alignment of a section is no power of two");
    while (in.position() % alignment != 0) (void)in.byte();
  }
  return {id, in.bytes(length)};
}

ByteReader BytecodeReader::of(Section s, std::string_view what) const {
  const auto& found = sections_[static_cast<size_t>(s)];
  if (!found) throw Error(ErrorCode::kInvalidModel, fmt::format("the bytecode is damaged: it has no {}", what));
  return {*found, source_.bytes.data()};
}

// Lengths first, of the last string first, then the characters; each string ends with a zero.
void BytecodeReader::read_strings() {
  ByteReader in = of(Section::kStrings, "strings");
  std::vector<uint64_t> lengths(in.count());
  uint64_t total = 0;
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length) {
    *length = in.varint();
    if (*length == 0 || *length > in.left()) in.fail("the length of a string is wrong");
    total += *length;
  }
  if (total > in.left()) in.fail("the strings end early");
  for (const uint64_t length : lengths) {
    const auto text = in.bytes(length);
    attributes_.strings.emplace_back(reinterpret_cast<const char*>(text.data()), text.size() - 1);
  }
}

std::string_view BytecodeReader::dialect(ByteReader& in) const {
  const uint64_t index = in.varint();
  if (index >= dialects_.size()) in.fail(fmt::format("it has {} dialects and no number {}", dialects_.size(), index));
  return dialects_[index];
}

// Names of dialects, then names of operations in groups by dialect.
void BytecodeReader::read_dialects() {
  ByteReader in = of(Section::kDialects, "dialects");
  for (size_t n = in.count(); n > 0; --n) {
    bool versioned = false;
    uint64_t name = in.varint();
    if (version_ >= kDialectVersions) {
      versioned = (name & 1) != 0;
      name >>= 1;
    }
    if (name >= attributes_.strings.size()) in.fail("the name of a dialect is no string");
    dialects_.push_back(attributes_.strings[name]);
    if (versioned) (void)section(in);
  }
  if (version_ >= kOptionalLocations) (void)in.varint();  // the number of operations
  while (!in.at_end()) {
    const std::string_view of_dialect = dialect(in);
    for (size_t n = in.count(); n > 0; --n) {
      uint64_t name = in.varint();
      if (version_ >= kProperties) name >>= 1;  // the flag: whether the writer knew the operation
      if (name >= attributes_.strings.size()) in.fail("the name of an operation is no string");
      names_.push_back({of_dialect, attributes_.strings[name]});
    }
  }
}

// Sizes of attributes and then of types, in groups by dialect; they lie one behind the other.
void BytecodeReader::read_offsets() {
  ByteReader in = of(Section::kOffsets, "table of attributes"), data = of(Section::kAttributes, "attributes");
  const size_t attributes = in.count();
  const uint64_t types = in.varint();
  if (types > in.left()) in.fail("a table ends early");
  const auto entries = [&](uint64_t total, bool of_types) {
    for (uint64_t done = 0; done < total;) {
      const std::string_view of_dialect = dialect(in);
      const size_t n = in.count();
      if (n > total - done) in.fail("a group of attributes is too large");
      for (size_t i = 0; i < n; ++i) {
        const auto [size, encoded] = in.flagged();
        const VhloAttributes::Entry e{.dialect = of_dialect, .bytes = data.bytes(size), .is_encoded = encoded};
        of_types ? attributes_.add_type(e) : attributes_.add_attribute(e);
      }
      done += n;
    }
  };
  entries(attributes, false);
  entries(types, true);
}

// --- operations

void BytecodeReader::skip_use_orders(ByteReader& in, size_t values) {
  uint64_t lists = 1;
  if (values > 1) lists = in.count();
  for (uint64_t i = 0; i < lists; ++i) {
    if (values > 1) (void)in.varint();
    const uint64_t n = in.flagged().value;
    if (n > in.left()) in.fail("the order of uses ends early");
    for (uint64_t k = 0; k < n; ++k) (void)in.varint();
  }
}

std::vector<uint32_t> BytecodeReader::block_arguments(ByteReader& in, Graph* graph) {
  std::vector<uint32_t> locations;
  const size_t n = in.count();
  if (graph == nullptr && n > 0) in.fail("a module has arguments");
  for (size_t i = 0; i < n; ++i) {
    uint64_t type = 0;
    uint32_t location = 0;
    if (version_ >= kOptionalLocations) {
      const auto [index, has_location] = in.flagged();
      type = index;
      if (has_location) location = attributes_.location(in.varint());
    } else {
      type = in.varint();
      location = attributes_.location(in.varint());
    }
    if (next_value_ >= values_.size()) in.fail("a region defines more values than it says");
    values_[next_value_++] = builder_.add_input(*graph, attributes_.type(type));
    locations.push_back(location);
  }
  if (version_ >= kUseOrders && in.byte() != 0) skip_use_orders(in, n);
  return locations;
}

std::vector<uint32_t> BytecodeReader::block(ByteReader& in, Graph* graph) {
  const auto [operations, has_arguments] = in.flagged();
  if (operations > in.left()) in.fail(fmt::format("a block of {} operations has {} bytes left", operations, in.left()));
  std::vector<uint32_t> locations;
  if (has_arguments) locations = block_arguments(in, graph);
  for (uint64_t i = 0; i < operations; ++i) operation(in, graph);
  return locations;
}

// "add_v1" of VHLO is stablehlo.add; functions, calls and their results are of the func dialect.
void BytecodeReader::operation_name(ByteReader& in, Head& op) {
  const uint64_t index = in.varint();
  if (index >= names_.size()) in.fail(fmt::format("it has {} names of operations and no number {}", names_.size(), index));
  const auto [of_dialect, name] = names_[index];
  if (of_dialect != "vhlo") {
    op.name = fmt::format("{}.{}", of_dialect, name);
    return;
  }
  const size_t mark = name.rfind("_v");
  const std::string_view plain = name.substr(0, mark);
  if (mark == std::string_view::npos || (name.substr(mark) != "_v1" && vhlo_row(name) == nullptr)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the operation '{}' of VHLO is newer than StableHLO 1.{}", name, kNewestMinor));
  }
  const bool of_functions = plain == "func" || plain == "call";
  op.name = fmt::format("{}.{}", of_functions ? "func" : "stablehlo", plain);
  if (const VhloRow* row = vhlo_row(name)) op.properties = &row->attributes;
}

BytecodeReader::Head BytecodeReader::head(ByteReader& in) {
  Head op;
  operation_name(in, op);
  const uint8_t has = in.byte();
  op.draft.location = attributes_.location(in.varint());
  if ((has & kHasAttributes) != 0) {
    const Attr dict = attributes_.attribute(in.varint());
    const auto* items = dict.get<AttrDict>();
    if (items == nullptr) in.fail("the attributes of an operation are no dictionary");
    for (const auto& [name, value] : *items) op.draft.attributes.emplace_back(name, value);
  }
  if ((has & kHasProperties) != 0) properties(in, op);
  if ((has & kHasResults) != 0) {
    for (size_t n = in.count(); n > 0; --n) op.draft.results.push_back(attributes_.type(in.varint()));
  }
  if ((has & kHasOperands) != 0) {
    for (size_t n = in.count(); n > 0; --n) {
      const uint64_t number = in.varint();
      if (number >= values_.size() - scope_begin_) in.fail(fmt::format("no value has the number {}", number));
      Value* v = values_[scope_begin_ + number];
      if (v == nullptr) in.fail(fmt::format("the value {} is used before it is defined", number));
      op.draft.operands.push_back(v);
    }
  }
  if ((has & kHasSuccessors) != 0) {
    throw Error(ErrorCode::kUnsupported, "branches between blocks are not supported");
  }
  if ((has & kHasUseOrders) != 0) skip_use_orders(in, op.draft.results.size());
  if ((has & kHasRegions) != 0) {
    const auto [regions, isolated] = in.flagged();
    if (regions > in.left()) in.fail("the regions of an operation end early");
    op.regions = static_cast<size_t>(regions);
    op.isolated = isolated;
  }
  return op;
}

// Attributes in the order of vhlo.def; of the module, its name.
void BytecodeReader::properties(ByteReader& in, Head& op) {
  const uint64_t index = in.varint();
  if (index >= properties_.size()) in.fail(fmt::format("it has {} properties and no number {}", properties_.size(), index));
  ByteReader own = in.part(properties_[index]);
  if (op.name == "builtin.module") {
    if (own.at_end()) return;
    const auto [attribute, has_name] = own.flagged();
    if (has_name) op.draft.attributes.emplace_back("sym_name", attributes_.attribute(attribute));
    return;
  }
  if (op.properties == nullptr) return;
  for (std::string_view rest = *op.properties; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    op.draft.attributes.emplace_back(rest.substr(0, end), attributes_.attribute(own.varint()));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void BytecodeReader::operation(ByteReader& in, Graph* graph) {
  Head op = head(in);
  const size_t at = in.position();
  const bool module = op.name == "builtin.module";
  if (graph == nullptr && op.name == "sdy.mesh") return;  // devices, which the model does not know
  if (graph == nullptr && !module && op.name != "func.func") {
    throw Error(ErrorCode::kUnsupported, fmt::format("'{}' outside of a function is not supported", op.name));
  }
  if (module && (graph != nullptr || module_read_)) {
    throw Error(ErrorCode::kUnsupported, "a module inside a module is not supported");
  }
  // Numbers of results come before those of the regions.
  const size_t first = next_value_;
  if (op.draft.results.size() > values_.size() - next_value_) in.fail("a region defines more values than it says");
  next_value_ += op.draft.results.size();
  if (module) module_read_ = true;
  regions(in, op, module);
  if (module) {
    for (const NamedAttr& a : op.draft.attributes) {
      if (a.name == "sym_name" && a.value.get<std::string>() != nullptr) builder_.set_module_name(*a.value.get<std::string>());
    }
    return;
  }
  if (op.name == "func.func") return function(op);
  if (op.name == "stablehlo.return") {
    for (Value* v : op.draft.operands) graph->add_output(*v, {}, v->type());
    return;
  }
  op.draft.name = op.name;
  op.draft.attributes = generic_attributes(op.name, std::move(op.draft.attributes));
  Results made;
  try {
    made = builder_.add(*graph, op.draft);
  } catch (const Error& e) {
    throw e.with_note(fmt::format("in the operation that ends at byte {}", at));
  }
  for (size_t i = 0; i < made.count; ++i) values_[first + i] = made.first + i;
}

// Regions of an isolated operation are a section of their own, whose values are numbered from 0.
void BytecodeReader::regions(ByteReader& in, Head& op, bool module) {
  if (op.regions == 0) return;
  if (++depth_ > max_depth_) throw Error(ErrorCode::kLimit, fmt::format("regions nest more than {} levels", max_depth_));
  const size_t outer_begin = scope_begin_, outer_next = next_value_, outer_size = values_.size();
  const auto each = [&](ByteReader& from) {
    for (size_t i = 0; i < op.regions; ++i) {
      Graph* graph = module ? nullptr : &builder_.model().new_graph();
      next_value_ = values_.size();
      op.arguments = region(from, graph);
      values_.resize(outer_size);
      if (graph != nullptr) op.draft.bodies.push_back(graph);
    }
  };
  if (op.isolated) scope_begin_ = outer_size;
  if (op.isolated && version_ >= kIsolatedSections) {
    const auto [id, data] = section(in);
    if (id != Section::kOperations) in.fail("the regions of an isolated operation are no section of operations");
    ByteReader own = in.part(data);
    each(own);
  } else {
    each(in);
  }
  scope_begin_ = outer_begin;
  next_value_ = outer_next;
  --depth_;
}

std::optional<std::vector<uint32_t>> BytecodeReader::region(ByteReader& in, Graph* graph) {
  const size_t blocks = in.count();
  if (blocks == 0) return std::nullopt;
  if (blocks > 1) throw Error(ErrorCode::kUnsupported, "regions of several blocks are not supported");
  const size_t values = in.count();
  if (values > source_.bytes.size() - values_.size()) in.fail("regions define more values than there are bytes");
  values_.resize(values_.size() + values, nullptr);
  return block(in, graph);
}

void BytecodeReader::function(Head& op) {
  std::string name;
  bool is_public = true;
  std::vector<PortDraft> inputs, results;
  for (const NamedAttr& a : op.draft.attributes) {
    const auto* text = a.value.get<std::string>();
    if (a.name == "sym_name" && text != nullptr) name = *text;
    if (a.name == "sym_visibility" && text != nullptr) is_public = text->empty() || *text == "public";
    if (a.name == "arg_attrs") inputs = port_drafts(a.value);
    if (a.name == "res_attrs") results = port_drafts(a.value);
  }
  if (op.draft.bodies.size() != 1 || !op.arguments) {
    throw Error(ErrorCode::kUnsupported, fmt::format("the function '{}' has no body", name));
  }
  inputs.resize(std::max(inputs.size(), op.arguments->size()));
  for (size_t i = 0; i < op.arguments->size(); ++i) {
    const Location& l = builder_.location((*op.arguments)[i]);
    if (l.is_bare) inputs[i].name = l.name;
  }
  builder_.add_function(std::move(name), is_public, *op.draft.bodies[0], inputs, results);
}

}  // namespace sardonyx::mlir
