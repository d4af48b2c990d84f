/* system/: threads that wait for each other, the team on them, pages, files, libraries. What is lost here is a thread
 * that waits for ever, which ctest ends. */
#include "system/system.h"

#include <errno.h>

#include "system/files.h"
#include "system/machine.h"
#include "system/replace.h"
#include "tests/harness.h"
#include "threads/team.h"

/* ---- Threads ---- */

enum { ROUNDS = 20000, COUNTERS = 4 };

static gdn_mutex mutex = GDN_MUTEX_INIT;
static gdn_condition condition;
static gdn_sleepers sleepers;
static int32_t count, turn;
static _Atomic uint32_t word[2];

static void *add(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        gdn_mutex_lock(&mutex);
        count += *(int *)arg;
        gdn_mutex_unlock(&mutex);
    }
    return NULL;
}

static void locks(void)
{
    gdn_thread thread[COUNTERS];
    int one = 1;
    for (int i = 0; i < COUNTERS; i++) NEED(gdn_thread_start(&thread[i], i % 2 ? 256 << 10 : 0, add, &one));
    for (int i = 0; i < COUNTERS; i++) gdn_thread_join(thread[i]);
    REQUIRE(count == COUNTERS * ROUNDS, "%d", (int)count);
}

/* Two threads take turns; each sleeps until the other has ended its turn. */
static void take_turns(int32_t mine)
{
    for (int i = 0; i < ROUNDS; i++) {
        gdn_mutex_lock(&mutex);
        while (turn != mine) gdn_condition_wait(&condition, &mutex);
        turn = !mine;
        gdn_condition_signal(&condition);
        gdn_mutex_unlock(&mutex);
    }
}

static void *other_turns(void *arg)
{
    (void)arg;
    take_turns(1);
    return NULL;
}

static void conditions(void)
{
    gdn_thread other;
    gdn_condition_init(&condition);
    gdn_mutex_lock(&mutex);
    const int64_t begin = gdn_now();
    REQUIRE(!gdn_condition_wait_for(&condition, &mutex, 0.05));
    REQUIRE(gdn_now() - begin > 40000000);
    gdn_mutex_unlock(&mutex);
    NEED(gdn_thread_start(&other, 0, other_turns, NULL));
    take_turns(0);
    gdn_thread_join(other);
    gdn_condition_destroy(&condition);
}

/* The same by words: `mine` is rung by the other thread, and the answer rings the other's. */
static void ring(int mine)
{
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (!mine) {
            atomic_store(&word[1], i);
            gdn_wake(&sleepers, &word[1], 1);
        }
        for (uint32_t seen; (seen = atomic_load(&word[mine])) != i;) gdn_sleep_on(&sleepers, &word[mine], seen);
        if (mine) {
            atomic_store(&word[0], i);
            gdn_wake(&sleepers, &word[0], 1);
        }
    }
}

static void *answer(void *arg)
{
    (void)arg;
    ring(1);
    return NULL;
}

static void words(void)
{
    gdn_thread other;
    gdn_sleepers_init(&sleepers);
    NEED(gdn_thread_start(&other, 0, answer, NULL));
    ring(0);
    gdn_thread_join(other);
    gdn_sleepers_destroy(&sleepers);
}

/* ---- The team ---- */

enum { MOST_TASKS = 40 };
static _Atomic int32_t ran[MOST_TASKS];

static void task(void *arg, int32_t i)
{
    atomic_fetch_add(&ran[i], 1);
    if (*(int *)arg) gdn_sleep(200000);
}

static void jobs(int32_t n_threads, int n_jobs, int is_slow)
{
    void *memory = gdn_aligned_alloc(64, gdn_team_bytes(n_threads));
    NEED(memory);
    gdn_team *team = gdn_team_start(memory, n_threads);
    for (int job = 0; job < n_jobs; job++) {
        const int32_t n = 1 + job % MOST_TASKS;
        for (int32_t i = 0; i < n; i++) atomic_store(&ran[i], 0);
        gdn_team_run(team, n, task, &is_slow);
        int32_t once = 0;
        for (int32_t i = 0; i < n; i++) once += atomic_load(&ran[i]) == 1;
        if (once != n) REQUIRE(once == n, "job %d: %d of %d tasks ran once", job, (int)once, (int)n);
        if (job % 16 == 0) gdn_sleep(2000000); /* the members fall asleep */
    }
    test_passed++;
    gdn_team_stop(team);
    gdn_aligned_free(memory);
}

/* ---- Pages and files ---- */

static void pages(void)
{
    const uint64_t page = pages_size(), n = 5, far = (uint64_t)16 << 30;
    unsigned char touched[3] = { 9, 9, 9 };
    unsigned char *const at = pages_reserve(n * page);
    NEED(page >= 4096 && at);
    NEED(pages_open(at + page, 3 * page));
    memset(at + page, 7, (size_t)(3 * page));
    pages_free(at, n * page);
    if (sizeof(size_t) < 8) return;
    unsigned char *const sparse = pages_sparse(far);
    NEED(sparse);
    unsigned char *const end = sparse + far - 3 * page;
    end[page] = 1;
    REQUIRE(end[page] == 1 && end[page + 1] == 0);
    REQUIRE(!pages_touched(end, 3, touched) || (!touched[0] && touched[1] && !touched[2]), "%d %d %d", touched[0],
            touched[1], touched[2]);
    pages_free(sparse, far);
}

/* A name of characters that no 8-bit code page has together. */
#define NAME "test_system \xc3\xbc \xe2\x98\x83 \xd0\xb6.tmp"
static const char name[] = NAME;

static void is_content(const char *wanted)
{
    const void *bytes;
    uint64_t n;
    const int why = file_map(name, &bytes, &n);
    REQUIRE(!why && n == strlen(wanted) && (!n || !memcmp(bytes, wanted, (size_t)n)), "%d: %.*s", why, (int)n,
            (const char *)bytes);
    file_unmap(bytes, n);
}

static void put(const char *text)
{
    FILE *const f = file_open(name, "w");
    NEED(f);
    NEED(fputs(text, f) >= 0 && !fclose(f));
}

static void files(void)
{
    const void *bytes;
    uint64_t n;
    replacement r, second;
    put("one\ntwo\r\n\x1a");
    is_content("one\ntwo\r\n\x1a");
    put("");
    is_content("");
    put("old");
    NEED(replace_begin(&r, name, 0));
    REQUIRE(!replace_begin(&second, name, 0) && errno == EWOULDBLOCK, "%s", replace_error());
    NEED(fputs("new", r.file) >= 0);
    is_content("old");
    REQUIRE(replace_end(&r, 1), "%s", replace_error());
    is_content("new");
    NEED(replace_begin(&r, name, 0) && fputs("not this", r.file) >= 0);
    REQUIRE(!replace_end(&r, 0));
    is_content("new");
    REQUIRE(file_map(NAME ".part", &bytes, &n) == ENOENT);
    file_lock lock = { 0 }, other = { 0 };
    REQUIRE(file_lock_take(&lock, name, 0));
    REQUIRE(!file_lock_take(&other, name, 0) && errno == EWOULDBLOCK, "%s", replace_error());
    file_lock_free(&lock);
    REQUIRE(file_lock_take(&other, name, 0));
    file_lock_free(&other);
    REQUIRE(file_map(NAME ".lock", &bytes, &n) == ENOENT);
    REQUIRE(file_map(".", &bytes, &n) == EINVAL && !replace_begin(&r, ".", 0));
    REQUIRE(file_map("no such file", &bytes, &n) == ENOENT);
    (void)remove(name);
}

/* ---- What else there is ---- */

static void rest(void)
{
    uint64_t drawn[2] = { 0 };
    int64_t before = gdn_now();
    gdn_sleep(3000000);
    REQUIRE(gdn_now() - before >= 2900000);
    REQUIRE(gdn_processors_of_process().n >= 1 && gdn_processors_of_thread().n >= 1 && machine_processors() >= 1);
    REQUIRE(gdn_memory_total() > 1 << 20 && gdn_process_id() > 0 && process_seconds() > 0);
    REQUIRE(machine_random(drawn, sizeof drawn) && drawn[0] != drawn[1]);
    REQUIRE(gdn_process_variable("PATH") && !gdn_process_variable("NO_SUCH_VARIABLE_OF_THIS_TEST"));
    REQUIRE(!gdn_library_open("no such library") && !gdn_program_find("no such function"));
    for (uint64_t alignment = 16; alignment <= 4096; alignment *= 2) {
        void *const memory = gdn_aligned_alloc(alignment, alignment + 1);
        REQUIRE(memory && (uintptr_t)memory % alignment == 0);
        gdn_aligned_free(memory);
    }
}

int main(void)
{
    locks();
    conditions();
    words();
    for (int32_t n_threads = 1; n_threads <= 8; n_threads++) jobs(n_threads, 2000, 0);
    jobs(4, 60, 1);
    pages();
    files();
    rest();
    return test_summary();
}
