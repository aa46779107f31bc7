// FileRecord: what a file says beside the graph, so that what nobody changed is written as it was read.
//
//   of                what                                                          found by
//   a model           files, training_info, unknown fields, Core ML's package       -
//   a graph           unknown fields, quantization annotations, listed inputs,      the Graph
//                     value_info without a value; fields of what holds the graph
//                     (a FunctionProto, an attribute)
//   a node            unknown fields                                                the Node
//   an initializer    doc_string, metadata_props, unknown fields; its place         the Value
//   a port, a value   its whole entry (ValueInfoProto, ValueType)                   Port::entry, ValueInfo::entry
//   a payload         that it was sparse, or spelled out in the program             the Tensor
//
// Readers in src/io fill it and writers ask it. Copies carry it over, and the text form shows what it can.
// Passes never see it: `make lint` keeps this header from them. Nothing here has to follow what they do:
//  - erase: an entry of something dead stays and is never asked for. Addresses are not used again while the
//    model lives.
//  - rename, retype: an entry is written as it is only while it declares the value's type; writers compare
//    the name.
//  - move: a Port and a ValueInfo take their number along.
//  - replace: Model::keep_file_record(from, to) is the one thing that a pass calls, for a node or a value
//    that stands for another.
//  - undo: what keep_file_record() added is of something dead then. A journal knows nothing of all this.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

class MappedFile;

// Texts are views of the file's bytes, or of others that the model keeps alive; "fields" are in wire format.
struct FileRecord {
  struct Entry {
    std::string_view wire;
    const Type* type = nullptr;  // that it declares
  };
  struct OfTensor {
    std::string fields;
    uint32_t place = 0;  // of an input's default value: among the file's initializers
  };
  struct Sparse {
    std::string_view wire;  // the SparseTensorProto
    TensorPtr payload;      // keeps the key alive
  };
  // ONNX before IR version 4 lists initializers among the inputs. They are constants all the same; this is
  // where they stood.
  struct ListedInput {
    uint32_t place = 0;  // in the file's list of inputs; UINT32_MAX: the file does not list it, though it should
    const Value* constant = nullptr;
    std::string_view wire;
  };
  struct OfGraph {
    std::string fields;
    std::string holder_fields;  // of the FunctionProto or of the node's attribute whose graph it is
    std::vector<ListedInput> listed_inputs;
    std::vector<std::string_view> quantization_annotations;
    std::vector<std::string_view> loose_value_info;  // entries whose name no value has
  };
  struct OfModel {
    std::vector<std::shared_ptr<const MappedFile>> sources;  // the files that were read, the model's own first
    std::string fields;
    std::vector<std::string_view> training_info;  // ONNX
    // Core ML
    int64_t program_version = 1;
    std::string_view description;  // ModelDescription; empty: the file was a Program by itself
    std::string program_fields;    // of the Program message (attributes, documentation)
    std::string manifest;          // of a package: Manifest.json as it was; empty for bare files
    std::string package;           // the folder of the package: what else is in there is copied
    std::string model_path;        // of the model file in that folder
    std::unordered_map<const Tensor*, TensorPtr>
        spelled_out;  // in the program, though a writer would put them among the weights
  };

  OfModel model;
  std::unordered_map<const Graph*, OfGraph> graphs;
  std::unordered_map<const Node*, std::string> nodes;
  std::unordered_map<const Value*, OfTensor> tensors;  // of initializers and of inputs with a default value
  std::unordered_set<const Value*> literals;           // MIL: constants written where they are read, not as a const op
  std::unordered_map<const Tensor*, Sparse> sparse;    // initializers that the file has as sparse_initializer

  uint32_t add_entry(std::string_view wire, const Type* type) {
    entries_.push_back({wire, type});
    return static_cast<uint32_t>(entries_.size());
  }
  const Entry& entry(uint32_t number) const { return number != 0 ? entries_[number - 1] : kNoEntry; }
  // What the file says, if it still declares this type; else empty.
  std::string_view entry(uint32_t number, const Type* declared) const {
    return entry(number).type == declared ? entry(number).wire : std::string_view();
  }

  const OfGraph& of(const Graph& g) const;
  const OfTensor& of(const Value& v) const;
  std::string_view fields_of(const Node& n) const;
  // `to` stands for `from`, in the same model.
  void keep(const Node& from, const Node& to);
  void keep(const Value& from, const Value& to);

 private:
  static const Entry kNoEntry;
  std::vector<Entry> entries_;
};

}  // namespace sardonyx
