// A plugin for the tests, with lowerings that work and others that each fail in a different way.
#include <sardonyx/plugin.h>

namespace {

void lower_sin(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  SardonyxValue* cosine = api->op(at, "Cos", &x, 1);
  SardonyxValue* pair[] = {cosine, cosine};
  SardonyxValue* square = api->op(at, "Mul", pair, 2);
  SardonyxValue* rest[] = {api->number(at, x, 1.0), square};
  SardonyxValue* other = api->op(at, "Sub", rest, 2);
  api->result(at, 0, api->op(at, "Sqrt", &other, 1));  // |sin x|
}

void lower_cumsum(const SardonyxApi* api, SardonyxLowering* at, void*) {
  const int64_t axis = api->int_param(at, "axis");
  SardonyxValue* operands[] = {api->input(at, 0), api->ints(at, &axis, 1)};
  api->attr_int(at, "keepdims", 1);
  api->result(at, 0, api->op(at, "ReduceSum", operands, 2));  // has another shape: the conversion reports it
}

void lower_exp(const SardonyxApi* api, SardonyxLowering* at, void* why) { api->unsupported(at, static_cast<const char*>(why)); }

void lower_tanh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  SardonyxValue* y = api->op(at, "NoSuchOperator", &x, 7 - 6);
  api->result(at, 0, y);
  api->result(at, 0, y);  // twice
}

void lower_asinh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  api->attr_float(at, "alpha", 0.25);
  SardonyxValue* y = api->op(at, "LeakyRelu", &x, 1);
  api->late_float(at, y, "alpha", 0.5);
  api->result(at, 0, y);
}

void lower_acosh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  api->late_int(at, x, "axis", 1);  // no node makes an input
  api->result(at, 0, api->op(at, "Acosh", &x, 1));
}

void lower_atanh(const SardonyxApi* api, SardonyxLowering* at, void*) {
  SardonyxValue* x = api->input(at, 0);
  const int64_t swapped[] = {1, 0};
  api->attr_ints(at, "perm", swapped, 2);
  SardonyxValue* y = api->op(at, "Transpose", &x, 1);
  SardonyxValue* z = api->op(at, "Exp", &y, 1);
  api->attr_ints(at, "perm", swapped, 2);
  SardonyxValue* back = api->op(at, "Transpose", &z, 1);
  const int64_t same[] = {0, 1};
  api->late_ints(at, back, "perm", same, 2);  // of another type: an error, unless the passes have removed it
  api->result(at, 0, back);
}

// The k largest. Uses an operator with two results, constants, and the dtypes of operands and results.
void lower_top_k(const SardonyxApi* api, SardonyxLowering* at, void*) {
  const int64_t k = api->int_param(at, "k"), one = 1;
  const auto axis = static_cast<int64_t>(api->rank(at, api->input(at, 0))) - 1;
  SardonyxValue* operands[] = {api->input(at, 0), api->tensor(at, 7, &one, 1, &k)};
  SardonyxValue* found[2];
  api->attr_int(at, "axis", axis);
  api->op_results(at, "", "TopK", operands, 2, found, 2);
  api->attr_int(at, "to", api->result_dtype(at, 1));
  api->result(at, 0, found[0]);
  api->result(at, 1, api->op(at, "Cast", &found[1], 1));
}

// Run-time sizes, tuples, and an operator of another domain: reshapes x to itself and multiplies by the size
// of axis 0.
void lower_rev(const SardonyxApi* api, SardonyxLowering* at, void*) {
  int64_t dimensions[4];
  SardonyxValue* x = api->input(at, 0);
  if (api->ints_param(at, "dimensions", dimensions, 4) != 1 || dimensions[0] != 1) return api->unsupported(at, "only axis 1");
  if (api->dim(at, x, 0) != -1 || api->dim(at, x, 1) != 3 || api->dtype(at, x) != 1) return api->unsupported(at, "f32[?,3]");
  if (api->result_rank(at, 0) != 2 || api->result_dim(at, 0, 1) != 3 || api->num_results(at) != 1 ||
      api->has_param(at, "nothing"))
    return api->unsupported(at, "a result of another shape");
  SardonyxValue* shaped[] = {x, api->result_shape(at, 0)};
  SardonyxValue* same = api->op(at, "Reshape", shaped, 2);
  SardonyxValue* size = api->size(at, x, 0);
  api->attr_int(at, "to", 1);
  SardonyxValue* factor = api->op(at, "Cast", &size, 1);
  SardonyxValue* pair[] = {same, factor};
  SardonyxValue* out = nullptr;
  api->op_results(at, "my.ops", "Scale", pair, 2, &out, 1);
  api->result(at, 0, out);
}

void lower_log(const SardonyxApi* api, SardonyxLowering* at, void*) {
  (void)api->dim(at, api->input(at, 0), 5);  // there is no such axis
  api->result(at, 0, api->input(at, 0));
}

}  // namespace

int sardonyx_plugin(const SardonyxApi* api, SardonyxHost* host) {
  if (api->version < 3) return 1;
  static char why[] = "exponentials are not wanted here";
  api->add_lowering(host, "sin", lower_sin, nullptr);
  api->add_lowering(host, "cumsum", lower_cumsum, nullptr);
  api->add_lowering(host, "exp", lower_exp, why);
  api->add_lowering(host, "tanh", lower_tanh, nullptr);
  api->add_lowering(host, "asinh", lower_asinh, nullptr);
  api->add_lowering(host, "acosh", lower_acosh, nullptr);
  api->add_lowering(host, "atanh", lower_atanh, nullptr);
  api->add_lowering(host, "top_k", lower_top_k, nullptr);
  api->add_lowering(host, "rev", lower_rev, nullptr);
  api->add_lowering(host, "log", lower_log, nullptr);
  return 0;
}
