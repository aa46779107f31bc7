// FileRecord: the contents of a file that the graph does not represent, kept so that unchanged parts are
// written as they were read.
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
// Readers in src/io fill it and writers query it. Copies carry it over, and the text form shows what it can.
// Passes never see it: `make lint` keeps this header from them. It need not follow their edits:
//  - erase: the entry of a dead object stays but is never queried. Addresses are not reused while the model
//    lives.
//  - rename, retype: an entry is written only while it still declares the value's type; writers compare the
//    name.
//  - move: a Port and a ValueInfo keep their entry number.
//  - replace: passes call only Model::keep_file_record(from, to), for a node or value that replaces another.
//  - undo: entries added by keep_file_record() then belong to dead objects. A journal knows nothing of
//    FileRecord.
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
    const Type* type = nullptr;  // the declared type
  };
  struct OfTensor {
    std::string fields;
    uint32_t place = 0;  // for the default value of an input: index among the file's initializers
  };
  struct Sparse {
    std::string_view wire;  // the SparseTensorProto
    TensorPtr payload;      // keeps the map's key alive
  };
  // ONNX before IR version 4 lists initializers among the inputs. They are constants all the same; this
  // records their position.
  struct ListedInput {
    uint32_t place = 0;  // index in the file's list of inputs; UINT32_MAX: missing there, though required
    const Value* constant = nullptr;
    std::string_view wire;
  };
  struct OfGraph {
    std::string fields;
    std::string holder_fields;  // of the FunctionProto or node attribute that holds the graph
    std::vector<ListedInput> listed_inputs;
    std::vector<std::string_view> quantization_annotations;
    std::vector<std::string_view> loose_value_info;  // entries for names that no value has
  };
  struct OfModel {
    std::vector<std::shared_ptr<const MappedFile>> sources;  // the files that were read, the model's own first
    std::string fields;
    std::vector<std::string_view> training_info;  // ONNX
    std::vector<std::string> repairs;             // what the reader corrected, as onnxruntime does
    // Core ML
    int64_t program_version = 1;
    std::string_view description;  // ModelDescription; empty: the file was a bare Program
    std::string program_fields;    // of the Program message (attributes, documentation)
    std::string manifest;          // of a package: the original Manifest.json; empty for bare files
    std::string package;           // the folder of the package, whose other contents are copied
    std::string model_path;        // of the model file within the package
    std::unordered_map<const Tensor*, TensorPtr>
        spelled_out;  // stored in the program, though a writer would put them among the weights
  };

  OfModel model;
  std::unordered_map<const Graph*, OfGraph> graphs;
  std::unordered_map<const Node*, std::string> nodes;
  std::unordered_map<const Value*, OfTensor> tensors;  // of initializers and of inputs with a default value
  std::unordered_set<const Value*> literals;           // MIL: constants written in place, without a const op
  std::unordered_map<const Tensor*, Sparse> sparse;    // initializers stored as sparse_initializer

  uint32_t add_entry(std::string_view wire, const Type* type) {
    entries_.push_back({wire, type});
    return static_cast<uint32_t>(entries_.size());
  }
  const Entry& entry(uint32_t number) const { return number != 0 ? entries_[number - 1] : kNoEntry; }
  // The file's entry if it still declares this type; else empty.
  std::string_view entry(uint32_t number, const Type* declared) const {
    return entry(number).type == declared ? entry(number).wire : std::string_view();
  }

  const OfGraph& of(const Graph& g) const;
  const OfTensor& of(const Value& v) const;
  std::string_view fields_of(const Node& n) const;
  // `to` replaces `from`, in the same model.
  void keep(const Node& from, const Node& to);
  void keep(const Value& from, const Value& to);

 private:
  static const Entry kNoEntry;
  std::vector<Entry> entries_;
};

}  // namespace sardonyx
