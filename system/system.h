/* What differs between operating systems, for the library, and so for the runtime and the tool. Nothing outside this
 * folder asks which system it is. posix.c is for all but Windows, with linux.c or bsd.c (macOS, FreeBSD); windows.c is
 * for Windows. What only the runtime and the tool need is in files.h, machine.h and console.h.
 *
 * Functions are safe to call from several threads. Those that return int return 1 for success, 0 for failure. */
#ifndef GDN_SYSTEM_H
#define GDN_SYSTEM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Threads ---- */

#if defined(_WIN32)
typedef struct gdn_mutex { /* SRWLOCK */
    void *lock;
} gdn_mutex;
typedef struct gdn_condition { /* CONDITION_VARIABLE */
    void *variable;
} gdn_condition;
typedef void *gdn_thread; /* HANDLE */
#define GDN_MUTEX_INIT                                                                                                 \
    {                                                                                                                  \
        NULL                                                                                                           \
    }
#else
#include <pthread.h>
typedef pthread_mutex_t gdn_mutex;
typedef pthread_cond_t gdn_condition;
typedef pthread_t gdn_thread;
#define GDN_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#endif

void gdn_mutex_init(gdn_mutex *mutex); /* or GDN_MUTEX_INIT */
void gdn_mutex_destroy(gdn_mutex *mutex);
void gdn_mutex_lock(gdn_mutex *mutex);
void gdn_mutex_unlock(gdn_mutex *mutex);

void gdn_condition_init(gdn_condition *condition);
void gdn_condition_destroy(gdn_condition *condition);
void gdn_condition_signal(gdn_condition *condition);
void gdn_condition_broadcast(gdn_condition *condition);
void gdn_condition_wait(gdn_condition *condition, gdn_mutex *mutex);
int gdn_condition_wait_for(gdn_condition *condition, gdn_mutex *mutex, double seconds); /* 0: the time is over */

/* The thread gets no signals of the program, except those of a fault of its own. What `run` returns is not used.
 * stack_bytes 0: the system's default. */
int gdn_thread_start(gdn_thread *thread, size_t stack_bytes, void *(*run)(void *arg), void *arg);
void gdn_thread_join(gdn_thread thread);
void gdn_thread_name(const char *name); /* of the calling thread, for debuggers */
void gdn_thread_yield(void);
void gdn_sleep(int64_t ns);

/* Sleeps until *word is no longer `seen`; may also wake spuriously. One gdn_sleepers serves all words of an object. */
typedef struct gdn_sleepers { /* used where the system has no wait for a word */
    gdn_mutex lock;
    gdn_condition changed;
} gdn_sleepers;
void gdn_sleepers_init(gdn_sleepers *sleepers);
void gdn_sleepers_destroy(gdn_sleepers *sleepers);
void gdn_sleep_on(gdn_sleepers *sleepers, _Atomic uint32_t *word, uint32_t seen);
void gdn_wake(gdn_sleepers *sleepers, _Atomic uint32_t *word, int32_t n); /* at least n of those that sleep on it */

/* ---- Processors and processes ---- */

/* Processors that threads may run on; n is at least 1. */
typedef struct gdn_processors {
    int32_t n;
    unsigned char set[128]; /* where the system has a set for each thread */
} gdn_processors;

/* Those of the calling thread. */
gdn_processors gdn_processors_of_thread(void);
/* Those of the process: of any of its threads. OpenMP (OMP_PROC_BIND) and engines bind single threads, the calling one
 * among them, while taskset and containers restrict all threads. */
gdn_processors gdn_processors_of_process(void);
/* Lets the calling thread run on all of them. */
void gdn_processors_use(const gdn_processors *processors);
/* Asks that this process may use the tiles of AMX. */
int gdn_processor_tiles(void);
int64_t gdn_process_id(void);
/* A variable of the environment; NULL: not set, or a program with the rights of another user. Valid for the
 * calling thread's next seven calls. */
const char *gdn_process_variable(const char *name);
/* A page with 1 in it, which the system makes 0 in a forked child. NULL: not supported. */
int *gdn_fork_mark(void);
void gdn_fork_mark_free(int *mark);

/* ---- Time and memory ---- */

int64_t gdn_now(void);           /* nanoseconds; not affected by changes of the system's time */
uint64_t gdn_memory_total(void); /* of the machine, in bytes; 0: unknown */

/* alignment is a power of two and at least that of a pointer. NULL: no memory. */
void *gdn_aligned_alloc(uint64_t alignment, uint64_t bytes);
void gdn_aligned_free(void *memory);

/* ---- Dynamic libraries ---- */

/* The names to try, in turn, until NULL. */
extern const char *const gdn_cuda_libraries[], *const gdn_vulkan_libraries[];
void *gdn_library_open(const char *name); /* NULL: there is none */
void *gdn_library_find(void *library, const char *symbol);
void gdn_library_close(void *library);
/* Looks in what the process has loaded, for all to see. */
void *gdn_program_find(const char *symbol);
/* Keeps the module that has this address loaded until the process ends. */
void gdn_module_stay(const void *address);

#endif
