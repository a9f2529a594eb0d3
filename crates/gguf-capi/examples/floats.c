/* Opens a model from any of its files and prints the mean of each tensor that can be decoded: floats FILE */
#include <inttypes.h>
#include <stdio.h>

#include "gguf_x.h"

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: floats FILE\n");
        return 2;
    }
    struct gguf_x_model * model = gguf_x_model_open(argv[1]);
    if (!model) {
        fprintf(stderr, "%s\n", gguf_x_last_error());
        return 1;
    }
    for (int64_t i = 0; i < gguf_x_model_n_tensors(model); i++) {
        struct gguf_x_tensor t;
        if (!gguf_x_model_tensor(model, i, &t)) {
            fprintf(stderr, "%s\n", gguf_x_last_error());
            continue;
        }
        if (!gguf_x_can_decode(t.type)) {
            printf("%s: type %d\n", t.name, (int) t.type);
            continue;
        }
        /* Pieces of a size that is a whole number of blocks of every type. */
        float piece[4096];
        uint64_t n = (uint64_t) t.ne[0] * (uint64_t) t.ne[1] * (uint64_t) t.ne[2] * (uint64_t) t.ne[3];
        double sum = 0;
        for (uint64_t first = 0; first < n; first += 4096) {
            uint64_t len = n - first < 4096 ? n - first : 4096;
            if (!gguf_x_model_tensor_f32(model, i, first, len, piece)) {
                fprintf(stderr, "%s\n", gguf_x_last_error());
                gguf_x_model_free(model);
                return 1;
            }
            for (uint64_t j = 0; j < len; j++) {
                sum += piece[j];
            }
        }
        printf("%s: %" PRIu64 " values, mean %g, in %s\n", t.name, n, n ? sum / (double) n : 0.0, gguf_x_model_path(model, t.file));
    }
    gguf_x_model_free(model);
    return 0;
}
