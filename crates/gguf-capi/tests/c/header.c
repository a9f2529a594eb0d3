/* Compares this library's gguf.h with ggml's: every function is declared twice, which only compiles if both are equal. */
#include "ggml.h"
#include GGML_GGUF_H

_Static_assert(GGUF_VERSION == 3 && GGUF_DEFAULT_ALIGNMENT == 32, "constants");
_Static_assert(GGUF_TYPE_UINT8 == 0 && GGUF_TYPE_INT8 == 1 && GGUF_TYPE_UINT16 == 2 && GGUF_TYPE_INT16 == 3, "types");
_Static_assert(GGUF_TYPE_UINT32 == 4 && GGUF_TYPE_INT32 == 5 && GGUF_TYPE_FLOAT32 == 6 && GGUF_TYPE_BOOL == 7, "types");
_Static_assert(GGUF_TYPE_STRING == 8 && GGUF_TYPE_ARRAY == 9 && GGUF_TYPE_UINT64 == 10 && GGUF_TYPE_INT64 == 11, "types");
_Static_assert(GGUF_TYPE_FLOAT64 == 12 && GGUF_TYPE_COUNT == 13 && GGML_TYPE_COUNT == 43, "types");
_Static_assert(sizeof(struct gguf_init_params) == 2 * sizeof(void *), "parameters");

#undef GGUF_MAGIC
#undef GGUF_VERSION
#undef GGUF_KEY_GENERAL_ALIGNMENT
#undef GGUF_DEFAULT_ALIGNMENT
#define GGUF_ENUM_IS_DECLARED
#include OUR_GGUF_H
