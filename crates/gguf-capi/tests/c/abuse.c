/* Invalid calls and invalid files: only the crashes documented in gguf.h occur. Run under sanitizers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gguf.h"
#include "gguf_x.h"

#define CHECK(what)                                                      \
    do {                                                                 \
        if (!(what)) {                                                   \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #what);            \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static const struct gguf_init_params NONE = { .no_alloc = true, .ctx = NULL };

/* --- null pointers and invalid ids --- */

static void nulls(void) {
    CHECK(!gguf_init_from_file(NULL, NONE));
    CHECK(!gguf_init_from_file("/nonexistent/file", NONE));
    CHECK(strstr(gguf_x_last_error(), "/nonexistent/file"));
    CHECK(!gguf_init_from_file("/", NONE));
    CHECK(!gguf_init_from_file_ptr(NULL, NONE));
    CHECK(!gguf_init_from_buffer(NULL, 5, NONE));
    CHECK(!gguf_init_from_buffer("GGUF", 0, NONE));
    CHECK(!gguf_init_from_buffer("GGUF", SIZE_MAX, NONE));
    CHECK(!gguf_init_from_callback(NULL, NULL, 0, 100, NONE));
    gguf_free(NULL);
    CHECK(!gguf_type_name((enum gguf_type) 13));
    CHECK(!gguf_type_name((enum gguf_type) 1000000));
    CHECK(!strcmp(gguf_type_name(GGUF_TYPE_STRING), "str"));

    CHECK(gguf_get_n_kv(NULL) == 0 && gguf_get_n_tensors(NULL) == 0 && gguf_get_version(NULL) == 0);
    CHECK(gguf_find_key(NULL, "a") == -1 && gguf_find_tensor(NULL, "a") == -1 && gguf_remove_key(NULL, "a") == -1);
    CHECK(!gguf_get_key(NULL, 0) && !gguf_get_val_str(NULL, 0) && gguf_get_val_u32(NULL, 0) == 0);
    CHECK(gguf_get_meta_size(NULL) == 0 && !gguf_write_to_file(NULL, "/tmp/x", true));
    gguf_get_meta_data(NULL, NULL);
    gguf_set_val_u8(NULL, "a", 1);
    gguf_set_kv(NULL, NULL);
    gguf_add_tensor(NULL, NULL);

    struct gguf_context * ctx = gguf_init_empty();
    gguf_set_val_u32(ctx, "a", 7);
    const int64_t ids[] = { -1, 1, INT64_MAX, INT64_MIN };
    for (int i = 0; i < 4; i++) {
        int64_t id = ids[i];
        CHECK(!gguf_get_key(ctx, id) && gguf_get_kv_type(ctx, id) == GGUF_TYPE_COUNT);
        CHECK(gguf_get_arr_type(ctx, id) == GGUF_TYPE_COUNT && gguf_get_arr_n(ctx, id) == 0);
        CHECK(!gguf_get_val_str(ctx, id) && !gguf_get_val_data(ctx, id) && !gguf_get_arr_data(ctx, id));
        CHECK(!gguf_get_arr_str(ctx, id, 0) && gguf_get_val_u8(ctx, id) == 0 && !gguf_get_val_bool(ctx, id));
        CHECK(gguf_get_val_i64(ctx, id) == 0 && gguf_get_val_f64(ctx, id) == 0);
        CHECK(!gguf_get_tensor_name(ctx, id) && !gguf_get_tensor_ne(ctx, id) && gguf_get_tensor_size(ctx, id) == 0);
        CHECK(gguf_get_tensor_offset(ctx, id) == 0 && gguf_get_tensor_type(ctx, id) == GGML_TYPE_COUNT);
    }
    CHECK(gguf_find_key(ctx, NULL) == -1 && gguf_find_tensor(ctx, NULL) == -1);
    gguf_free(ctx);

    CHECK(gguf_x_report_n(NULL) == 0 && !gguf_x_report_get(NULL, 0, NULL));
    gguf_x_report_free(NULL);
    gguf_x_model_free(NULL);
    CHECK(!gguf_x_model_open(NULL) && gguf_x_model_n_tensors(NULL) == 0 && !gguf_x_model_tensor_data(NULL, 0));
    CHECK(!gguf_x_check_file(NULL) && !gguf_x_check_buffer(NULL, 1) && !gguf_x_decode(GGML_TYPE_F32, NULL, 4, NULL, 1));
}

/* --- rejected changes, after each of which nothing is written --- */

static void refused(void (*change)(struct gguf_context *)) {
    struct gguf_context * ctx = gguf_init_empty();
    gguf_set_val_u32(ctx, "a", 7);
    CHECK(gguf_get_meta_size(ctx) > 0);
    change(ctx);
    CHECK(gguf_get_n_kv(ctx) == 1 && gguf_get_val_u32(ctx, 0) == 7);
    char untouched[4] = "abc";
    gguf_get_meta_data(ctx, untouched);
    CHECK(!strcmp(untouched, "abc") && gguf_get_meta_size(ctx) == 0);
    CHECK(!gguf_write_to_file(ctx, "/tmp/libgguf-refused", false));
    CHECK(strstr(gguf_x_last_error(), "refused"));
    gguf_free(ctx);
}

static void no_key(struct gguf_context * ctx) { gguf_set_val_u32(ctx, NULL, 1); }
static void empty_key(struct gguf_context * ctx) { gguf_set_val_f64(ctx, "", 1); }
static void no_string(struct gguf_context * ctx) { gguf_set_val_str(ctx, "b", NULL); }
static void no_strings(struct gguf_context * ctx) { gguf_set_arr_str(ctx, "b", NULL, 3); }
static void null_string(struct gguf_context * ctx) {
    const char * strings[] = { "x", NULL };
    gguf_set_arr_str(ctx, "b", strings, 2);
}
static void no_data(struct gguf_context * ctx) { gguf_set_arr_data(ctx, "b", GGUF_TYPE_UINT64, NULL, 3); }
static void huge(struct gguf_context * ctx) { gguf_set_arr_data(ctx, "b", GGUF_TYPE_UINT64, "x", SIZE_MAX / 4); }
static void of_strings(struct gguf_context * ctx) { gguf_set_arr_data(ctx, "b", GGUF_TYPE_STRING, "x", 1); }
static void of_arrays(struct gguf_context * ctx) { gguf_set_arr_data(ctx, "b", GGUF_TYPE_ARRAY, "x", 0); }
static void of_nothing(struct gguf_context * ctx) { gguf_set_arr_data(ctx, "b", (enum gguf_type) 99, "x", 1); }
static void odd_alignment(struct gguf_context * ctx) { gguf_set_val_u32(ctx, "general.alignment", 24); }
static void zero_alignment(struct gguf_context * ctx) { gguf_set_val_u32(ctx, "general.alignment", 0); }
static void wide_alignment(struct gguf_context * ctx) { gguf_set_val_u64(ctx, "general.alignment", 64); }
static void from_null(struct gguf_context * ctx) { gguf_set_kv(ctx, NULL); }
static void null_tensor(struct gguf_context * ctx) { gguf_add_tensor(ctx, NULL); }
static void no_tensor(struct gguf_context * ctx) { gguf_set_tensor_type(ctx, "t", GGML_TYPE_F16); }
static void no_tensor_data(struct gguf_context * ctx) { gguf_set_tensor_data(ctx, "t", "x"); }
static const int64_t NE[4] = { 32, 2, 1, 1 };
static void twice(struct gguf_context * ctx) {
    CHECK(gguf_x_add_tensor(ctx, "t", GGML_TYPE_F32, 2, NE, NULL));
    CHECK(!gguf_x_add_tensor(ctx, "t", GGML_TYPE_F32, 2, NE, NULL));
}
static void no_blocks(struct gguf_context * ctx) {
    CHECK(gguf_x_add_tensor(ctx, "t", GGML_TYPE_F32, 2, NE, NULL));
    gguf_set_tensor_type(ctx, "t", GGML_TYPE_Q4_K);
}
static void long_name(struct gguf_context * ctx) {
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    CHECK(!gguf_x_add_tensor(ctx, name, GGML_TYPE_F32, 2, NE, NULL));
}
static void five_dims(struct gguf_context * ctx) { CHECK(!gguf_x_add_tensor(ctx, "t", GGML_TYPE_F32, 5, NE, NULL)); }
static void negative(struct gguf_context * ctx) {
    const int64_t ne[] = { -4 };
    CHECK(!gguf_x_add_tensor(ctx, "t", GGML_TYPE_F32, 1, ne, NULL));
}
static void overflowing(struct gguf_context * ctx) {
    const int64_t ne[] = { INT64_MAX, INT64_MAX };
    CHECK(!gguf_x_add_tensor(ctx, "t", GGML_TYPE_I8, 2, ne, NULL));
}
static void unterminated(struct gguf_context * ctx) {
    /* As large as a struct ggml_tensor, with an unterminated name. */
    _Alignas(16) unsigned char tensor[336];
    memset(tensor, 'n', sizeof(tensor));
    gguf_add_tensor(ctx, (const struct ggml_tensor *) tensor);
}
static void removed_type(struct gguf_context * ctx) { CHECK(!gguf_x_add_tensor(ctx, "t", (enum ggml_type) 4, 2, NE, NULL)); }

/* --- aliases: arguments that point into the context --- */

static void aliases(void) {
    struct gguf_context * ctx = gguf_init_empty();
    gguf_set_val_str(ctx, "text", "some text that is long enough to be elsewhere");
    gguf_set_val_str(ctx, gguf_get_key(ctx, 0), gguf_get_val_str(ctx, 0));
    CHECK(!strcmp(gguf_get_val_str(ctx, 0), "some text that is long enough to be elsewhere"));
    gguf_set_val_u32(ctx, "general.alignment", 64);
    CHECK(gguf_get_alignment(ctx) == 64);
    CHECK(gguf_remove_key(ctx, gguf_get_key(ctx, 1)) == 1 && gguf_get_alignment(ctx) == 32);
    gguf_set_kv(ctx, ctx);
    CHECK(gguf_get_n_kv(ctx) == 1);
    double doubles[] = { 1, 2, 3 };
    gguf_set_arr_data(ctx, "d", GGUF_TYPE_FLOAT64, doubles, 3);
    gguf_set_arr_data(ctx, "d", GGUF_TYPE_FLOAT64, gguf_get_arr_data(ctx, 1), 3);
    CHECK(!memcmp(gguf_get_arr_data(ctx, 1), doubles, sizeof(doubles)));
    gguf_set_arr_data(ctx, "none", GGUF_TYPE_INT8, NULL, 0);
    CHECK(gguf_get_arr_n(ctx, 2) == 0 && !gguf_get_arr_data(ctx, 2));
    gguf_free(ctx);
}

/* --- strings and keys with multi-byte characters --- */

static void huge_strings(void) {
    const size_t n = 32u << 20;
    char * text = malloc(n + 1);
    memset(text, 'x', n);
    text[n] = 0;
    struct gguf_context * ctx = gguf_init_empty();
    gguf_set_val_str(ctx, "text", text);
    const char * all[] = { text, "", text };
    gguf_set_arr_str(ctx, "texts", all, 3);
    text[100000] = 0;
    gguf_set_val_bool(ctx, text, true);
    size_t size = gguf_get_meta_size(ctx);
    CHECK(size > 3 * n && gguf_find_key(ctx, text) == 2);
    void * bytes = malloc(size);
    gguf_get_meta_data(ctx, bytes);
    struct gguf_context * read = gguf_init_from_buffer(bytes, size, NONE);
    CHECK(read && strlen(gguf_get_val_str(read, 0)) == n && strlen(gguf_get_arr_str(read, 1, 2)) == n);
    CHECK(gguf_find_key(read, text) == 2 && gguf_get_val_bool(read, 2));
    gguf_free(read);
    gguf_free(ctx);
    free(bytes);
    free(text);
}

/* --- aborts documented in gguf.h --- */

static struct gguf_context * sample(void) {
    struct gguf_context * ctx = gguf_init_empty();
    uint16_t numbers[] = { 1, 2, 3, 4, 5 };
    const char * strings[] = { "one", "", "three" };
    gguf_set_val_u32(ctx, "number", 7);
    gguf_set_val_str(ctx, "string", "text");
    gguf_set_arr_data(ctx, "numbers", GGUF_TYPE_UINT16, numbers, 5);
    gguf_set_arr_str(ctx, "strings", strings, 3);
    gguf_set_val_bool(ctx, "bool", true);
    return ctx;
}

static void aborts(void (*call)(struct gguf_context *), const char * says) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        call(sample());
        _exit(0);
    }
    close(ends[1]);
    char said[4096];
    size_t len = 0;
    for (ssize_t n; len < sizeof(said) - 1 && (n = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0;) {
        len += (size_t) n;
    }
    said[len] = 0;
    close(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (!strstr(said, says)) {
        printf("said: %s\n", said);
        CHECK(!says);
    }
}

static void u8_of_u32(struct gguf_context * ctx) { gguf_get_val_u8(ctx, 0); }
static void str_of_u32(struct gguf_context * ctx) { gguf_get_val_str(ctx, 0); }
static void u16_of_array(struct gguf_context * ctx) { gguf_get_val_u16(ctx, 2); }
static void data_of_str(struct gguf_context * ctx) { gguf_get_val_data(ctx, 1); }
static void arr_data_of_strs(struct gguf_context * ctx) { gguf_get_arr_data(ctx, 3); }
static void arr_str_of_numbers(struct gguf_context * ctx) { gguf_get_arr_str(ctx, 2, 0); }
static void arr_type_of_number(struct gguf_context * ctx) { gguf_get_arr_type(ctx, 0); }
static void f32_of_bool(struct gguf_context * ctx) { gguf_get_val_f32(ctx, 4); }

/* --- files truncated at every byte, and changed at every byte --- */

static unsigned char * bytes_of(struct gguf_context * ctx, size_t * size) {
    *size = gguf_get_meta_size(ctx);
    unsigned char * bytes = malloc(*size);
    gguf_get_meta_data(ctx, bytes);
    return bytes;
}

static void look(const struct gguf_context * ctx) {
    size_t sum = 0;
    for (int64_t id = 0; id < gguf_get_n_kv(ctx); id++) {
        sum += strlen(gguf_get_key(ctx, id));
        bool is_array = gguf_get_kv_type(ctx, id) == GGUF_TYPE_ARRAY;
        enum gguf_type type = is_array ? gguf_get_arr_type(ctx, id) : gguf_get_kv_type(ctx, id);
        size_t n = gguf_get_arr_n(ctx, id);
        if (type == GGUF_TYPE_STRING) {
            for (size_t i = 0; i < n; i++) {
                sum += strlen(gguf_get_arr_str(ctx, id, i));
            }
            CHECK(!gguf_get_arr_str(ctx, id, n) && !gguf_get_arr_str(ctx, id, SIZE_MAX));
        } else if (n > 0) {
            static const size_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
            const unsigned char * data = gguf_get_arr_data(ctx, id);
            CHECK((uintptr_t) data % 8 == 0);
            for (size_t i = 0; i < n * sizes[type]; i++) {
                sum += data[i];
            }
        }
    }
    for (int64_t id = 0; id < gguf_get_n_tensors(ctx); id++) {
        sum += strlen(gguf_get_tensor_name(ctx, id)) + gguf_get_tensor_size(ctx, id);
    }
    CHECK(sum + 1 > 0);
}

static void broken(void) {
    struct gguf_context * ctx = sample();
    CHECK(gguf_x_add_tensor(ctx, "t.0", GGML_TYPE_F32, 2, NE, NULL));
    CHECK(gguf_x_add_tensor(ctx, "t.1", GGML_TYPE_Q8_0, 2, NE, NULL));
    size_t size;
    unsigned char * bytes = bytes_of(ctx, &size);
    gguf_free(ctx);
    for (size_t cut = 0; cut < size; cut++) {
        /* Memory of exactly this size, so that an overrun is detected. */
        unsigned char * part = malloc(cut ? cut : 1);
        memcpy(part, bytes, cut);
        struct gguf_context * got = gguf_init_from_buffer(part, cut, NONE);
        CHECK(!got);
        struct gguf_x_report * report = gguf_x_check_buffer(part, cut);
        CHECK(gguf_x_report_n(report) > 0);
        gguf_x_report_free(report);
        free(part);
    }
    static const unsigned char values[] = { 0, 1, 9, 0x7f, 0x80, 0xff };
    for (size_t at = 0; at < size; at++) {
        for (size_t v = 0; v < sizeof(values); v++) {
            unsigned char was = bytes[at];
            bytes[at] = values[v];
            struct gguf_context * got = gguf_init_from_buffer(bytes, size, NONE);
            if (got) {
                look(got);
                /* An alignment of 2 GB is valid. */
                if (gguf_get_alignment(got) <= 65536) {
                    size_t n;
                    free(bytes_of(got, &n));
                }
                gguf_free(got);
            }
            gguf_x_report_free(gguf_x_check_buffer(bytes, size));
            bytes[at] = was;
        }
    }
    free(bytes);
}

/* --- callbacks that return wrong values or fail --- */

struct source {
    const unsigned char * bytes;
    size_t size;
    size_t calls, fail_at, lie;
    size_t largest;
};

static size_t callback(void * userdata, void * output, uint64_t offset, size_t len) {
    struct source * s = userdata;
    CHECK(len > 0);
    s->largest = len > s->largest ? len : s->largest;
    if (++s->calls == s->fail_at) {
        return s->lie;
    }
    /* Returns nothing if it cannot return everything: no byte too many may be requested. */
    if (offset > s->size || len > s->size - offset) {
        return 0;
    }
    memcpy(output, s->bytes + offset, len);
    return len;
}

static void callbacks(void) {
    struct gguf_context * ctx = sample();
    size_t size;
    unsigned char * bytes = bytes_of(ctx, &size);
    gguf_free(ctx);
    const uint64_t expected[] = { size, 4ull << 30, UINT64_MAX };
    const size_t chunks[] = { 0, 1, 7, 4096 };
    for (int e = 0; e < 3; e++) {
        for (int c = 0; c < 4; c++) {
            struct source s = { .bytes = bytes, .size = size };
            ctx = gguf_init_from_callback(callback, &s, chunks[c], expected[e], NONE);
            CHECK(ctx && gguf_get_n_kv(ctx) == 5 && (chunks[c] == 0 || s.largest <= chunks[c]));
            look(ctx);
            gguf_free(ctx);
            const size_t lies[] = { 0, 1, 1000000, SIZE_MAX };
            for (size_t fail = 1; fail < s.calls; fail += 3) {
                for (int l = 0; l < 4; l++) {
                    struct source bad = { .bytes = bytes, .size = size, .fail_at = fail, .lie = lies[l] };
                    ctx = gguf_init_from_callback(callback, &bad, chunks[c], expected[e], NONE);
                    /* One byte was requested and read: a valid result. */
                    CHECK(!ctx || lies[l] == 1);
                    gguf_free(ctx);
                }
            }
        }
    }
    struct source s = { .bytes = bytes, .size = size };
    CHECK(!gguf_init_from_callback(callback, &s, 0, size - 40, NONE));
    CHECK(!gguf_init_from_callback(callback, &s, 0, 0, NONE));
    free(bytes);
}

/* --- without ggml --- */

static void without_ggml(const char * folder) {
    struct ggml_context * made = NULL;
    struct gguf_init_params params = { .no_alloc = true, .ctx = &made };
    struct gguf_context * ctx = sample();
    size_t size;
    unsigned char * bytes = bytes_of(ctx, &size);
    CHECK(!gguf_init_from_buffer(bytes, size, params) && !made);
    CHECK(strstr(gguf_x_last_error(), "ggml"));
    free(bytes);

    /* All three ways to write give the same file; a part of a larger file is read, and the position is after the head. */
    float data[64];
    for (int i = 0; i < 64; i++) {
        data[i] = (float) i;
    }
    char path[3][512], got[3][4096];
    size_t len[3];
    CHECK(!gguf_write_to_file(ctx, "/nonexistent/file", false));
    CHECK(gguf_x_add_tensor(ctx, "t", GGML_TYPE_F32, 2, NE, NULL));
    snprintf(path[0], sizeof(path[0]), "%s/whole", folder);
    CHECK(!gguf_write_to_file(ctx, path[0], false) && access(path[0], F_OK) != 0);
    gguf_set_tensor_data(ctx, "t", data);
    CHECK(gguf_write_to_file(ctx, path[0], false));
    snprintf(path[1], sizeof(path[1]), "%s/head-first", folder);
    CHECK(gguf_write_to_file(ctx, path[1], true));
    FILE * f = fopen(path[1], "ab");
    fwrite(data, 1, sizeof(data), f);
    fclose(f);
    snprintf(path[2], sizeof(path[2]), "%s/embedded", folder);
    f = fopen(path[2], "w+b");
    fputs("1234567", f);
    CHECK(gguf_write_to_file_ptr(ctx, f, false));
    fseek(f, 7, SEEK_SET);
    struct gguf_context * part = gguf_init_from_file_ptr(f, NONE);
    CHECK(part && gguf_get_data_offset(part) == 7 + gguf_get_meta_size(part));
    CHECK(ftell(f) > 7 && (size_t) ftell(f) <= gguf_get_data_offset(part));
    gguf_free(part);
    fclose(f);
    for (int i = 0; i < 3; i++) {
        f = fopen(path[i], "rb");
        fseek(f, i == 2 ? 7 : 0, SEEK_SET);
        len[i] = fread(got[i], 1, sizeof(got[i]), f);
        fclose(f);
        CHECK(len[i] == len[0] && !memcmp(got[i], got[0], len[0]));
    }
    f = fopen("/dev/full", "wb");
    if (f) {
        setvbuf(f, NULL, _IONBF, 0);
        CHECK(!gguf_write_to_file_ptr(ctx, f, false));
        fclose(f);
        CHECK(!gguf_write_to_file(ctx, "/dev/full", false));
        CHECK(gguf_write_to_file(ctx, "/dev/null", false));
    }
    CHECK(!gguf_write_to_file_ptr(ctx, NULL, false));
    gguf_free(ctx);

    /* The same file as a model. */
    struct gguf_x_model * model = gguf_x_model_open(path[0]);
    CHECK(model && gguf_x_model_n_files(model) == 1 && gguf_x_model_n_tensors(model) == 1);
    CHECK(gguf_x_model_find_tensor(model, "t") == 0 && gguf_x_model_find_tensor(model, "u") == -1);
    CHECK(!strcmp(gguf_x_model_path(model, 0), path[0]) && !gguf_x_model_path(model, 1));
    CHECK(gguf_get_n_kv(gguf_x_model_context(model, 0)) == 5 && !gguf_x_model_context(model, 1));
    struct gguf_x_tensor t;
    CHECK(gguf_x_model_tensor(model, 0, &t) && !strcmp(t.name, "t") && t.size == 256 && t.n_dims == 2 && t.ne[1] == 2);
    CHECK(!gguf_x_model_tensor(model, 1, &t) && !gguf_x_model_tensor(model, -1, &t) && !gguf_x_model_tensor(model, 0, NULL));
    CHECK(!memcmp(gguf_x_model_tensor_data(model, 0), data, sizeof(data)));
    float floats[64];
    CHECK(gguf_x_model_tensor_f32(model, 0, 60, 4, floats) && floats[3] == 63);
    CHECK(!gguf_x_model_tensor_f32(model, 0, 61, 4, floats) && !gguf_x_model_tensor_f32(model, 0, UINT64_MAX, 4, floats));
    CHECK(!gguf_x_model_tensor_f32(model, 0, 0, 4, NULL));
    gguf_x_model_free(model);
    CHECK(gguf_x_can_decode(GGML_TYPE_F32) && !gguf_x_can_decode((enum ggml_type) 99));
    CHECK(gguf_x_decode(GGML_TYPE_F32, data, 8, floats, 2) && !gguf_x_decode(GGML_TYPE_F32, data, 8, floats, 3));
    struct gguf_x_report * report = gguf_x_check_file(path[0]);
    struct gguf_x_finding finding;
    CHECK(report && gguf_x_report_n(report) > 0 && gguf_x_report_get(report, 0, &finding) && finding.code);
    CHECK(!gguf_x_report_get(report, gguf_x_report_n(report), &finding));
    gguf_x_report_free(report);
    for (int i = 0; i < 3; i++) {
        remove(path[i]);
    }
}

/* --- one context, many readers --- */

static void * reader(void * ctx) {
    for (int i = 0; i < 200; i++) {
        look(ctx);
        CHECK(gguf_get_key(ctx, -1) == NULL && strstr(gguf_x_last_error(), "-1"));
    }
    return NULL;
}

static void threads(void) {
    struct gguf_context * built = sample();
    size_t size;
    unsigned char * bytes = bytes_of(built, &size);
    gguf_free(built);
    struct gguf_context * ctx = gguf_init_from_buffer(bytes, size, NONE);
    pthread_t all[8];
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&all[i], NULL, reader, ctx) == 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_join(all[i], NULL) == 0);
    }
    gguf_free(ctx);
    free(bytes);
}

int main(int argc, char ** argv) {
    nulls();
    void (*changes[])(struct gguf_context *) = { no_key, empty_key, no_string, no_strings, null_string, no_data, huge, of_strings,
        of_arrays, of_nothing, odd_alignment, zero_alignment, wide_alignment, from_null, null_tensor, no_tensor, no_tensor_data,
        twice, no_blocks, long_name, five_dims, negative, overflowing, removed_type,
        unterminated };
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        refused(changes[i]);
    }
    aliases();
    huge_strings();
    aborts(u8_of_u32, "gguf_get_val_u8: the key number is u32, not u8");
    aborts(str_of_u32, "the key number is u32, not str");
    aborts(u16_of_array, "the key numbers is an array of 5 u16, not u16");
    aborts(data_of_str, "the key string is str, not");
    aborts(arr_data_of_strs, "the key strings is an array of 3 str, not");
    aborts(arr_str_of_numbers, "the key numbers is an array of 5 u16, not");
    aborts(arr_type_of_number, "the key number is u32, not an array");
    aborts(f32_of_bool, "the key bool is bool, not f32");
    broken();
    callbacks();
    without_ggml(argc > 1 ? argv[1] : "/tmp");
    threads();
    printf("all good\n");
    return 0;
}
