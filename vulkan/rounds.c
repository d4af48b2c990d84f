/* Estimates the loop iterations of an invocation. See device.h.
 *
 * llvmpipe (Mesa's CPU driver, for example 22.3) stops every loop of an invocation after 65,535 iterations in all loops
 * together. It reports no error, and results are wrong from there. Vulkan has no such bound. So on CPUs longer
 * sequences are refused.
 *
 * An iteration counts when the end of a loop's body is reached. The iteration that leaves a loop counts too: it runs
 * with all lanes off, and passes each loop in the body once in the same way. Unrolled loops do not count: loops over
 * blocks of keys count in GENERAL only. */
#include "vulkan/device.h"

typedef gdn_gated_delta_net_problem problem_t;

enum {
    ROUNDS = 65535,
    ONCE = 96, /* more than the iterations before the tokens, after them, and where loops are left */
    HELD = 64, /* ancestors that one traversal of a branch records (gated_delta_net_tree.glsl) */
};

int gdn_vulkan_ends_loops(const gdn_vulkan_device *dev) { return dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU; }

uint64_t gdn_vulkan_rounds(const gdn_vulkan_device *dev) { return gdn_vulkan_ends_loops(dev) ? ROUNDS - ONCE : 0; }

/* The cost of a loop over a head's blocks of keys, and of one that no lane enters. */
typedef struct blocks {
    int64_t n, loop, left;
} blocks;

static blocks blocks_of(const problem_t *p, int general)
{
    const int64_t n = ((int64_t)p->head_dim_k + 31) / 32;
    return general ? (blocks){ n, n + 1, 1 } : (blocks){ 0, 0, 0 };
}

/* Pipelines for 16-bit states contain the loops for a log, and the general ones those for a tree, even if the call has
 * neither. A loop that no lane enters counts, too. */
static int has_log(const problem_t *p) { return p->log.n_slots > 0 || p->state_interval; }

/* Replaying a log that has room for `entries` more tokens than the call's. */
static int64_t replay(const problem_t *p, const blocks *m, int64_t entries)
{
    return has_log(p) ? (entries > 0 ? entries : 0) * (1 + 2 * m->loop) + 1 + 2 * m->left : 0;
}

/* A token and what is kept after it, in the shader's order: load_token, normalise, make_decays, read_kv, update,
 * log_token, store_state. Pipelines with a log include the loops of normalise and log_token. Those for 16-bit states
 * begin with replay_log_entries, and if they are general with follow; both are empty for this token. */
static int64_t token(const problem_t *p, const blocks *m)
{
    const int log = has_log(p), channel = p->gate == GDN_GATE_CHANNEL;
    const int64_t repeat = p->state_interval ? replay(p, m, 0) : 0,
                  follow = p->state_interval && m->n && !p->tree ? 4 * m->left + repeat + 4 : 0;
    const int64_t kept = log || p->checkpoints.interval ? 2 * (1 + m->loop) + 1 + m->left : m->loop;
    const int64_t loops = 3 + 2 * channel + 2 * (log || gdn_gpu_has_forms(p)) + log;
    return 1 + loops * m->loop + kept + repeat + follow;
}

/* The worst case before token t of a tree: it replays a branch of all tokens before it, whose keys have a norm. */
static int64_t branch(const problem_t *p, const blocks *m, int64_t t)
{
    if (!p->tree) return 0;
    const int64_t n = t / HELD + 1, walks = n * (t + 4) - HELD * n * (n - 1) / 2;
    return 2 * (m->loop + m->left) + replay(p, m, p->log.n_slots - t - 1) + walks + 2 * t * m->n + 4;
}

/* The iterations besides those of tokens. With 16-bit states one more precedes the tokens. */
static int64_t once(const problem_t *p, const blocks *m)
{
    return ONCE + 8 * m->loop + replay(p, m, p->log.n_slots) + (p->state_interval ? token(p, m) : 0);
}

int32_t gdn_vulkan_most_tokens(const gdn_vulkan_device *dev, const problem_t *p, int general)
{
    if (!gdn_vulkan_ends_loops(dev)) return INT32_MAX;
    const blocks m = blocks_of(p, general);
    const int64_t each = token(p, &m) + (p->tree ? 1 : 0); /* of a tree, the check of its parent too */
    int64_t left = ROUNDS - once(p, &m);
    int32_t n = 0;
    if (left < 0) return -1;
    if (!p->tree) return (int32_t)(left / each);
    while ((left -= each + branch(p, &m, n)) >= 0) n++;
    return n;
}
