/* Bad maps, which only the device can detect: a kernel sets a word and skips the sequence or row; of
 * state_dst, checkpoints.dst and log.commit that store alone. See plan.h. */
#include "core/status.h"
#include "gpu/plan.h"

gdn_status gdn_gpu_take_bad_maps(uint32_t bad[GDN_BAD_WORDS], gdn_status status)
{
    static const char *const names[GDN_BAD_WORDS] = {
        [GDN_BAD_SEQ_START] = "seq_start",
        [GDN_BAD_STATE_SRC] = "state_src",
        [GDN_BAD_STATE_DST] = "state_dst",
        [GDN_BAD_POSITION] = "position",
        [GDN_BAD_HISTORY_SRC] = "history_src",
        [GDN_BAD_HISTORY_DST] = "history_dst",
        [GDN_BAD_INDEX] = "index",
        [GDN_BAD_CHECKPOINT] = "checkpoints.dst",
        [GDN_BAD_BASE_POSITION] = "log.base_position",
        [GDN_BAD_LOG_ROW] = "log.row",
        [GDN_BAD_COMMIT] = "log.commit",
        [GDN_BAD_PARENT] = "tree.parent",
    };
    for (int i = 0; i < GDN_BAD_WORDS; i++)
        if (__atomic_exchange_n(&bad[i], 0, __ATOMIC_ACQ_REL) && !status)
            status = gdn_fail(GDN_BAD_MAP, "the device found a value out of range in %s; what it named was skipped",
                              names[i]);
    return status;
}
