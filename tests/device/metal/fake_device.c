/* Device, strings, errors, library, pipelines, buffers. See fake.h. */
#define _GNU_SOURCE
#include "tests/device/metal/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/check.h"
#include "tests/emulator/metal_registry.h"

/* ---- NSString, NSError ---- */
static const char *string_text(fake_string *self, void *s) { return (void)s, self->text; }
static void string_dealloc(fake_object *self) { free(((fake_string *)self)->text); }
static void *string_with(void *self, void *s, const char *text)
{
    return (void)self, (void)s, fake_autorelease(fake_new_string(text));
}
static const fake_method string_methods[] = { METHOD("UTF8String", string_text), { NULL, NULL } };
static const fake_method string_class_methods[] = { METHOD("stringWithUTF8String:", string_with), { NULL, NULL } };
static const fake_class string_meta = { NULL, "NSString's class", string_class_methods, 0, NULL };
const fake_class fake_string_class = { &string_meta, "NSString", string_methods, sizeof(fake_string), string_dealloc };

void *fake_new_string(const char *text)
{
    fake_string *s = fake_new(&fake_string_class);
    if (!(s->text = strdup(text))) abort();
    return s;
}

typedef struct fake_error {
    fake_object object;
    void *text;
} fake_error;
static void *error_text(fake_error *self, void *s) { return (void)s, self->text; }
static void error_dealloc(fake_object *self) { objc_release(((fake_error *)self)->text); }
static const fake_method error_methods[] = { METHOD("localizedDescription", error_text), { NULL, NULL } };
static const fake_class error_class = { NULL, "NSError", error_methods, sizeof(fake_error), error_dealloc };

void *fake_new_error(const char *text)
{
    fake_error *e = fake_new(&error_class);
    e->text = fake_new_string(text);
    return e;
}

/* ---- MTLCompileOptions: fast, until they are told otherwise ---- */
typedef struct fake_options {
    fake_object object;
    int safe;
} fake_options;
static void *options_new(void *self, void *s) { return (void)self, (void)s, fake_new(&fake_options_class); }
static void options_fast(fake_options *self, void *s, _Bool fast) { (void)s, self->safe = !fast; }
static void options_mode(fake_options *self, void *s, long mode) { (void)s, self->safe = mode == 0; }
static const fake_method options_methods[] = { METHOD("setFastMathEnabled:", options_fast),
                                               METHOD("setMathMode:", options_mode),
                                               { NULL, NULL } };
static const fake_method options_class_methods[] = { METHOD("new", options_new), { NULL, NULL } };
static const fake_class options_meta = { NULL, "MTLCompileOptions' class", options_class_methods, 0, NULL };
const fake_class fake_options_class = { &options_meta, "MTLCompileOptions", options_methods, sizeof(fake_options),
                                        NULL };

/* ---- MTLFunction, MTLComputePipelineState, MTLLibrary ---- */
static const fake_class function_class = { NULL, "MTLFunction", NULL, sizeof(fake_pipeline), NULL };

static unsigned long pipeline_width(void *self, void *s)
{
    return (void)self, (void)s, (unsigned long)fake_setting("width");
}
static unsigned long pipeline_threads(void *self, void *s)
{
    return (void)self, (void)s, (unsigned long)fake_setting("threads");
}
static const fake_method pipeline_methods[] = { METHOD("threadExecutionWidth", pipeline_width),
                                                METHOD("maxTotalThreadsPerThreadgroup", pipeline_threads),
                                                { NULL, NULL } };
const fake_class fake_pipeline_class = { NULL, "MTLComputePipelineState", pipeline_methods, sizeof(fake_pipeline),
                                         NULL };

static void *library_function(void *self, void *s, fake_string *name)
{
    const simt_kernel *kernel = simt_find_kernel(name->text);
    (void)self, (void)s;
    if (!kernel) return NULL;
    fake_pipeline *f = fake_new(&function_class);
    f->kernel = (const simt_metal_kernel *)(const void *)kernel;
    return f;
}
static const fake_method library_methods[] = { METHOD("newFunctionWithName:", library_function), { NULL, NULL } };
static const fake_class library_class = { NULL, "MTLLibrary", library_methods, sizeof(fake_object), NULL };

/* ---- MTLBuffer ---- */
enum { GUARD = 256 };
static fake_buffer *buffers;

static int region_of(const void *at, simt_region *region)
{
    for (fake_buffer *b = buffers; b; b = b->next)
        if ((const char *)at >= b->at && (const char *)at < b->at + b->bytes) {
            *region = (simt_region){ b->at, b->bytes, &b->shadow, &b->shadow_bytes };
            return 1;
        }
    return 0;
}
__attribute__((constructor)) static void announce(void) { simt_region_of = region_of; }

fake_buffer *fake_new_buffer(size_t bytes, unsigned long mode)
{
    char *memory = NULL;
    if (posix_memalign((void **)&memory, GUARD, bytes + 2 * GUARD)) return NULL;
    fake_buffer *b = fake_new(&fake_buffer_class);
    b->memory = memory;
    b->at = memory + GUARD;
    b->bytes = bytes;
    b->mode = mode;
    memset(memory, 0xa7, bytes + 2 * GUARD);
    simt_poison(b->at, bytes);
    fake_lock();
    b->next = buffers;
    buffers = b;
    fake_unlock();
    return b;
}

static int intact(const char *guard)
{
    for (int i = 0; i < GUARD; i++)
        if ((unsigned char)guard[i] != 0xa7) return 0;
    return 1;
}

const char *fake_damaged(void)
{
    static char text[128];
    for (const fake_buffer *b = buffers; b; b = b->next)
        if (!intact(b->memory) || !intact(b->at + b->bytes)) {
            (void)snprintf(text, sizeof text, "a write %s a buffer of %zu bytes",
                           intact(b->memory) ? "behind" : "before", b->bytes);
            memset(b->memory, 0xa7, GUARD), memset(b->at + b->bytes, 0xa7, GUARD);
            return text;
        }
    return NULL;
}

static void buffer_dealloc(fake_object *self)
{
    fake_buffer *b = (fake_buffer *)self;
    for (fake_buffer **at = &buffers; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    if (b->shadow && simt_check) simt_check->release_shadow(b->shadow, b->shadow_bytes);
    free(b->memory);
    b->memory = b->at = NULL;
}
static void *buffer_contents(fake_buffer *self, void *s) { return (void)s, self->mode == 0 ? self->at : NULL; }
static unsigned long buffer_length(fake_buffer *self, void *s) { return (void)s, self->bytes; }
static unsigned long buffer_mode(fake_buffer *self, void *s) { return (void)s, self->mode; }
static const fake_method buffer_methods[] = { METHOD("contents", buffer_contents),
                                              METHOD("length", buffer_length),
                                              METHOD("storageMode", buffer_mode),
                                              { NULL, NULL } };
const fake_class fake_buffer_class = { NULL, "MTLBuffer", buffer_methods, sizeof(fake_buffer), buffer_dealloc };

/* ---- MTLDevice ---- */
enum { MOST = 1 << 30 };

static void *device_name(void *self, void *s)
{
    return (void)self, (void)s, fake_autorelease(fake_new_string("emulated Metal device"));
}
static _Bool device_family(void *self, void *s, long family)
{
    return (void)self, (void)s, family > 1000 && family <= fake_setting("family");
}
static unsigned long device_memory(void *self, void *s) { return (void)self, (void)s, 4ul << 30; }
static unsigned long device_most(void *self, void *s) { return (void)self, (void)s, MOST; }
static void *device_queue(void *self, void *s) { return (void)s, fake_new_queue(self); }
static void *device_buffer(void *self, void *s, unsigned long bytes, unsigned long options)
{
    (void)self, (void)s;
    return bytes && bytes <= MOST ? fake_new_buffer(bytes, options >> 4 & 15) : NULL;
}
/* The two pragmas as metal/language.h has them, before the first function, and none that takes them back. Safe math
 * alone leaves contraction on, so that the one about it is all that stands against it. */
static const char *inexact(const char *source)
{
    static const char exact[] = "\n#if defined(__METAL_VERSION__)\n#include <metal_stdlib>\nusing namespace metal;\n"
                                "#pragma METAL fp math_mode(safe)\n#pragma METAL fp contract(off)\n";
    const char *at = strstr(source, exact), *function = strstr(source, "\nGDN_INLINE ");
    int n = 0;
    for (const char *c = source; (c = strstr(c, "#pragma METAL")); c++) n++;
    return at && at < function && n == 2 ? NULL : "the source does not turn contraction and fast math off";
}

static void *device_library(void *self, void *s, fake_string *source, fake_options *options, void **error)
{
    const char *wrong = NULL;
    (void)self, (void)s;
    if (!fake_setting("compile")) wrong = "program_source:1:1: error: this compiler does not compile";
    else if (strstr(source->text, "#include \"")) wrong = "a file is included, and there are none";
    else if (!strstr(source->text, "GDN_KERNEL(gdn_metal_probe_arithmetic,"))
        wrong = "the source does not have what it should";
    else if ((wrong = inexact(source->text)))
        ;
    else if (!options || !options->safe) wrong = "the math mode is not safe";
    if (wrong && error) *error = fake_autorelease(fake_new_error(wrong));
    return wrong ? NULL : fake_new(&library_class);
}
static void *device_pipeline(void *self, void *s, fake_pipeline *function, void **error)
{
    (void)self, (void)s, (void)error;
    fake_pipeline *p = fake_new(&fake_pipeline_class);
    p->kernel = function->kernel;
    return p;
}
static const fake_method device_methods[] = {
    METHOD("name", device_name),
    METHOD("supportsFamily:", device_family),
    METHOD("recommendedMaxWorkingSetSize", device_memory),
    METHOD("maxBufferLength", device_most),
    METHOD("newCommandQueue", device_queue),
    METHOD("newBufferWithLength:options:", device_buffer),
    METHOD("newLibraryWithSource:options:error:", device_library),
    METHOD("newComputePipelineStateWithFunction:error:", device_pipeline),
    { NULL, NULL },
};
static const fake_class device_class = { NULL, "MTLDevice", device_methods, sizeof(fake_object), NULL };

/* One, as on every Mac with Apple's own chip. */
FAKE_API void *MTLCreateSystemDefaultDevice(void);
void *MTLCreateSystemDefaultDevice(void)
{
    static fake_object *the_device;
    if (!fake_setting("device")) return NULL;
    fake_lock();
    if (!the_device) the_device = fake_new(&device_class); /* Metal itself holds it */
    fake_unlock();
    return objc_retain(the_device);
}

/* Another, for tests. */
void *metal_fake_other_device(void) { return fake_new(&device_class); }
