/* cuda_stream.c - decoding on the program's CUDA stream. It captures a step in a CUDA graph once and replays it for
 * every token, with new inputs each time and no waits in between.
 *
 * The program opens the driver interface at run time, so that it builds without CUDA. A program with cuda.h or the CUDA
 * runtime passes its CUstream or cudaStream_t in the same way. Results are compared with the CPU's, bit for bit. Exit
 * status: 0 = the same bits, 77 = no CUDA device. */
#include "example.h"

#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions of cuda.h that this program needs; CUresult is an int, 0 = success; handles are pointers. */
#define DRIVER(X)                                                                                                      \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                          \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                                      \
    X(cuCtxSetCurrent, (void *context))                                                                                \
    X(cuStreamCreate, (void **stream, unsigned flags))                                                                 \
    X(cuStreamDestroy_v2, (void *stream))                                                                              \
    X(cuStreamBeginCapture_v2, (void *stream, int mode))                                                               \
    X(cuStreamEndCapture, (void *stream, void **graph))                                                                \
    X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long))                                     \
    X(cuGraphLaunch, (void *exec, void *stream))                                                                       \
    X(cuGraphDestroy, (void *graph))                                                                                   \
    X(cuGraphExecDestroy, (void *exec))                                                                                \
    X(cuMemcpyHtoDAsync_v2, (unsigned long long to, const void *from, size_t bytes, void *stream))                     \
    X(cuMemcpyDtoHAsync_v2, (void *to, unsigned long long from, size_t bytes, void *stream))
#define X(name, arguments) static int(*name) arguments;
DRIVER(X)
#undef X

enum { NON_BLOCKING = 1, CAPTURE_THREAD_LOCAL = 1 };
enum { SEQS = 2, STEPS = 6, HEADS = 2, DIM = 32, STATE = SEQS * HEADS * DIM * DIM };

/* Inputs of a step: a token of each sequence, and the map of their states. */
typedef struct inputs {
    float q[SEQS][HEADS][DIM], k[SEQS][HEADS][DIM], v[SEQS][HEADS][DIM], g[SEQS][HEADS], beta[SEQS][HEADS];
    int32_t state_src[SEQS];
} inputs;
typedef float outputs[SEQS][HEADS][DIM];

static void cuda(int result, const char *what)
{
    if (result == 0) return;
    fprintf(stderr, "%s: CUDA error %d\n", what, result);
    exit(1);
}

static int open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 0;
#define X(name, arguments)                                                                                             \
    if (!(*(void **)&name = dlsym(library, #name))) return 0;
    DRIVER(X)
#undef X
    return cuInit(0) == 0;
}

static gdn_gated_delta_net_args arguments(void)
{
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = a.n_tokens = a.state.n_rows = SEQS;
    a.n_heads_k = a.n_heads_v = HEADS;
    a.head_dim_k = a.head_dim_v = DIM;
    a.scale = 1 / sqrtf(DIM);
    return a;
}

/* Sets the operands of arguments(); `in` is an address of the device that runs the call. */
static void set_operands(gdn_gated_delta_net_args *a, char *in, void *out, void *state)
{
    a->q.data = in + offsetof(inputs, q);
    a->k.data = in + offsetof(inputs, k);
    a->v.data = in + offsetof(inputs, v);
    a->g.data = in + offsetof(inputs, g);
    a->beta.data = in + offsetof(inputs, beta);
    a->state_src.data = in + offsetof(inputs, state_src);
    a->out.data = out;
    a->state.data = state;
}

static void make_inputs(inputs *in, int step)
{
    for (int s = 0; s < SEQS; s++) {
        for (int h = 0; h < HEADS; h++) {
            for (int i = 0; i < DIM; i++) {
                in->q[s][h][i] = next_number();
                in->k[s][h][i] = 0.2f * next_number();
                in->v[s][h][i] = next_number();
            }
            in->g[s][h] = 0.05f * (next_number() - 1.0f);
            in->beta[s][h] = 0.5f + 0.5f * next_number();
        }
        in->state_src[s] = step ? s : GDN_NONE; /* the first step starts from zero: a replay reads the map again */
    }
}

int main(void)
{
    static inputs in[STEPS];
    static outputs out[2][STEPS];
    static float state[2][STATE];
    void *primary, *stream, *graph, *exec;
    if (!open_driver()) return fputs("no CUDA driver here\n", stderr), 77;

    /* libgdn uses the device's primary context by default, like the CUDA runtime and PyTorch. */
    gdn_context *gpu = NULL, *cpu = NULL;
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    must(gdn_context_create(&desc, &cpu), "gdn_context_create, CPU");
    desc.backend = GDN_BACKEND_CUDA;
    const gdn_status status = gdn_context_create(&desc, &gpu);
    if (status == GDN_UNAVAILABLE || status == GDN_NOT_FOUND) return fprintf(stderr, "%s\n", gdn_last_error()), 77;
    must(status, "gdn_context_create, CUDA");
    cuda(cuDevicePrimaryCtxRetain(&primary, 0), "cuDevicePrimaryCtxRetain");
    cuda(cuCtxSetCurrent(primary), "cuCtxSetCurrent");
    cuda(cuStreamCreate(&stream, NON_BLOCKING), "cuStreamCreate");

    /* Device memory; memory of cudaMalloc works too. A call allocates nothing, so it can be captured. */
    gdn_span d_in = { 0 }, d_out = { 0 }, d_state = { 0 };
    gdn_gated_delta_net_args a = arguments();
    gdn_capability can = GDN_INIT(gdn_capability);
    must(gdn_buffer_create(gpu, sizeof in[0], &d_in), "gdn_buffer_create");
    must(gdn_buffer_create(gpu, sizeof out[0][0], &d_out), "gdn_buffer_create");
    must(gdn_buffer_create(gpu, sizeof state[0], &d_state), "gdn_buffer_create");
    set_operands(&a, d_in.data, d_out.data, d_state.data);
    must(gdn_gated_delta_net_query(gpu, &a, &can), "gdn_gated_delta_net_query");
    if (can.workspace_bytes) must(gdn_buffer_create(gpu, can.workspace_bytes, &a.workspace), "gdn_buffer_create");

    /* Capture one step, which becomes kernel nodes only. Nothing runs yet. */
    cuda(cuStreamBeginCapture_v2(stream, CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
    must(gdn_gated_delta_net(gpu, &a, stream), "gdn_gated_delta_net, captured");
    cuda(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    cuda(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    cuda(cuGraphDestroy(graph), "cuGraphDestroy");

    /* Replay it. The stream orders copies and replays; the host waits once, at the end. */
    for (int t = 0; t < STEPS; t++) {
        make_inputs(&in[t], t);
        cuda(cuMemcpyHtoDAsync_v2((uintptr_t)d_in.data, &in[t], sizeof in[t], stream), "cuMemcpyHtoDAsync");
        cuda(cuGraphLaunch(exec, stream), "cuGraphLaunch");
        cuda(cuMemcpyDtoHAsync_v2(out[0][t], (uintptr_t)d_out.data, sizeof out[0][t], stream), "cuMemcpyDtoHAsync");
    }
    must(gdn_synchronize(gpu, stream), "gdn_synchronize"); /* also reports bad map values, which only the device sees */
    must(gdn_buffer_read(gpu, &d_state, 0, state[0], sizeof state[0]), "gdn_buffer_read");

    /* The same on the CPU. */
    gdn_gated_delta_net_args b = arguments();
    must(gdn_gated_delta_net_query(cpu, &b, &can), "gdn_gated_delta_net_query");
    if (can.workspace_bytes) must(gdn_buffer_create(cpu, can.workspace_bytes, &b.workspace), "gdn_buffer_create");
    for (int t = 0; t < STEPS; t++) {
        set_operands(&b, (char *)&in[t], out[1][t], state[1]);
        must(gdn_gated_delta_net(cpu, &b, NULL), "gdn_gated_delta_net, CPU");
    }
    const int bad = memcmp(out[0], out[1], sizeof out[0]) || memcmp(state[0], state[1], sizeof state[0]);
    printf("%d replays of one captured step: %s\n", STEPS, bad ? "OTHER BITS than the CPU's" : "the CPU's bits");

    gdn_buffer_destroy(cpu, &b.workspace);
    gdn_buffer_destroy(gpu, &a.workspace);
    gdn_buffer_destroy(gpu, &d_in);
    gdn_buffer_destroy(gpu, &d_out);
    gdn_buffer_destroy(gpu, &d_state);
    cuda(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    cuda(cuStreamDestroy_v2(stream), "cuStreamDestroy");
    gdn_context_destroy(gpu);
    gdn_context_destroy(cpu);
    cuda(cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease");
    return bad;
}
