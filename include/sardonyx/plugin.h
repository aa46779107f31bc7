/* Plugins in shared objects: lowerings of primitives, through an append-only table of C functions.
 *
 * A plugin exports one function, sardonyx_plugin(), which adds its lowerings. It links nothing of Sardonyx.
 * docs/inside/lowerings.md has an example; `sardonyx convert ... --plugin lib.so` loads it. Values belong to the
 * conversion and live until the lowering returns. After a function has failed (returned NULL), all others do
 * nothing, and the conversion reports the first failure. */
#ifndef SARDONYX_PLUGIN_H
#define SARDONYX_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SARDONYX_PLUGIN_VERSION 3

typedef struct SardonyxHost SardonyxHost;         /* where lowerings are added */
typedef struct SardonyxLowering SardonyxLowering; /* one equation */
typedef struct SardonyxValue SardonyxValue;
typedef struct SardonyxApi SardonyxApi;

typedef void (*SardonyxLower)(const SardonyxApi* api, SardonyxLowering* at, void* data);

struct SardonyxApi {
  uint32_t version; /* of the program that loads the plugin; later versions append functions */

  /* Only while the plugin is loaded. A later addition for the same primitive replaces an earlier one. */
  void (*add_lowering)(SardonyxHost* host, const char* primitive, SardonyxLower lower, void* data);

  /* The equation: operands in order, and its parameters by JAX's names. */
  size_t (*num_inputs)(SardonyxLowering* at);
  SardonyxValue* (*input)(SardonyxLowering* at, size_t i);
  int64_t (*int_param)(SardonyxLowering* at, const char* name);
  double (*float_param)(SardonyxLowering* at, const char* name);

  /* Attributes of the operator that op() makes next. */
  void (*attr_int)(SardonyxLowering* at, const char* name, int64_t value);
  void (*attr_float)(SardonyxLowering* at, const char* name, double value);
  void (*attr_string)(SardonyxLowering* at, const char* name, const char* value);
  void (*attr_ints)(SardonyxLowering* at, const char* name, const int64_t* values, size_t count);

  /* An ONNX operator with one result. Absent operands are NULL. */
  SardonyxValue* (*op)(SardonyxLowering* at, const char* name, SardonyxValue* const* inputs, size_t count);
  /* Constants: a number of the element type of `like`, and a vector of i64. */
  SardonyxValue* (*number)(SardonyxLowering* at, const SardonyxValue* like, double value);
  SardonyxValue* (*ints)(SardonyxLowering* at, const int64_t* values, size_t count);

  /* Sets a result of the equation; call it exactly once for each. */
  void (*result)(SardonyxLowering* at, size_t i, SardonyxValue* value);
  /* Refuses the equation; reported with everything else that cannot be converted. */
  void (*unsupported)(SardonyxLowering* at, const char* why);

  /* Since version 2. Sets attributes on the node that made `value`, after the passes have run: they see the
   * node as op() made it. Has no effect if a pass removed or replaced the node. The attributes must not change
   * the types of its results. */
  void (*late_int)(SardonyxLowering* at, SardonyxValue* value, const char* name, int64_t late);
  void (*late_float)(SardonyxLowering* at, SardonyxValue* value, const char* name, double late);
  void (*late_string)(SardonyxLowering* at, SardonyxValue* value, const char* name, const char* late);
  void (*late_ints)(SardonyxLowering* at, SardonyxValue* value, const char* name, const int64_t* values, size_t count);

  /* Since version 3. Types of operands and results: dtype() is a number of onnx.TensorProto.DataType, and dim()
   * is -1 for a size known only at run time. size() is any size as a run-time value, i64[]. */
  int32_t (*dtype)(SardonyxLowering* at, const SardonyxValue* value);
  size_t (*rank)(SardonyxLowering* at, const SardonyxValue* value);
  int64_t (*dim)(SardonyxLowering* at, const SardonyxValue* value, size_t axis);
  SardonyxValue* (*size)(SardonyxLowering* at, const SardonyxValue* value, size_t axis);
  /* The types of the equation's results. result_shape() is the whole shape as a run-time value, i64[rank]. */
  size_t (*num_results)(SardonyxLowering* at);
  int32_t (*result_dtype)(SardonyxLowering* at, size_t i);
  size_t (*result_rank)(SardonyxLowering* at, size_t i);
  int64_t (*result_dim)(SardonyxLowering* at, size_t i, size_t axis);
  SardonyxValue* (*result_shape)(SardonyxLowering* at, size_t i);
  /* Parameters. has_param() is whether it exists and is not None. string_param() returns strings and names of
   * enumerators, valid until the lowering returns. ints_param() writes the first `room` integers of a tuple and
   * returns their total number. */
  int (*has_param)(SardonyxLowering* at, const char* name);
  int (*bool_param)(SardonyxLowering* at, const char* name);
  const char* (*string_param)(SardonyxLowering* at, const char* name);
  size_t (*ints_param)(SardonyxLowering* at, const char* name, int64_t* values, size_t room);
  /* An operator of any domain ("" is ONNX's own) with several results. Results of an unknown operator have no
   * types until they become results of the equation. */
  void (*op_results)(SardonyxLowering* at, const char* domain, const char* name, SardonyxValue* const* inputs, size_t count,
                     SardonyxValue** results, size_t num_results);
  /* A constant tensor; its bytes are copied: dense, in C order, little-endian. */
  SardonyxValue* (*tensor)(SardonyxLowering* at, int32_t dtype, const int64_t* dims, size_t rank, const void* data);
};

/* The entry point that a plugin defines. Returns 0, or nonzero if it cannot work with this version. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int sardonyx_plugin(const SardonyxApi* api, SardonyxHost* host);

#ifdef __cplusplus
}
#endif

#endif
