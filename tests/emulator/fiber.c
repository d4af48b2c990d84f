/* Stacks and the switch between them, in assembly for x86-64 and 64-bit Arm (a few ns; ucontext makes system calls). */
#define _GNU_SOURCE
#include "tests/emulator/fiber.h"

#include "tests/sanitized.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef ADDRESS_SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
/* Frames of kernels that are compiled without optimisation, or with red zones, take more than 64 KiB. */
#define STACK_BYTES ((size_t)1 << 20) /* functions with a hundred planted mistakes have large frames */
#define MAX_FIBERS  1024
#define GUARD       4096u

#ifdef ADDRESS_SANITIZED
static simt_fiber *left; /* the last that was switched from */
#endif
static char *stacks; /* address space for all fibers; a page is used once it is touched */

int simt_fibers_reserve(unsigned count)
{
    if (count > MAX_FIBERS) return -1;
    if (stacks) return 0;
    char *at = mmap(NULL, STACK_BYTES * MAX_FIBERS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED) return -1;
    for (size_t i = 0; i < MAX_FIBERS; i++) /* a stack that overflows meets this, and not its neighbour */
        if (mprotect(at + i * STACK_BYTES, GUARD, PROT_NONE)) {
            munmap(at, STACK_BYTES * MAX_FIBERS);
            return -1;
        }
    stacks = at;
    return 0;
}

#if defined(__x86_64__)
/* It ends in a jump: a return would be predicted to go where this stack was left last. */
void simt_switch_stack(void **save, void *load);
__asm__(".text\n.p2align 4\n.hidden simt_switch_stack\n.globl simt_switch_stack\n"
        ".type simt_switch_stack, @function\n"
        "simt_switch_stack:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
        "popq %rcx\njmpq *%rcx\n.size simt_switch_stack, . - simt_switch_stack\n");

static void *first_frame(char *top, void (*entry)(void))
{
    void **frame = (void **)(void *)top - 8; /* six registers, the address to return to, one for alignment */
    memset(frame, 0, 8 * sizeof *frame);
    memcpy(&frame[6], &entry, sizeof entry);
    return frame;
}
#elif defined(__aarch64__)
void simt_switch_stack(void **save, void *load);
__asm__(".text\n.p2align 4\n.hidden simt_switch_stack\n.globl simt_switch_stack\n"
        ".type simt_switch_stack, %function\n"
        "simt_switch_stack:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n.size simt_switch_stack, . - simt_switch_stack\n");

static void *first_frame(char *top, void (*entry)(void))
{
    void **frame = (void **)(void *)top - 20;
    memset(frame, 0, 20 * sizeof *frame);
    memcpy(&frame[11], &entry, sizeof entry); /* x30, the address to return to */
    return frame;
}
#endif

void simt_fiber_start(simt_fiber *fiber, unsigned number, void (*entry)(void))
{
    char *stack = stacks + (size_t)number * STACK_BYTES;
    fiber->stack = stack + GUARD;
    fiber->size = STACK_BYTES - GUARD;
    fiber->fake = NULL;
#ifdef ADDRESS_SANITIZED
    __asan_unpoison_memory_region(fiber->stack, fiber->size); /* a fiber that was given up left its frames */
#endif
    /* Stacks that end at the same place within a page would compete for the same cache lines. */
    fiber->sp = first_frame(stack + STACK_BYTES - (size_t)(number % 61) * 192, entry);
}

void simt_fiber_switch(simt_fiber *from, simt_fiber *to, int last)
{
#ifdef ADDRESS_SANITIZED
    left = from;
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->stack, to->size);
#else
    (void)last;
#endif
    simt_switch_stack(&from->sp, to->sp);
#ifdef ADDRESS_SANITIZED
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

void simt_fiber_entered(simt_fiber *self)
{
#ifdef ADDRESS_SANITIZED
    const void *bottom;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &left->size);
    left->stack = (char *)(uintptr_t)bottom; /* of the machine's own stack, this is how it is known */
#else
    (void)self;
#endif
}
