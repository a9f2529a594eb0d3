/* Says everything that is wrong with a GGUF file: check FILE */
#include <inttypes.h>
#include <stdio.h>

#include "gguf_x.h"

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: check FILE\n");
        return 2;
    }
    struct gguf_x_report * report = gguf_x_check_file(argv[1]);
    if (!report) {
        fprintf(stderr, "%s\n", gguf_x_last_error());
        return 2;
    }
    static const char * const severities[] = { "note", "warning", "error" };
    int bad = 0;
    for (size_t i = 0; i < gguf_x_report_n(report); i++) {
        struct gguf_x_finding f;
        if (!gguf_x_report_get(report, i, &f)) {
            break;
        }
        bad |= f.severity == GGUF_X_ERROR;
        printf("%s %s: %s: %s", severities[f.severity], f.code, f.place, f.message);
        if (f.offset != UINT64_MAX) {
            printf(" (byte %" PRIu64 ")", f.offset);
        }
        printf("\n  hint: %s\n", f.hint);
    }
    gguf_x_report_free(report);
    return bad;
}
