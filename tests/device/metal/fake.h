/* A Metal of the emulator's: libgdn-metal-emulated.so, which tests/device/metal/frameworks.c names, exports what
 * metal/loader.c looks for, and runs the kernels that are linked into it. It has the classes and methods that the
 * backend uses, and counts references as Objective-C does. Mistakes end the program or are counted as complaints:
 * unknown messages, objects used after their release, encoders that are not ended, buffers that are not bound.
 *
 * Command buffers run late: at the second query of the status, or in waitUntilCompleted. Dispatches with no barrier
 * between run in reverse.
 *
 *   fake_runtime.c   classes, references, pools, failures on demand
 *   fake_device.c    device, strings, errors, library, pipelines, buffers
 *   fake_commands.c  queues, command buffers, encoders
 *
 * What tests may use is in the first part. */
#ifndef GDN_TEST_METAL_FAKE_H
#define GDN_TEST_METAL_FAKE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/* "hang": command buffers are never done. "break": they end in an error. "family": the highest GPU family of Apple's.
 * "old": without setMathMode:. "width": of a simdgroup. "threads": most of a threadgroup. "compile": with 0 no source
 * compiles. "device": with 0 there is none. "flush": with 1 kernels flush subnormal operands and tiny results, as x86's
 * FTZ and DAZ do; with 2 results alone. Also in the environment: GDN_METAL_FAKE=width=64,old=1 */
FAKE_API void metal_fake_set(const char *what, long value);
/* The nth time from now that a message with this selector is sent, it returns nil. 0: never. */
FAKE_API void metal_fake_fail(const char *selector, unsigned nth);
FAKE_API unsigned long metal_fake_calls(const char *selector); /* messages so far */
FAKE_API long metal_fake_alive(void);                          /* objects */
FAKE_API long metal_fake_complaints(void);
FAKE_API void *metal_fake_other_device(void);

FAKE_API extern const int gdn_emulated_driver; /* by which the library knows that this is not the system's Metal */

/* ---- Inside ---- */
typedef struct fake_object fake_object;
typedef void (*fake_imp)(void);

typedef struct fake_method {
    const char *selector;
    fake_imp imp;
} fake_method;

typedef struct fake_class {
    const struct fake_class *isa; /* the class's own methods; first, as in an object */
    const char *name;
    const fake_method *methods; /* up to one without a name */
    size_t bytes;
    void (*dealloc)(fake_object *self);
} fake_class;

struct fake_object {
    const fake_class *isa;
    long references;
    fake_object *next;
};

#define METHOD(selector, function)                                                                                     \
    {                                                                                                                  \
        selector, (fake_imp)(function)                                                                                 \
    }

void *fake_new(const fake_class *class_); /* zeroed, with one reference; never NULL */
void *fake_autorelease(void *object);
FAKE_API void *objc_retain(void *object);
FAKE_API void objc_release(void *object);
void fake_lock(void); /* recursive */
void fake_unlock(void);
void fake_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
long fake_setting(const char *what);

typedef struct fake_string {
    fake_object object;
    char *text;
} fake_string;
void *fake_new_string(const char *text);
void *fake_new_error(const char *text);

typedef struct fake_buffer {
    fake_object object;
    struct fake_buffer *next;
    char *memory, *at; /* what was allocated, and the buffer between its guards */
    size_t bytes;
    unsigned long mode;
    void *shadow; /* the checker's */
    size_t shadow_bytes;
} fake_buffer;
fake_buffer *fake_new_buffer(size_t bytes, unsigned long mode);
const char *fake_damaged(void); /* NULL: all guards are as they were */

typedef struct fake_pipeline {
    fake_object object;
    const struct simt_metal_kernel *kernel;
} fake_pipeline;

extern const fake_class fake_string_class, fake_options_class, fake_queue_class, fake_pipeline_class, fake_buffer_class;
void *fake_new_queue(void *device);

#endif
