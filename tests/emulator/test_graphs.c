/* Tests of capture and graphs. */
#include "tests/emulator/test_support.h"

#include <string.h>

void test_graphs(void)
{
    fixture f;
    simt_stream *a, *b;
    simt_event *fork, *join;
    simt_graph *graph;
    simt_graph_exec *exec;
    simt_ptr memory;
    int status;
    float values[16];
    set_up(&f, 1024);
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    OK(cuEventCreate(&fork, 2));
    OK(cuEventCreate(&join, 2));
    test_params params = { (const float *)(uintptr_t)f.in, (float *)(uintptr_t)f.out, NULL, 1000, 0 };
    simt_function *add = function(&f, "add_one");
    void *arguments[] = { &params };

    /* out = in + 1 in one stream, then in = out + 1 in another; replayed with what the memory then has. */
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, a, arguments, NULL));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(cuStreamIsCapturing(b, &status));
    REQUIRE(status == 1, "%d", status);
    params.in = (const float *)(uintptr_t)f.out;
    params.out = (float *)(uintptr_t)f.in;
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, b, arguments, NULL));
    OK(cuEventRecord(join, b));
    GIVES(cuEventQuery(join), SIMT_CAPTURED_EVENT);
    OK(cuStreamWaitEvent(a, join, 0));
    OK(cuStreamEndCapture(a, &graph));
    params.n = 0;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    const long long launches = simt_count("launches");
    for (int i = 0; i < 3; i++) OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(a));
    REQUIRE(simt_count("launches") == launches + 6, "%lld", simt_count("launches") - launches);
    OK(cuMemcpyDtoH_v2(values, f.in, sizeof values));
    REQUIRE(values[0] == 7 && values[15] == 22, "%g %g", (double)values[0], (double)values[15]);
    OK(cuMemsetD32_v2(f.in, 0, 16));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemcpyDtoH_v2(values, f.in, sizeof values));
    REQUIRE(values[0] == 2, "%g", (double)values[0]);
    OK(cuGraphExecDestroy(exec));

    /* What a capture does not allow. */
    OK(cuStreamBeginCapture_v2(a, 0));
    GIVES(cuMemAlloc_v2(&memory, 16), SIMT_STREAM_CAPTURE_UNSUPPORTED);
    GIVES(cuStreamEndCapture(a, &graph), SIMT_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture_v2(a, 2));
    OK(cuMemAlloc_v2(&memory, 16));
    GIVES(cuStreamSynchronize(a), SIMT_STREAM_CAPTURE_UNSUPPORTED);
    GIVES(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, a, arguments, NULL), SIMT_STREAM_CAPTURE_INVALIDATED);
    GIVES(cuStreamEndCapture(a, &graph), SIMT_STREAM_CAPTURE_INVALIDATED);
    GIVES(cuStreamEndCapture(a, &graph), SIMT_ILLEGAL_STATE);
    GIVES(cuStreamBeginCapture_v2(NULL, 0), SIMT_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture_v2(a, 1)); /* forked, and not joined */
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, b, arguments, NULL));
    GIVES(cuStreamEndCapture(a, &graph), SIMT_STREAM_CAPTURE_UNJOINED);
    OK(cuEventRecord(fork, b)); /* work outside of the capture */
    OK(cuStreamBeginCapture_v2(a, 1));
    GIVES(cuStreamWaitEvent(a, fork, 0), SIMT_STREAM_CAPTURE_ISOLATION);
    GIVES(cuStreamEndCapture(a, &graph), SIMT_STREAM_CAPTURE_INVALIDATED);
    OK(cuMemFree_v2(memory));
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
    OK(cuEventDestroy_v2(fork));
    OK(cuEventDestroy_v2(join));
    tear_down(&f);
}
