/* Preloaded before libgguf: counts calls of some functions of gguf.h, and prints at exit the number for each library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "gguf.h"

static struct traced {
    const char * name;
    void * target;
    long calls;
} all[16];

static void * next(const char * name) {
    for (int i = 0; i < 16; i++) {
        if (!all[i].name) {
            all[i].name = name;
            all[i].target = dlsym(RTLD_NEXT, name);
        }
        if (all[i].name == name) {
            all[i].calls++;
            return all[i].target;
        }
    }
    return NULL;
}

#define TRACE(ret, name, params, args)        \
    ret name params {                         \
        static const char called[] = #name;   \
        ret(*target) params;                  \
        *(void **) &target = next(called);    \
        return target args;                   \
    }

TRACE(struct gguf_context *, gguf_init_empty, (void), ())
TRACE(struct gguf_context *, gguf_init_from_file, (const char * f, struct gguf_init_params p), (f, p))
TRACE(int64_t, gguf_find_key, (const struct gguf_context * c, const char * k), (c, k))
TRACE(const char *, gguf_get_arr_str, (const struct gguf_context * c, int64_t id, size_t i), (c, id, i))
TRACE(const void *, gguf_get_arr_data, (const struct gguf_context * c, int64_t id), (c, id))
TRACE(size_t, gguf_get_tensor_offset, (const struct gguf_context * c, int64_t id), (c, id))
TRACE(void, gguf_set_kv, (struct gguf_context * c, const struct gguf_context * s), (c, s))
TRACE(void, gguf_add_tensor, (struct gguf_context * c, const struct ggml_tensor * t), (c, t))
TRACE(void, gguf_set_tensor_type, (struct gguf_context * c, const char * n, enum ggml_type t), (c, n, t))
TRACE(size_t, gguf_get_meta_size, (const struct gguf_context * c), (c))
TRACE(void, gguf_get_meta_data, (const struct gguf_context * c, void * d), (c, d))
TRACE(void, gguf_free, (struct gguf_context * c), (c))

__attribute__((destructor)) static void say(void) {
    for (int i = 0; i < 16 && all[i].name; i++) {
        Dl_info info = { 0 };
        dladdr(all[i].target, &info);
        fprintf(stderr, "trace: %s %ld %s\n", all[i].name, all[i].calls, info.dli_fname ? info.dli_fname : "?");
    }
}
