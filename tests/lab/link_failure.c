/* Allreduces in a loop for so many seconds, every sum checked on every rank; says when plans begin
 * to leave a link out, and how it ended. Built by tests/lab/link_failure against the public headers.
 *
 *   link_failure SECONDS ELEMENTS
 *
 * Lines, each with the time in ms since 1970: "started", "left out: U0-L1", "finished after N",
 * "failed: CODE, TEXT". Exit status: 0 good, 3 the library returned an error, 4 wrong data. */
#define _POSIX_C_SOURCE 200809L
#include <eflops/allreduce.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long long unix_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int failed(const char* what) {
    printf("%lld failed: %s: %s\n", unix_ms(), what, ef_last_error());
    return 3;
}

/* What the plan for this size leaves out: the line of ef_comm_explain, or an empty text. */
static const char* left_out(ef_comm_t comm, size_t count) {
    static char text[65536];
    char* line;
    if (ef_comm_explain(comm, EF_ALLREDUCE, count, EF_INT32, 0, text, sizeof text, NULL) != EF_OK)
        return "no explanation";
    line = strstr(text, "left out: ");
    if (!line) return "";
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* Every rank adds (i + rank + operation); the first element counts who wants to stop. */
static int operate(ef_comm_t comm, int rank, int n, int32_t operation, size_t count, int32_t* in,
                   int32_t* out, int stop) {
    size_t i;
    for (i = 1; i < count; ++i) in[i] = (int32_t)(i % 1000) + rank + operation;
    in[0] = stop;
    memset(out, 0xff, count * sizeof *out);
    if (ef_allreduce(in, out, count, EF_INT32, EF_SUM, comm) != EF_OK)
        return failed("ef_allreduce");
    for (i = 1; i < count; ++i) {
        const int32_t wanted = ((int32_t)(i % 1000) + operation) * n + n * (n - 1) / 2;
        if (out[i] == wanted) continue;
        printf("%lld wrong: operation %d, element %zu is %d, not %d\n", unix_ms(), operation, i,
               out[i], wanted);
        return 4;
    }
    return 0;
}

static int loop(ef_comm_t comm, long long seconds, size_t count, int32_t* in, int32_t* out) {
    static char before[4096];
    const long long end = unix_ms() + seconds * 1000;
    int rank, n, rc;
    int32_t operation = 0;
    ef_comm_rank(comm, &rank);
    ef_comm_size(comm, &n);
    do {
        rc = operate(comm, rank, n, operation++, count, in, out, unix_ms() >= end);
        if (rc) return rc;
        if (operation == 1) printf("%lld started\n", unix_ms());
        if (strncmp(before, left_out(comm, count), sizeof before - 1) != 0) {
            strncpy(before, left_out(comm, count), sizeof before - 1);
            printf("%lld %s\n", unix_ms(), before);
        }
    } while (out[0] == 0);
    printf("%lld finished after %d\n", unix_ms(), operation);
    return 0;
}

int main(int argc, char** argv) {
    ef_comm_t comm;
    int32_t *in, *out;
    size_t count;
    int rc;
    if (argc != 3) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    count = (size_t)atoll(argv[2]);
    in = malloc(count * sizeof *in);
    out = malloc(count * sizeof *out);
    if (!in || !out || count < 2) return 2;
    if (ef_comm_create(EF_FROM_LAUNCHER, EF_FROM_LAUNCHER, NULL, &comm) != EF_OK)
        return failed("ef_comm_create");
    rc = loop(comm, atoll(argv[1]), count, in, out);
    if (ef_comm_destroy(comm) != EF_OK && rc == 0) rc = failed("ef_comm_destroy");
    free(in);
    free(out);
    return rc;
}
