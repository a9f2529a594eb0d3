/* libgguf: functions beyond those of ggml's gguf.h.
 *
 * They print nothing. On failure they return NULL, false, 0 or -1, and gguf_x_last_error returns the reason.
 */
#ifndef LIBGGUF_GGUF_X_H
#define LIBGGUF_GGUF_X_H

#include "gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, such as 0.1.0. */
const char * gguf_x_version(void);

/* --- Errors --- */

/* The reason of the last failure on this thread, including those of functions of gguf.h; empty if there was none. Valid until the
 * next failure on this thread. */
const char * gguf_x_last_error(void);

/* The byte offset of the last failure, from the start of the GGUF; UINT64_MAX if it has none. */
uint64_t gguf_x_last_error_offset(void);

/* --- Tensors without ggml --- */

/* Appends a tensor of n_dims dimensions (1 to 4), the contiguous one first. data may be NULL as long as only the head is
 * written, or until gguf_set_tensor_data. */
bool gguf_x_add_tensor(struct gguf_context * ctx, const char * name, enum ggml_type type, uint32_t n_dims, const int64_t * ne,
                       const void * data);

/* --- Checks: every problem of a file --- */

enum gguf_x_severity {
    GGUF_X_NOTE = 0,    /* worth knowing */
    GGUF_X_WARNING = 1, /* unusual, or rejected by some readers */
    GGUF_X_ERROR = 2    /* violates the specification, or unusable */
};

struct gguf_x_finding {
    enum gguf_x_severity severity;
    uint64_t offset;       /* UINT64_MAX if the finding has none */
    const char * code;     /* the rule, such as tensor.overlap; stable between releases */
    const char * place;    /* such as: tensor blk.0.attn_q.weight */
    const char * message;  /* what was found */
    const char * expected; /* the expected value */
    const char * hint;     /* the remedy */
};

struct gguf_x_report;

/* Checks the structure, the specification, and the model in the file. NULL if the file cannot be opened; a file that is not GGUF
 * has a finding. */
struct gguf_x_report * gguf_x_check_file(const char * fname);
struct gguf_x_report * gguf_x_check_buffer(const void * data, size_t size);
size_t gguf_x_report_n(const struct gguf_x_report * report);

/* The texts are valid until the report is freed. */
bool gguf_x_report_get(const struct gguf_x_report * report, size_t i, struct gguf_x_finding * finding);
void gguf_x_report_free(struct gguf_x_report * report);

/* --- Models: one file, or all shards --- */

struct gguf_x_model;

struct gguf_x_tensor {
    const char * name; /* valid until the model is freed */
    enum ggml_type type;
    uint32_t n_dims;
    int64_t ne[4];   /* 1 for missing dimensions */
    size_t file;     /* number of the file that contains it */
    uint64_t offset; /* of the data, from the start of that file */
    uint64_t size;   /* bytes of the data */
};

/* Opens a model by its file or any of its shards. Unlike gguf_init_from_file, accepts every version and byte order. Maps the
 * files into memory: until the model is freed, no process may write to them or truncate them. Removing them, or replacing them
 * by renaming, is harmless. */
struct gguf_x_model * gguf_x_model_open(const char * fname);
void gguf_x_model_free(struct gguf_x_model * model);
size_t gguf_x_model_n_files(const struct gguf_x_model * model);
const char * gguf_x_model_path(const struct gguf_x_model * model, size_t file);

/* The head of a file, for the getters of gguf.h; valid until the model is freed, and must not be freed. NULL if gguf.h cannot
 * represent it: version 1, foreign byte order, nested arrays, tensors in a different order than their data. */
const struct gguf_context * gguf_x_model_context(const struct gguf_x_model * model, size_t file);
int64_t gguf_x_model_n_tensors(const struct gguf_x_model * model);
int64_t gguf_x_model_find_tensor(const struct gguf_x_model * model, const char * name);
bool gguf_x_model_tensor(const struct gguf_x_model * model, int64_t i, struct gguf_x_tensor * tensor);

/* The data of a tensor, mapped into memory, in the byte order of the file; valid until the model is freed. */
const void * gguf_x_model_tensor_data(const struct gguf_x_model * model, int64_t i);

/* n elements, starting at element first, as floats; both must be multiples of the block length of the type. */
bool gguf_x_model_tensor_f32(const struct gguf_x_model * model, int64_t i, uint64_t first, uint64_t n, float * out);

/* --- Data as floats: the values of ggml's to_float, to the bit --- */

bool gguf_x_can_decode(enum ggml_type type);
bool gguf_x_decode(enum ggml_type type, const void * data, size_t n_bytes, float * out, size_t n);

#ifdef __cplusplus
}
#endif

#endif
