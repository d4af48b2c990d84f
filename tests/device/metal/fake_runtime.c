/* Classes, references, autorelease pools, and failures on demand. See fake.h. */
#define _GNU_SOURCE
#include "tests/device/metal/fake.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
void fake_lock(void) { (void)pthread_mutex_lock(&lock); }
void fake_unlock(void) { (void)pthread_mutex_unlock(&lock); }

const int gdn_emulated_driver = 1;

static long complaints;
long metal_fake_complaints(void) { return complaints; }

void fake_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complaints++;
    (void)fprintf(stderr, "metal: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
}

/* ---- Settings ---- */
static struct setting {
    const char *name;
    long value;
} settings[] = { { "hang", 0 },       { "break", 0 },   { "family", 1009 }, { "old", 0 },  { "width", 32 },
                 { "threads", 1024 }, { "compile", 1 }, { "device", 1 },    { "flush", 0 } };
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static struct setting *setting(const char *name, size_t length)
{
    for (int i = 0; i < N_SETTINGS; i++)
        if (strlen(settings[i].name) == length && !memcmp(settings[i].name, name, length)) return &settings[i];
    (void)fprintf(stderr, "metal: there is no setting %.*s\n", (int)length, name);
    abort();
}

void metal_fake_set(const char *what, long value) { setting(what, strlen(what))->value = value; }
long fake_setting(const char *what) { return setting(what, strlen(what))->value; }

__attribute__((constructor)) static void read_environment(void)
{
    for (const char *at = getenv("GDN_METAL_FAKE"); at && *at;) {
        const char *equal = strchr(at, '=');
        char *end;
        if (!equal) break;
        setting(at, (size_t)(equal - at))->value = strtol(equal + 1, &end, 0);
        at = *end ? end + 1 : end;
    }
}

/* ---- Selectors: texts of which there is one each, with a count of messages ---- */
typedef struct selector {
    char *text;
    unsigned long calls, fails_at;
} selector;
static selector selectors[128];
static int n_selectors;

FAKE_API void *sel_registerName(const char *name);
void *sel_registerName(const char *name)
{
    fake_lock();
    int i = 0;
    while (i < n_selectors && strcmp(selectors[i].text, name)) i++;
    if (i == n_selectors) {
        if (n_selectors == 128 || !(selectors[i].text = strdup(name))) abort();
        n_selectors++;
    }
    fake_unlock();
    return &selectors[i];
}

void metal_fake_fail(const char *name, unsigned nth)
{
    selector *s = sel_registerName(name);
    s->fails_at = nth ? s->calls + nth : 0;
}

unsigned long metal_fake_calls(const char *name) { return ((selector *)sel_registerName(name))->calls; }

/* ---- Messages ---- */
static const fake_class dead = { NULL, "an object after its release", NULL, 0, NULL };

static const fake_method *find(const fake_class *class_, const char *name)
{
    for (const fake_method *m = class_->methods; m && m->selector; m++)
        if (!strcmp(m->selector, name)) return m;
    return NULL;
}

/* Objective-C knows no const. */
static void *as_object(const fake_class *class_)
{
    union {
        const fake_class *in;
        void *out;
    } c = { .in = class_ };
    return c.out;
}

FAKE_API void *object_getClass(void *object);
void *object_getClass(void *object) { return as_object(((fake_object *)object)->isa); }

FAKE_API signed char class_respondsToSelector(void *class_, void *name);
signed char class_respondsToSelector(void *class_, void *name)
{
    const char *text = ((selector *)name)->text;
    if (!strcmp(text, "setMathMode:") && fake_setting("old")) return 0;
    return find(class_, text) != NULL;
}

static void *nil(void) { return NULL; }

FAKE_API fake_imp class_getMethodImplementation(void *class_, void *name);
fake_imp class_getMethodImplementation(void *class_, void *name)
{
    const fake_class *c = class_;
    selector *s = name;
    const fake_method *m = find(c, s->text);
    if (!m) {
        (void)fprintf(stderr, "metal: %s does not understand %s\n", c->name, s->text);
        abort();
    }
    fake_lock();
    const int fails = ++s->calls == s->fails_at;
    fake_unlock();
    return fails ? (fake_imp)nil : m->imp;
}

/* ---- References ---- */
static fake_object *objects; /* all, the dead ones too, so that no address comes twice */

void *fake_new(const fake_class *class_)
{
    fake_object *o = calloc(1, class_->bytes);
    if (!o) abort();
    fake_lock();
    *o = (fake_object){ class_, 1, objects };
    objects = o;
    fake_unlock();
    return o;
}

long metal_fake_alive(void)
{
    long n = 0;
    fake_lock();
    for (const fake_object *o = objects; o; o = o->next) n += o->isa != &dead;
    fake_unlock();
    return n;
}

void *objc_retain(void *object)
{
    fake_object *o = object;
    fake_lock();
    if (o->isa == &dead) fake_complain("retain of an object after its release");
    o->references++;
    fake_unlock();
    return object;
}

void objc_release(void *object)
{
    fake_object *o = object;
    fake_lock();
    if (o->isa == &dead) {
        fake_complain("release of an object after its release");
    } else if (--o->references == 0) {
        if (o->isa->dealloc) o->isa->dealloc(o);
        o->isa = &dead;
    }
    fake_unlock();
}

/* ---- Autorelease pools, one stack per thread ---- */
enum { POOL = 4096 };
static _Thread_local void *waiting[POOL];
static _Thread_local size_t n_waiting, depth;

FAKE_API void *objc_autoreleasePoolPush(void);
void *objc_autoreleasePoolPush(void)
{
    depth++;
    return (void *)(uintptr_t)(n_waiting + 1);
}

FAKE_API void objc_autoreleasePoolPop(void *pool);
void objc_autoreleasePoolPop(void *pool)
{
    const size_t mark = (size_t)(uintptr_t)pool - 1;
    depth--;
    while (n_waiting > mark) objc_release(waiting[--n_waiting]);
}

void *fake_autorelease(void *object)
{
    if (!depth) fake_complain("%s is autoreleased without a pool: it leaks", ((fake_object *)object)->isa->name);
    else if (n_waiting == POOL) abort();
    else waiting[n_waiting++] = object;
    return object;
}

/* ---- Classes by name ---- */
FAKE_API void *objc_getClass(const char *name);
void *objc_getClass(const char *name)
{
    return !strcmp(name, fake_string_class.name)    ? as_object(&fake_string_class)
           : !strcmp(name, fake_options_class.name) ? as_object(&fake_options_class)
                                                    : NULL;
}
