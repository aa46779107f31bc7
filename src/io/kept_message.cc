#include "io/kept_message.h"

#include <algorithm>

namespace sardonyx::onnx_file {
namespace {

using wire::kBytes;
using wire::kVarint;
using wire::Reader;
using wire::tag;

constexpr int kMaxDepth = 400;  // nested messages

enum class Kind { kOther, kTraining, kGraph, kNode, kAttribute, kSparse, kTensor };

// The kind of field `number` in a message of kind `k`.
Kind kind_of(Kind k, uint32_t number) {
  switch (k) {
    case Kind::kTraining: return number == 1 || number == 2 ? Kind::kGraph : Kind::kOther;
    case Kind::kGraph:
      return number == 1 ? Kind::kNode : number == 5 ? Kind::kTensor : number == 15 ? Kind::kSparse : Kind::kOther;
    case Kind::kNode: return number == 5 ? Kind::kAttribute : Kind::kOther;
    case Kind::kAttribute:
      if (number == 5 || number == 10) return Kind::kTensor;
      if (number == 6 || number == 11) return Kind::kGraph;
      return number == 22 || number == 23 ? Kind::kSparse : Kind::kOther;
    case Kind::kSparse: return number == 1 || number == 2 ? Kind::kTensor : Kind::kOther;
    case Kind::kTensor:
    case Kind::kOther: return Kind::kOther;
  }
  return Kind::kOther;
}

bool is_external(std::string_view tensor, const char* origin) {
  for (Reader r(tensor, origin); r.next();) {
    if (r.tag() == tag(14, kVarint)) {
      if (r.int32() == 1) return true;
    } else {
      r.skip();
    }
  }
  return false;
}

void find(std::string_view whole, Kind kind, const ModelBytes& source, ExternalFiles& external, int depth,
          std::vector<KeptTensor>& found) {
  if (depth > kMaxDepth) throw Error(ErrorCode::kLimit, "training information nests too deeply");
  for (Reader r(whole, source.origin); r.next();) {
    const Kind inside = r.type() == kBytes ? kind_of(kind, r.field()) : Kind::kOther;
    if (inside == Kind::kOther) {
      r.skip();
      continue;
    }
    const std::string_view part = r.bytes();
    if (inside != Kind::kTensor) {
      find(part, inside, source, external, depth + 1, found);
    } else if (is_external(part, source.origin)) {
      TensorRead read = read_tensor(part, source, external);
      found.push_back({part.data(), std::move(read.tensor), read.name, std::move(read.fields)});
    }
  }
}

// The first kept tensor at or after `at`; tensors are in file order.
auto first_from(const std::vector<KeptTensor>& tensors, const char* at) {
  return std::ranges::lower_bound(tensors, at, std::less<>(), &KeptTensor::at);
}

void rewrite(wire::Writer& w, std::string_view whole, Kind kind, const std::vector<KeptTensor>& tensors, const Places* places) {
  for (Reader r(whole, whole.data()); r.next();) {
    const Kind inside = r.type() == kBytes ? kind_of(kind, r.field()) : Kind::kOther;
    if (inside == Kind::kOther) {
      w.raw(r.skip());
      continue;
    }
    const char* start = r.start();
    const std::string_view part = r.bytes();
    const auto kept = first_from(tensors, part.data());
    // An empty message starts where the next field does: it contains no kept tensor.
    if (part.empty() || kept == tensors.end() || kept->at >= part.data() + part.size()) {
      w.raw({start, static_cast<size_t>(r.at() - start)});
      continue;
    }
    w.begin(r.field());
    if (inside == Kind::kTensor) {
      write_tensor(w, *kept->tensor, kept->name.view(), kept->fields, places);
    } else {
      rewrite(w, part, inside, tensors, places);
    }
    w.end();
  }
}

}  // namespace

std::vector<KeptTensor> read_training_tensors(std::string_view wire, const ModelBytes& source, ExternalFiles& external) {
  std::vector<KeptTensor> found;
  find(wire, Kind::kTraining, source, external, 0, found);
  return found;
}

void write_training_info(wire::Writer& w, std::string_view wire, const std::vector<KeptTensor>& tensors, const Places* places) {
  rewrite(w, wire, Kind::kTraining, tensors, places);
}

}  // namespace sardonyx::onnx_file
