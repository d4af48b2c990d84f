/* The part of the Objective-C runtime and of Metal's interface that the backend uses, from C. So the build needs no
 * Apple compiler, and the library links nothing. Functions are looked up at run time (metal/loader.c). Values are
 * Metal's, which never change.
 *
 * To send a message, the code calls the method's implementation through a pointer of its exact type. The runtime looks
 * the implementation up by class and selector. The receiver must not be nil. Ownership is as in Objective-C: what a
 * `new` method returns is ours to release; everything else belongs to the autorelease pool around each entry of the
 * backend. */
#ifndef GDN_METAL_OBJC_H
#define GDN_METAL_OBJC_H

#include <stddef.h>
#include <stdint.h>

typedef void *gdn_id;
typedef void (*gdn_imp)(void); /* any method, to be cast to its type */

enum { /* MTL... */
       GDN_MTL_FAMILY_APPLE6 = 1006,
       GDN_MTL_FAMILY_MAC2 = 2002,  /* MTLGPUFamily: the first with shuffles */
       GDN_MTL_MATH_MODE_SAFE = 0,  /* MTLMathMode */
       GDN_MTL_STORAGE_SHARED = 0,  /* MTLStorageMode */
       GDN_MTL_BARRIER_BUFFERS = 1, /* MTLBarrierScope */
       GDN_MTL_STATUS_ENQUEUED = 1,
       GDN_MTL_STATUS_COMPLETED = 4,
       GDN_MTL_STATUS_ERROR = 5 /* MTLCommandBufferStatus */
};

typedef struct gdn_mtl_size {
    unsigned long width, height, depth; /* NSUInteger */
} gdn_mtl_size;

/* X(name here, symbol, return type, parameters) */
#define GDN_OBJC_FUNCTIONS(X)                                                                                          \
    X(get_class, "objc_getClass", gdn_id, (const char *name))                                                          \
    X(class_of, "object_getClass", gdn_id, (gdn_id object))                                                            \
    X(selector, "sel_registerName", gdn_id, (const char *name))                                                        \
    X(implementation, "class_getMethodImplementation", gdn_imp, (gdn_id class_, gdn_id selector))                      \
    X(responds, "class_respondsToSelector", signed char, (gdn_id class_, gdn_id selector))                             \
    X(retain, "objc_retain", gdn_id, (gdn_id object))                                                                  \
    X(release, "objc_release", void, (gdn_id object))                                                                  \
    X(pool_push, "objc_autoreleasePoolPush", void *, (void))                                                           \
    X(pool_pop, "objc_autoreleasePoolPop", void, (void *pool))                                                         \
    X(default_device, "MTLCreateSystemDefaultDevice", gdn_id, (void))

/* X(name here, selector) */
#define GDN_OBJC_SELECTORS(X)                                                                                          \
    X(name, "name")                                                                                                    \
    X(UTF8String, "UTF8String")                                                                                        \
    X(stringWithUTF8String, "stringWithUTF8String:")                                                                   \
    X(localizedDescription, "localizedDescription")                                                                    \
    X(supportsFamily, "supportsFamily:")                                                                               \
    X(recommendedMaxWorkingSetSize, "recommendedMaxWorkingSetSize")                                                    \
    X(maxBufferLength, "maxBufferLength")                                                                              \
    X(newCommandQueue, "newCommandQueue")                                                                              \
    X(device, "device")                                                                                                \
    X(newOptions, "new")                                                                                               \
    X(setFastMathEnabled, "setFastMathEnabled:")                                                                       \
    X(setMathMode, "setMathMode:")                                                                                     \
    X(newLibrary, "newLibraryWithSource:options:error:")                                                               \
    X(newFunction, "newFunctionWithName:")                                                                             \
    X(newPipeline, "newComputePipelineStateWithFunction:error:")                                                       \
    X(threadExecutionWidth, "threadExecutionWidth")                                                                    \
    X(maxTotalThreads, "maxTotalThreadsPerThreadgroup")                                                                \
    X(newBuffer, "newBufferWithLength:options:")                                                                       \
    X(contents, "contents")                                                                                            \
    X(length, "length")                                                                                                \
    X(storageMode, "storageMode")                                                                                      \
    X(commandBuffer, "commandBuffer")                                                                                  \
    X(computeCommandEncoder, "computeCommandEncoder")                                                                  \
    X(setPipeline, "setComputePipelineState:")                                                                         \
    X(setBytes, "setBytes:length:atIndex:")                                                                            \
    X(setBuffer, "setBuffer:offset:atIndex:")                                                                          \
    X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:")                                                         \
    X(barrier, "memoryBarrierWithScope:")                                                                              \
    X(endEncoding, "endEncoding")                                                                                      \
    X(commit, "commit")                                                                                                \
    X(status, "status")                                                                                                \
    X(error, "error")

typedef struct gdn_objc {
#define X(name, symbol, type, parameters) type(*name) parameters;
    GDN_OBJC_FUNCTIONS(X)
#undef X
    struct {
#define X(name, selector) gdn_id name;
        GDN_OBJC_SELECTORS(X)
#undef X
    } sel;
    int emulated; /* one of the libraries exports GDN_EMULATED_DRIVER */
} gdn_objc;

static inline gdn_imp gdn_method(const gdn_objc *rt, gdn_id to, gdn_id selector)
{
    return rt->implementation(rt->class_of(to), selector);
}
static inline int gdn_responds(const gdn_objc *rt, gdn_id to, gdn_id selector)
{
    return rt->responds(rt->class_of(to), selector) != 0;
}

/* Messages, by the types of what they take and return: i an object, n an NSUInteger, p bytes, e an error to fill. */
static inline gdn_id gdn_send(const gdn_objc *rt, gdn_id to, gdn_id s)
{
    return ((gdn_id(*)(gdn_id, gdn_id))gdn_method(rt, to, s))(to, s);
}
static inline gdn_id gdn_send_i(const gdn_objc *rt, gdn_id to, gdn_id s, gdn_id a)
{
    return ((gdn_id(*)(gdn_id, gdn_id, gdn_id))gdn_method(rt, to, s))(to, s, a);
}
static inline gdn_id gdn_send_ie(const gdn_objc *rt, gdn_id to, gdn_id s, gdn_id a, gdn_id *error)
{
    return ((gdn_id(*)(gdn_id, gdn_id, gdn_id, gdn_id *))gdn_method(rt, to, s))(to, s, a, error);
}
static inline gdn_id gdn_send_iie(const gdn_objc *rt, gdn_id to, gdn_id s, gdn_id a, gdn_id b, gdn_id *error)
{
    return ((gdn_id(*)(gdn_id, gdn_id, gdn_id, gdn_id, gdn_id *))gdn_method(rt, to, s))(to, s, a, b, error);
}
static inline gdn_id gdn_send_nn(const gdn_objc *rt, gdn_id to, gdn_id s, unsigned long a, unsigned long b)
{
    return ((gdn_id(*)(gdn_id, gdn_id, unsigned long, unsigned long))gdn_method(rt, to, s))(to, s, a, b);
}
static inline gdn_id gdn_send_p(const gdn_objc *rt, gdn_id to, gdn_id s, const void *a)
{
    return ((gdn_id(*)(gdn_id, gdn_id, const void *))gdn_method(rt, to, s))(to, s, a);
}
static inline unsigned long gdn_number(const gdn_objc *rt, gdn_id to, gdn_id s)
{
    return ((unsigned long (*)(gdn_id, gdn_id))gdn_method(rt, to, s))(to, s);
}
static inline int gdn_bool_n(const gdn_objc *rt, gdn_id to, gdn_id s, long a)
{
    return ((_Bool(*)(gdn_id, gdn_id, long))gdn_method(rt, to, s))(to, s, a);
}
static inline void gdn_tell(const gdn_objc *rt, gdn_id to, gdn_id s)
{
    ((void (*)(gdn_id, gdn_id))gdn_method(rt, to, s))(to, s);
}
static inline void gdn_tell_i(const gdn_objc *rt, gdn_id to, gdn_id s, gdn_id a)
{
    ((void (*)(gdn_id, gdn_id, gdn_id))gdn_method(rt, to, s))(to, s, a);
}
static inline void gdn_tell_n(const gdn_objc *rt, gdn_id to, gdn_id s, unsigned long a)
{
    ((void (*)(gdn_id, gdn_id, unsigned long))gdn_method(rt, to, s))(to, s, a);
}
static inline void gdn_tell_bool(const gdn_objc *rt, gdn_id to, gdn_id s, _Bool a)
{
    ((void (*)(gdn_id, gdn_id, _Bool))gdn_method(rt, to, s))(to, s, a);
}
static inline void gdn_tell_pnn(const gdn_objc *rt, gdn_id to, gdn_id s, const void *a, unsigned long b,
                                unsigned long c)
{
    ((void (*)(gdn_id, gdn_id, const void *, unsigned long, unsigned long))gdn_method(rt, to, s))(to, s, a, b, c);
}
static inline void gdn_tell_sizes(const gdn_objc *rt, gdn_id to, gdn_id s, gdn_mtl_size a, gdn_mtl_size b)
{
    ((void (*)(gdn_id, gdn_id, gdn_mtl_size, gdn_mtl_size))gdn_method(rt, to, s))(to, s, a, b);
}

#endif
