/* Sleeping where the system has no wait for a word; see system.h. */
#include "system/system.h"

void gdn_sleepers_init(gdn_sleepers *sleepers)
{
    gdn_mutex_init(&sleepers->lock);
    gdn_condition_init(&sleepers->changed);
}

void gdn_sleepers_destroy(gdn_sleepers *sleepers)
{
    gdn_condition_destroy(&sleepers->changed);
    gdn_mutex_destroy(&sleepers->lock);
}

void gdn_sleep_on(gdn_sleepers *sleepers, _Atomic uint32_t *word, uint32_t seen)
{
    gdn_mutex_lock(&sleepers->lock);
    while (atomic_load(word) == seen) gdn_condition_wait(&sleepers->changed, &sleepers->lock);
    gdn_mutex_unlock(&sleepers->lock);
}

/* All words have the same condition, so one signal might wake the wrong thread. */
void gdn_wake(gdn_sleepers *sleepers, _Atomic uint32_t *word, int32_t n)
{
    (void)word, (void)n;
    gdn_mutex_lock(&sleepers->lock);
    gdn_condition_broadcast(&sleepers->changed);
    gdn_mutex_unlock(&sleepers->lock);
}
