/* libgguf: GGUF files from C, with the interface of ggml's gguf.h.
 *
 * Names, signatures and meaning are those of ggml, so a program can be built against either header and run with either
 * library. docs/c-library.md lists the differences; gguf_x.h declares additional functions.
 *
 * A program that also uses ggml must include ggml.h before this header, or define GGUF_WITH_GGML.
 *
 * Aborts: a getter of the wrong type ends the process, as in ggml, with a message that names the key, its type and the requested
 * type. No other function aborts. Other misuse (a NULL, an invalid id, a duplicate tensor) prints a message to stderr, returns 0,
 * NULL, -1 or false, and changes nothing; a context with a rejected change can no longer be written.
 *
 * Pointers from a context are valid until their pair or tensor is removed or replaced, a tensor is added, or the context is
 * freed.
 *
 * Threads: several threads may read one context at the same time while none modifies it. Contexts share no state.
 */
#ifndef LIBGGUF_GGUF_H
#define LIBGGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef GGUF_WITH_GGML
#include "ggml.h"
#endif

#define GGUF_MAGIC "GGUF"
#define GGUF_VERSION 3
#define GGUF_KEY_GENERAL_ALIGNMENT "general.alignment"
#define GGUF_DEFAULT_ALIGNMENT 32

#ifdef __cplusplus
extern "C" {
#endif

/* ggml.h defines GGML_FILE_MAGIC, and this enumeration with it. */
#ifndef GGML_FILE_MAGIC
#define GGML_MAX_DIMS 4
enum ggml_type {
    GGML_TYPE_F32 = 0,
    GGML_TYPE_F16 = 1,
    GGML_TYPE_Q4_0 = 2,
    GGML_TYPE_Q4_1 = 3,
    GGML_TYPE_Q5_0 = 6,
    GGML_TYPE_Q5_1 = 7,
    GGML_TYPE_Q8_0 = 8,
    GGML_TYPE_Q8_1 = 9,
    GGML_TYPE_Q2_K = 10,
    GGML_TYPE_Q3_K = 11,
    GGML_TYPE_Q4_K = 12,
    GGML_TYPE_Q5_K = 13,
    GGML_TYPE_Q6_K = 14,
    GGML_TYPE_Q8_K = 15,
    GGML_TYPE_IQ2_XXS = 16,
    GGML_TYPE_IQ2_XS = 17,
    GGML_TYPE_IQ3_XXS = 18,
    GGML_TYPE_IQ1_S = 19,
    GGML_TYPE_IQ4_NL = 20,
    GGML_TYPE_IQ3_S = 21,
    GGML_TYPE_IQ2_S = 22,
    GGML_TYPE_IQ4_XS = 23,
    GGML_TYPE_I8 = 24,
    GGML_TYPE_I16 = 25,
    GGML_TYPE_I32 = 26,
    GGML_TYPE_I64 = 27,
    GGML_TYPE_F64 = 28,
    GGML_TYPE_IQ1_M = 29,
    GGML_TYPE_BF16 = 30,
    GGML_TYPE_TQ1_0 = 34,
    GGML_TYPE_TQ2_0 = 35,
    GGML_TYPE_MXFP4 = 39,
    GGML_TYPE_NVFP4 = 40,
    GGML_TYPE_Q1_0 = 41,
    GGML_TYPE_Q2_0 = 42,
    GGML_TYPE_COUNT = 43
};
#endif

/* ggml's structures, which this library only passes on. */
struct ggml_tensor;
struct ggml_context;

/* GGUF_ENUM_IS_DECLARED allows comparing this header with ggml's, which declares the same enumeration. */
#ifndef GGUF_ENUM_IS_DECLARED
/* Types of values. */
enum gguf_type {
    GGUF_TYPE_UINT8 = 0,
    GGUF_TYPE_INT8 = 1,
    GGUF_TYPE_UINT16 = 2,
    GGUF_TYPE_INT16 = 3,
    GGUF_TYPE_UINT32 = 4,
    GGUF_TYPE_INT32 = 5,
    GGUF_TYPE_FLOAT32 = 6,
    GGUF_TYPE_BOOL = 7,
    GGUF_TYPE_STRING = 8,
    GGUF_TYPE_ARRAY = 9,
    GGUF_TYPE_UINT64 = 10,
    GGUF_TYPE_INT64 = 11,
    GGUF_TYPE_FLOAT64 = 12,
    GGUF_TYPE_COUNT
};

struct gguf_context;

struct gguf_init_params {
    /* Whether the tensors of ctx are made without their data. */
    bool no_alloc;
    /* The location for a pointer to a new ggml_context with the tensors, or NULL. The caller frees it with ggml_free. */
    struct ggml_context ** ctx;
};

/* Reads up to len bytes from an offset of the file into output; returns the number of bytes read. */
typedef size_t (*gguf_reader_callback_t)(void * userdata, void * output, uint64_t offset, size_t len);
#endif

/* --- Contexts --- */

/* An empty context, to build a file. */
struct gguf_context * gguf_init_empty(void);

/* From a file; NULL, and a message on stderr, if it is missing or rejected. */
struct gguf_context * gguf_init_from_file(const char * fname, struct gguf_init_params params);

/* Reads from the current position of an open file, which may contain the GGUF as a part. Afterwards, the position is after the bytes that
 * were read. */
struct gguf_context * gguf_init_from_file_ptr(FILE * file, struct gguf_init_params params);

/* From memory, which is copied. */
struct gguf_context * gguf_init_from_buffer(const void * data, size_t size, struct gguf_init_params params);

/* From a callback: max_chunk_read limits the length of each request (0: unlimited), max_expected_size is at least the length of the file.
 * Only required bytes are requested. The callback must not throw. */
struct gguf_context * gguf_init_from_callback(gguf_reader_callback_t callback, void * userdata, size_t max_chunk_read,
                                              uint64_t max_expected_size, struct gguf_init_params params);

/* Frees a context and everything its pointers refer to; NULL is allowed. */
void gguf_free(struct gguf_context * ctx);

/* --- Reading a context --- */

/* u8, i8, ..., str, arr; NULL for a number that is not a type. */
const char * gguf_type_name(enum gguf_type type);

/* The version that was read, and will be written: 2 or 3. */
uint32_t gguf_get_version(const struct gguf_context * ctx);

/* The value of general.alignment, 32 by default. */
size_t gguf_get_alignment(const struct gguf_context * ctx);

/* The start of the data section in the file, even for an embedded GGUF; aligned if and only if there is a tensor. */
size_t gguf_get_data_offset(const struct gguf_context * ctx);

int64_t gguf_get_n_kv(const struct gguf_context * ctx);

/* The id of a key, from 0; -1 if it does not exist. Removing a key decrements the ids of the following ones. */
int64_t gguf_find_key(const struct gguf_context * ctx, const char * key);
const char * gguf_get_key(const struct gguf_context * ctx, int64_t key_id);

enum gguf_type gguf_get_kv_type(const struct gguf_context * ctx, int64_t key_id);
enum gguf_type gguf_get_arr_type(const struct gguf_context * ctx, int64_t key_id);

/* The value; aborts if it has a different type. An array of one element is accepted as a single value. */
uint8_t gguf_get_val_u8(const struct gguf_context * ctx, int64_t key_id);
int8_t gguf_get_val_i8(const struct gguf_context * ctx, int64_t key_id);
uint16_t gguf_get_val_u16(const struct gguf_context * ctx, int64_t key_id);
int16_t gguf_get_val_i16(const struct gguf_context * ctx, int64_t key_id);
uint32_t gguf_get_val_u32(const struct gguf_context * ctx, int64_t key_id);
int32_t gguf_get_val_i32(const struct gguf_context * ctx, int64_t key_id);
float gguf_get_val_f32(const struct gguf_context * ctx, int64_t key_id);
uint64_t gguf_get_val_u64(const struct gguf_context * ctx, int64_t key_id);
int64_t gguf_get_val_i64(const struct gguf_context * ctx, int64_t key_id);
double gguf_get_val_f64(const struct gguf_context * ctx, int64_t key_id);
bool gguf_get_val_bool(const struct gguf_context * ctx, int64_t key_id);
const char * gguf_get_val_str(const struct gguf_context * ctx, int64_t key_id);

/* The bytes of a number or bool, in the machine's order and aligned. */
const void * gguf_get_val_data(const struct gguf_context * ctx, int64_t key_id);

/* The number of elements of an array; 1 for a single value. */
size_t gguf_get_arr_n(const struct gguf_context * ctx, int64_t key_id);

/* The elements of an array of numbers or bools (a byte each), in the machine's order and aligned; NULL for an empty one. */
const void * gguf_get_arr_data(const struct gguf_context * ctx, int64_t key_id);

/* The string at i of an array of strings. */
const char * gguf_get_arr_str(const struct gguf_context * ctx, int64_t key_id, size_t i);

int64_t gguf_get_n_tensors(const struct gguf_context * ctx);

/* The id of a tensor, from 0; -1 if it does not exist. */
int64_t gguf_find_tensor(const struct gguf_context * ctx, const char * name);

/* The offset of a tensor's data in the data section. */
size_t gguf_get_tensor_offset(const struct gguf_context * ctx, int64_t tensor_id);
const char * gguf_get_tensor_name(const struct gguf_context * ctx, int64_t tensor_id);

/* GGML_MAX_DIMS dimensions, the contiguous one first; missing ones are 1. */
const int64_t * gguf_get_tensor_ne(const struct gguf_context * ctx, int64_t tensor_id);
enum ggml_type gguf_get_tensor_type(const struct gguf_context * ctx, int64_t tensor_id);

/* Bytes of the data, without padding. */
size_t gguf_get_tensor_size(const struct gguf_context * ctx, int64_t tensor_id);

/* --- Changing a context --- */

/* Removes a key; returns its former id, or -1 if it did not exist. */
int64_t gguf_remove_key(struct gguf_context * ctx, const char * key);

/* Sets a key. The pair becomes the last one, even if the key existed. general.alignment must be a power of two of type u32; existing
 * tensors are realigned. */
void gguf_set_val_u8(struct gguf_context * ctx, const char * key, uint8_t val);
void gguf_set_val_i8(struct gguf_context * ctx, const char * key, int8_t val);
void gguf_set_val_u16(struct gguf_context * ctx, const char * key, uint16_t val);
void gguf_set_val_i16(struct gguf_context * ctx, const char * key, int16_t val);
void gguf_set_val_u32(struct gguf_context * ctx, const char * key, uint32_t val);
void gguf_set_val_i32(struct gguf_context * ctx, const char * key, int32_t val);
void gguf_set_val_f32(struct gguf_context * ctx, const char * key, float val);
void gguf_set_val_u64(struct gguf_context * ctx, const char * key, uint64_t val);
void gguf_set_val_i64(struct gguf_context * ctx, const char * key, int64_t val);
void gguf_set_val_f64(struct gguf_context * ctx, const char * key, double val);
void gguf_set_val_bool(struct gguf_context * ctx, const char * key, bool val);
void gguf_set_val_str(struct gguf_context * ctx, const char * key, const char * val);

/* Sets a key to an array of n numbers or bools, which are copied. */
void gguf_set_arr_data(struct gguf_context * ctx, const char * key, enum gguf_type type, const void * data, size_t n);

/* Sets a key to an array of n strings, which are copied. */
void gguf_set_arr_str(struct gguf_context * ctx, const char * key, const char ** data, size_t n);

/* Sets all keys of src, in its order. */
void gguf_set_kv(struct gguf_context * ctx, const struct gguf_context * src);

/* Appends a tensor of ggml; its name must be new. Its data, or its backend's buffer, is read when the file is written. */
void gguf_add_tensor(struct gguf_context * ctx, const struct ggml_tensor * tensor);

/* Changes the type of a tensor; the following ones move, so that the data stays contiguous. */
void gguf_set_tensor_type(struct gguf_context * ctx, const char * name, enum ggml_type type);

/* Sets the location of a tensor's data: gguf_get_tensor_size bytes, read when the file is written. */
void gguf_set_tensor_data(struct gguf_context * ctx, const char * name, const void * data);

/* --- Writing --- */

/* Three ways to write the same file:
 *  - gguf_write_to_file(ctx, fname, false): everything at once;
 *  - gguf_write_to_file(ctx, fname, true), and the data appended by the program, each tensor padded to the alignment;
 *  - the data written after gguf_get_meta_size(ctx) bytes, which are filled in with gguf_get_meta_data at the end.
 * gguf_write_to_file renames the file when it is complete and on the disk. */
bool gguf_write_to_file_ptr(const struct gguf_context * ctx, FILE * file, bool only_meta);
bool gguf_write_to_file(const struct gguf_context * ctx, const char * fname, bool only_meta);

/* Size of header, key-values and tensor infos, including the padding after them. */
size_t gguf_get_meta_size(const struct gguf_context * ctx);
void gguf_get_meta_data(const struct gguf_context * ctx, void * data);

#ifdef __cplusplus
}
#endif

#endif
