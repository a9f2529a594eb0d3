/* Shows the metadata and the tensors of a GGUF file: show FILE */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gguf.h"
#include "gguf_x.h"

static void print_value(const struct gguf_context * ctx, int64_t id) {
    switch (gguf_get_kv_type(ctx, id)) {
        case GGUF_TYPE_STRING: printf("%.60s", gguf_get_val_str(ctx, id)); break;
        case GGUF_TYPE_UINT32: printf("%" PRIu32, gguf_get_val_u32(ctx, id)); break;
        case GGUF_TYPE_FLOAT32: printf("%g", (double) gguf_get_val_f32(ctx, id)); break;
        case GGUF_TYPE_BOOL: printf("%s", gguf_get_val_bool(ctx, id) ? "true" : "false"); break;
        case GGUF_TYPE_ARRAY:
            printf("%zu x %s", gguf_get_arr_n(ctx, id), gguf_type_name(gguf_get_arr_type(ctx, id)));
            break;
        default: printf("(%s)", gguf_type_name(gguf_get_kv_type(ctx, id)));
    }
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: show FILE\n");
        return 2;
    }
    struct gguf_init_params params = { .no_alloc = true, .ctx = NULL };
    struct gguf_context * ctx = gguf_init_from_file(argv[1], params);
    if (!ctx) {
        /* The reason has been printed to stderr. */
        return gguf_x_last_error_offset() == UINT64_MAX ? 2 : 1;
    }
    for (int64_t id = 0; id < gguf_get_n_kv(ctx); id++) {
        printf("%s = ", gguf_get_key(ctx, id));
        print_value(ctx, id);
        printf("\n");
    }
    for (int64_t id = 0; id < gguf_get_n_tensors(ctx); id++) {
        const int64_t * ne = gguf_get_tensor_ne(ctx, id);
        printf("%s: %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 ", %zu bytes\n", gguf_get_tensor_name(ctx, id), ne[0],
               ne[1], ne[2], ne[3], gguf_get_tensor_size(ctx, id));
    }
    gguf_free(ctx);
    return 0;
}
