// Type rules, tested by building nodes: results with symbolic shapes, and nodes that are refused.
#include <gtest/gtest.h>

#include "sardonyx/onnx_builder.h"

namespace sardonyx {
namespace {

class Infer : public testing::Test {
 protected:
  explicit Infer(int opset = 23) {
    model.set_opset_version("", opset);
    model.add_function("main");
    b.emplace(model.graph(), facts);
  }
  Value* input(DType dtype, std::initializer_list<const char*> dims) {
    std::vector<Dim> parsed;
    for (const char* d : dims) parsed.push_back(std::string_view(d) == "?" ? Dim() : model.dims().parse(d));
    return model.graph().add_input("x" + std::to_string(model.graph().inputs().size()),
                                   model.types().freshen(model.types().tensor(dtype, parsed)));
  }
  Value* f32(std::initializer_list<const char*> dims) { return input(DType::kF32, dims); }
  std::string type(Value* v) { return model.types().to_string(v->type()); }
  std::string error(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  }

  Model model{DialectId::kOnnx};
  ValueFacts facts;
  std::optional<OnnxBuilder> b;
};

TEST_F(Infer, BroadcastsSymbols) {
  EXPECT_EQ(type(b->Add(f32({"B", "3"}), f32({"3"}))), "f32[B,3]");
  EXPECT_EQ(type(b->Add(f32({"B", "1"}), f32({"1", "T"}))), "f32[B,T]");
  EXPECT_EQ(type(b->Add(f32({"B"}), f32({"3"}))), "f32[3]");
  EXPECT_EQ(type(b->Add(f32({"?"}), f32({"3"}))), "f32[3]");
  EXPECT_EQ(type(b->Mul(f32({"B"}), f32({"T"}))), "f32[max(B, T)]");
  EXPECT_EQ(type(b->Less(f32({"B", "3"}), f32({}))), "bool[B,3]");
}

TEST_F(Infer, ClipHasScalarLimits) {
  const auto clip = [&](Value* limit) { return error([&] { b->Clip(f32({"B", "3"}), limit); }); };
  EXPECT_EQ(clip(f32({})), "");
  EXPECT_EQ(clip(f32({"1"})), "");
  EXPECT_NE(clip(f32({"3"})).find("the limits must be scalars"), std::string::npos);
  EXPECT_NE(clip(f32({"1", "1"})).find("the limits must be scalars"), std::string::npos);
}

TEST(InferModel, CallsOfOverloadsAreTypedAgainWithTheirBody) {
  const auto m = parse(R"(
opset 18, "own" 1
graph(x: f32[3], n: i64[]) {
  y = Loop<body=graph(i: i64[], c: bool[], s) {
      t = own::f(s) overload "one"
      u = Concat<axis=0>(t, f32[1]{1})
      d = Identity(c)
      return d, u
    }>(n, _, x)
  return y
}
function own::f(x) overload "one" opset 18 { r = Relu(x)  return r }
)");
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/false);
  const Graph& body = *m->graph().first()->bodies()[0].graph;
  EXPECT_EQ(m->types().to_string(body.first()->result()->type()), "f32[?]");
}

TEST(InferModel, NodesThatLookAlikeHaveTheTypesThatTheyWouldHaveAlone) {
  const auto m = parse(R"(
graph(x: f32[2,3], y: f32[2,3], z: f32[3,2], n: f32[N,3], i: i64[2]) {
  a = Add(x, y)
  b = Add(y, x)
  c = Add(x, f32[2,1]{1,2})
  d = Reshape(x, i64[2]{3,2})
  e = Reshape(y, i64[2]{3,2})
  f = Reshape(x, i64[2]{6,1})
  g = Reshape(x, i)
  h = Transpose<perm=[1,0]>(x)
  j = Transpose<perm=[1,0]>(y)
  k = Transpose<perm=[0,1]>(x)
  l = Relu(n)
  o = Relu(l)
  p = Shape(x)
  q = Shape(z)
  r = Reshape(x, q)
  s = Reshape(x, p)
  t = Reshape(x, i)
  u = Max(x)
  v = Max(x, x)
  w = Cast<to=11>(x)
  aa = Cast<to=1>(w)
  bb = Cast<to=11>(y)
  return a, b, c, d, e, f, g, h, j, k, l, o, r, s, t, u, v, aa, bb
})");
  const auto forget = [&] {
    for (Node& n : m->graph().nodes()) n.result()->set_type(nullptr);
  };
  const auto types = [&] {
    std::vector<std::string> all;
    for (const Node& n : m->graph().nodes()) all.push_back(m->types().to_string(n.result()->type()));
    return all;
  };
  forget();
  ValueFacts facts, others;
  for (Node& n : m->graph().nodes()) infer_node(n, facts);
  const auto expected = types();
  forget();
  EXPECT_TRUE(infer_model(*m, others, /*tolerant=*/true).empty());
  EXPECT_EQ(types(), expected);
  EXPECT_TRUE(infer_model(*m, others, /*tolerant=*/true).empty());  // also when they already have types
  EXPECT_EQ(types(), expected);
}

TEST_F(Infer, RefusesIllTypedNodesAndLeavesTheGraphAsItWas) {
  Value *x = f32({"B", "3"}), *y = f32({"5"});
  EXPECT_EQ(error([&] { b->Add(x, y); }), "Add: shapes do not broadcast: 3 against 5");
  EXPECT_EQ(error([&] { b->Add(x, input(DType::kI64, {"3"})); }),
            "Add: operands 0 (f32[B,3]) and 1 (i64[3]) must have the same element type");
  EXPECT_EQ(error([&] { b->MatMul(x, f32({"7", "2"})); }), "MatMul: the sizes that are summed over must be equal: 3 and 7");
  EXPECT_EQ(error([&] { b->Not(x); }), "Not: operand 0 (X) is f32[B,3]");
  EXPECT_EQ(error([&] { b->Concat({x, f32({"B"})}, {.axis = 0}); }), "Concat: operands have ranks 2 and 1");
  EXPECT_EQ(error([&] { b->Add(x, nullptr); }), "Add: takes 2 operands, not 1");
  EXPECT_EQ(model.graph().num_nodes(), 0u);
  EXPECT_FALSE(x->has_uses());
}

TEST_F(Infer, ReshapeFollowsElements) {
  Value* x = f32({"B", "T", "6"});
  EXPECT_EQ(type(b->Reshape(x, b->i64s({-1, 6}))), "f32[B*T,6]");
  EXPECT_EQ(type(b->Reshape(x, b->i64s({0, 0, 2, 3}))), "f32[B,T,2,3]");
  EXPECT_EQ(type(b->Reshape(x, b->i64s({0, -1}))), "f32[B,6*T]");
  EXPECT_EQ(type(b->Reshape(x, b->i64s({0, -1, 12}))), "f32[B,floordiv(T, 2),12]");
  EXPECT_EQ(type(b->Reshape(f32({"?", "6"}), b->i64s({0, 2, -1}))), "f32[?,2,3]");
  EXPECT_EQ(type(b->Reshape(x, input(DType::kI64, {"2"}))), "f32[?,?]");
  Value* some = b->Concat({input(DType::kI64, {"1"}), b->i64s({6})}, {.axis = 0});
  EXPECT_EQ(type(b->Reshape(x, some)), "f32[B*T,6]") << "the element that is not known follows from the others";
  EXPECT_EQ(error([&] { b->Reshape(f32({"2", "3"}), b->i64s({4, -1})); }), "Reshape: 6 elements do not divide by 4");
  EXPECT_EQ(error([&] { b->Reshape(f32({"2", "3"}), b->i64s({7})); }), "Reshape: f32[2,3] has 6 elements, the shape [7] has 7");
}

TEST_F(Infer, ValuesOfShapesArePropagated) {
  Value* x = f32({"B", "T", "6"});
  Value* shape = b->Shape(x);
  Value* batch = b->Gather(shape, b->i64s({0}));
  Value* time = b->Slice(shape, b->i64s({1}), b->i64s({2}));
  Value* target = b->Concat({batch, b->Mul(time, b->i64s({2})), b->i64s({3})}, {.axis = 0});
  EXPECT_EQ(type(b->Reshape(x, target)), "f32[B,2*T,3]");
  Value* half = b->Div(time, b->i64s({2}));
  EXPECT_EQ(type(b->Expand(f32({}), half)), "f32[floordiv(T, 2)]");
  Value* count = b->Squeeze(b->Sub(time, b->i64s({1})), b->i64s({0}));
  EXPECT_EQ(type(b->Range(b->i64(0), count, b->i64(1))), "i64[T - 1]");
  Value* size = b->Cast(b->Size(x), {.to = DType::kI32});
  EXPECT_EQ(type(b->Range(b->scalar_int(DType::kI32, 0), size, b->scalar_int(DType::kI32, 1))), "i32[6*B*T]");
  Value* or_one = b->Where(b->Equal(shape, b->i64s({-1, -2, 6})), b->i64s({1}), shape);
  EXPECT_EQ(type(b->ConstantOfShape(or_one)), "f32[B,T,1]");
  Value* if_empty = b->Where(b->Equal(shape, b->i64s({0, -1, 0})), b->i64s({5}), shape);
  EXPECT_EQ(type(b->ConstantOfShape(if_empty)), "f32[?,T,6]") << "a model that asks whether B is 0 is answered at run time";
  EXPECT_EQ(type(b->Expand(f32({}), b->reduce("ReduceProd", shape, std::vector<int64_t>{0}, true))), "f32[6*B*T]");
}

TEST_F(Infer, SlicesSymbolicDims) {
  Value* x = f32({"B", "10"});
  const auto cut = [&](int64_t from, int64_t to, int64_t axis, int64_t step) {
    return type(b->Slice(x, b->i64s({from}), b->i64s({to}), b->i64s({axis}), b->i64s({step})));
  };
  EXPECT_EQ(cut(1, INT64_MAX, 0, 1), "f32[B - 1,10]");
  EXPECT_EQ(cut(-1, INT64_MAX, 0, 1), "f32[1,10]");
  EXPECT_EQ(cut(0, -1, 0, 1), "f32[B - 1,10]");
  EXPECT_EQ(cut(-1, INT64_MIN, 0, -1), "f32[B,10]");
  EXPECT_EQ(cut(0, INT64_MAX, 1, 3), "f32[B,4]");
  EXPECT_EQ(cut(8, 2, 1, -2), "f32[B,3]");
  EXPECT_EQ(cut(7, 3, 1, 1), "f32[B,0]");
  EXPECT_EQ(cut(0, 2147483647, 0, 1), "f32[B,10]");
}

TEST_F(Infer, ConvolutionsAndPools) {
  Value* x = f32({"B", "3", "224", "W"});
  Value* w = f32({"64", "3", "7", "7"});
  EXPECT_EQ(type(b->Conv(x, w, nullptr, {.pads = {3, 3, 3, 3}, .strides = {2, 2}})), "f32[B,64,112,floordiv(W + 1, 2)]");
  EXPECT_EQ(type(b->MaxPool(x, {.ceil_mode = true, .kernel_shape = {3, 3}, .strides = {2, 2}})), "f32[B,3,112,floordiv(W, 2)]");
  EXPECT_EQ(type(b->ConvTranspose(x, f32({"3", "5", "2", "2"}), nullptr, {.strides = {2, 2}})), "f32[B,5,448,2*W]");
  EXPECT_EQ(type(b->GlobalAveragePool(x)), "f32[B,3,1,1]");
  EXPECT_EQ(error([&] { b->Conv(x, f32({"8", "4", "1", "1"})); }), "Conv: X has 3 channels, W takes 4 in 1 groups");
}

TEST_F(Infer, ControlFlowWidensWhatChanges) {
  Value* x = f32({"B", "3"});
  const auto body = [&](bool grows) -> Graph& {
    Graph& g = model.new_graph("body");
    OnnxBuilder in(g, facts);
    g.add_input("i", model.types().scalar(DType::kI64));
    Value* go = g.add_input("go", model.types().scalar(DType::kBool));
    Value* state = g.add_input("s", nullptr);
    state->set_type(x->type());
    Value* next = grows ? in.Concat({state, state}, {.axis = 0}) : in.Relu(state);
    g.add_output(*in.Identity(go), "go_out");
    g.add_output(*next, "next");
    g.add_output(*next, "each");
    return g;
  };
  Value* s[] = {x};
  Node& steady = b->Loop(b->i64(5), nullptr, s, body(false));
  EXPECT_EQ(type(steady.result(0)), "f32[B,3]");
  EXPECT_EQ(type(steady.result(1)), "f32[5,B,3]");
  Value* trips = b->Gather(b->Shape(f32({"T"})), b->i64(0));
  EXPECT_EQ(type(b->Loop(trips, nullptr, s, body(false)).result(1)), "f32[T,B,3]");
  Value* maybe = input(DType::kBool, {});
  EXPECT_EQ(type(b->Loop(b->i64(5), maybe, s, body(false)).result(1)), "f32[?,B,3]");
  Node& growing = b->Loop(b->i64(5), nullptr, s, body(true));
  EXPECT_EQ(type(growing.result(0)), "f32[?,3]");
  EXPECT_EQ(type(growing.result(1)), "f32[5,?,3]");
}

TEST_F(Infer, BuilderWritesOnlyWhatIsNotImplied) {
  Value* x = f32({"2", "3"});
  Node& plain = *b->Softmax(x)->def();
  EXPECT_TRUE(plain.attrs().empty());
  Node& first = *b->Softmax(x, {.axis = 0})->def();
  EXPECT_EQ(first.attr_int("axis", -7), 0);
  EXPECT_EQ(b->i64(5), b->i64(5));
  EXPECT_NE(b->i64(5), b->i64s({5}));
}

class InferOld : public Infer {
 protected:
  InferOld() : Infer(17) {}
};

TEST_F(InferOld, HelpersSpellForTheOpset) {
  Value* x = f32({"B", "6", "5"});
  EXPECT_EQ(type(b->reduce("ReduceMean", x, std::vector<int64_t>{1}, false)), "f32[B,5]");
  EXPECT_EQ(b->reduce("ReduceMax", x, std::vector<int64_t>{1}, true)->def()->num_inputs(), 1u);
  EXPECT_EQ(b->reduce("ReduceSum", x, std::vector<int64_t>{1}, true)->def()->num_inputs(), 2u);
  EXPECT_EQ(type(b->split(x, std::vector<int64_t>{2, 4}, 1)[1]), "f32[B,4,5]");
  EXPECT_EQ(error([&] { b->Gelu(x); }), "ONNX operator Gelu needs opset 20; the model imports opset 17");
  EXPECT_EQ(error([&] { b->ScatterND(x, input(DType::kI64, {"2", "1"}), x, {.reduction = "max"}); }), "");
}

TEST(OnnxOps, VersionsAreFound) {
  const Dialect& onnx = dialect(DialectId::kOnnx);
  const Op* add = onnx.find("", "Add", 23);
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->since_version, 14);
  EXPECT_EQ(onnx.find("ai.onnx", "Add", 13)->since_version, 13);
  EXPECT_EQ(onnx.find("", "Add", 12)->since_version, 7);
  EXPECT_EQ(onnx.find("", "Gelu", 19), nullptr);
  EXPECT_EQ(onnx.find("", "add", 19), nullptr);
  EXPECT_EQ(onnx.find("ai.onnx.ml", "Add", 3), nullptr);
  EXPECT_EQ(onnx.find("ai.onnx.ml", "Scaler", 3)->since_version, 1);
  EXPECT_TRUE(add->has(Trait::kCommutative) && add->has(Trait::kPure) && !add->has(Trait::kUnary));
  EXPECT_FALSE(onnx.find("", "Dropout", 22)->has(Trait::kPure));
  EXPECT_FALSE(onnx.find("", "Add", 6)->has(Trait::kBroadcasts)) << "it had an attribute for that";
  EXPECT_TRUE(onnx.find("", "Upsample", 10)->deprecated);
  EXPECT_EQ(onnx.latest_version("com.example"), 0);
}

TEST(OnnxOps, IdsAreDenseAndOperatorsHaveRules) {
  uint32_t id = 0;
  for (const Op& op : dialect(DialectId::kOnnx).ops()) {
    EXPECT_EQ(op.id, id++);
    EXPECT_TRUE(op.infer != nullptr || op.name == "Gradient") << op.name << '-' << op.since_version;
  }
  EXPECT_GE(known_op_count(), id);
}

TEST_F(Infer, RefusesAScalarAsGrid) {
  Value* x = model.graph().add_input("unknown", nullptr);
  EXPECT_NE(error([&] { b->GridSample(x, f32({})); }), "");
}

}  // namespace
}  // namespace sardonyx
