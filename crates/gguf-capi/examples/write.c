/* Writes a small GGUF file without ggml: write FILE */
#include <stdio.h>

#include "gguf.h"
#include "gguf_x.h"

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: write FILE\n");
        return 2;
    }
    float weights[3][4] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } };
    const int64_t ne[] = { 4, 3 };
    const char * tags[] = { "example", "c" };

    struct gguf_context * ctx = gguf_init_empty();
    gguf_set_val_str(ctx, "general.architecture", "example");
    gguf_set_val_u32(ctx, "general.alignment", 64);
    gguf_set_arr_str(ctx, "general.tags", tags, 2);
    bool ok = gguf_x_add_tensor(ctx, "weights", GGML_TYPE_F32, 2, ne, weights);
    ok = ok && gguf_write_to_file(ctx, argv[1], false);
    gguf_free(ctx);
    if (!ok) {
        fprintf(stderr, "%s\n", gguf_x_last_error());
        return 1;
    }
    return 0;
}
