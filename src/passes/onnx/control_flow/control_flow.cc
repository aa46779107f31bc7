#include "passes/onnx/control_flow/control_flow.h"

namespace sardonyx::onnx {

void move_before(Node& at, Node& n) {
  Graph &from = *n.graph(), &to = *at.graph();
  for (const Value& v : n.results()) from.move_value_info(v, v, to);
  from.detach(n);
  to.insert_before(at, n);
}

void splice(Graph& from, Node& at, Rewriter& b) {
  b.set_insertion_point(&at);
  const std::vector<Value*> constants(from.constants().begin(), from.constants().end());
  for (Value* c : constants) {
    if (!c->has_uses()) continue;
    Value* moved = b.constant(c->constant(), c->constant()->byte_size() > 1024 ? c->name().view() : std::string_view());
    from.replace_uses(*c, *moved);
  }
  while (Node* n = from.first()) move_before(at, *n);
}

Node& with_slots(Node& n, std::span<Value* const> operands, std::span<const size_t> results, const Attrs* attrs, size_t more) {
  Model& m = n.model();
  Graph& g = *n.graph();
  Node& made = m.new_node(n.op(), operands, results.size() + more, attrs);
  made.set_name(n.name());
  made.set_provenance(n.provenance());
  g.insert_before(n, made);
  for (size_t count = n.bodies().size(); count > 0; --count) {
    const std::string name(n.bodies()[0].name.view());
    Graph& body = n.remove_body(0);
    made.add_body(name, body);
  }
  if (n.extra() != nullptr) {
    NodeExtra& extra = made.edit_extra();
    extra.doc = n.extra()->doc;
    extra.metadata = n.extra()->metadata;
  }
  m.keep_file_record(n, made);
  for (size_t i = 0; i < results.size(); ++i) {
    Value &old = *n.result(results[i]), &v = *made.result(i);
    v.set_name(old.name());
    v.set_type(old.type());
    g.move_value_info(old, v, g);
    g.replace_uses(old, v);
  }
  made.set_unchecked(n.unchecked());
  g.erase(n);
  return made;
}

}  // namespace sardonyx::onnx
