#include "io/onnx/kept_message.h"

#include <algorithm>
#include <iterator>

#include "io/onnx/fields_onnx.h"

namespace sardonyx::onnx_file {
namespace {

using wire::Field;
using wire::Reader;

constexpr int kMaxDepth = 400;  // nested messages

enum class Kind { kOther, kTraining, kGraph, kNode, kAttribute, kSparse, kTensor };

struct Inside {
  Kind kind;
  Field field;
  Kind inside;
};
constexpr Inside kInside[] = {
    {Kind::kTraining, TrainingInfoProto::kInitialization, Kind::kGraph},
    {Kind::kTraining, TrainingInfoProto::kAlgorithm, Kind::kGraph},
    {Kind::kGraph, GraphProto::kNode, Kind::kNode},
    {Kind::kGraph, GraphProto::kInitializer, Kind::kTensor},
    {Kind::kGraph, GraphProto::kSparseInitializer, Kind::kSparse},
    {Kind::kNode, NodeProto::kAttribute, Kind::kAttribute},
    {Kind::kAttribute, AttributeProto::kT, Kind::kTensor},
    {Kind::kAttribute, AttributeProto::kTensors, Kind::kTensor},
    {Kind::kAttribute, AttributeProto::kG, Kind::kGraph},
    {Kind::kAttribute, AttributeProto::kGraphs, Kind::kGraph},
    {Kind::kAttribute, AttributeProto::kSparseTensor, Kind::kSparse},
    {Kind::kAttribute, AttributeProto::kSparseTensors, Kind::kSparse},
    {Kind::kSparse, SparseTensorProto::kValues, Kind::kTensor},
    {Kind::kSparse, SparseTensorProto::kIndices, Kind::kTensor},
};

// The kind of message in a field of a message of kind `k`.
Kind kind_of(Kind k, Field field) {
  const auto row = std::ranges::find_if(kInside, [&](const Inside& i) { return i.kind == k && i.field == field; });
  return row == std::end(kInside) ? Kind::kOther : row->inside;
}

bool is_external(std::string_view tensor, const char* origin) {
  for (Reader r(tensor, origin); r.next();) {
    if (r.field() == TensorProto::kDataLocation) {
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
    const Kind inside = kind_of(kind, r.field());
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
    const Kind inside = kind_of(kind, r.field());
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
    const wire::Message message(w, r.field());
    if (inside == Kind::kTensor) {
      write_tensor(w, *kept->tensor, kept->name.view(), kept->fields, places);
    } else {
      rewrite(w, part, inside, tensors, places);
    }
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
