/* Cases and their memory. See case.h. */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *check_alloc(uint64_t bytes)
{
    void *memory = calloc(1, bytes ? (size_t)bytes : 1);
    if (!memory) {
        fprintf(stderr, "gdn check: out of memory\n");
        exit(2);
    }
    return memory;
}

unsigned char check_poison_byte(uint64_t i)
{
    const uint16_t poison = CHECK_POISON;
    unsigned char byte[2];
    memcpy(byte, &poison, 2);
    return byte[i & 1];
}

void check_poison(unsigned char *at, uint64_t bytes, int odd)
{
    uint64_t done = bytes < 2 ? bytes : 2;
    for (uint64_t i = 0; i < done; i++) at[i] = check_poison_byte(i ^ (uint64_t)odd);
    for (uint64_t n; done < bytes; done += n) {
        n = done < bytes - done ? done : bytes - done;
        memcpy(at + done, at, (size_t)n);
    }
}

uint64_t check_unit_bytes(int32_t dtype)
{
    switch (dtype) {
    case GDN_F16:
    case GDN_BF16: return 2;
    case GDN_Q8_0: return 34;
    case GDN_I64: return 8;
    case GDN_DIGITS2:
    case GDN_DIGITS3: return 1;
    default: return 4;
    }
}

uint64_t check_row_bytes(int32_t dtype, int64_t n)
{
    return check_unit_bytes(dtype) * (uint64_t)(dtype == GDN_Q8_0 ? n / 32 : n);
}

uint64_t check_alignment(int32_t dtype)
{
    if (dtype == GDN_DIGITS2 || dtype == GDN_DIGITS3) return 16;
    return dtype == GDN_Q8_0 ? 2 : check_unit_bytes(dtype);
}

int64_t check_load_index(const void *at, int32_t dtype)
{
    int64_t wide;
    int32_t narrow;
    memcpy(dtype == GDN_I64 ? (void *)&wide : (void *)&narrow, at, dtype == GDN_I64 ? 8 : 4);
    return dtype == GDN_I64 ? wide : narrow;
}

void check_store_index(void *at, int32_t dtype, int64_t value)
{
    const int32_t narrow = (int32_t)value;
    memcpy(at, dtype == GDN_I64 ? (const void *)&value : (const void *)&narrow, dtype == GDN_I64 ? 8 : 4);
}

void check_case_init(check_case *c, const check_kernel *kernel)
{
    memset(c, 0, sizeof *c);
    c->kernel = kernel;
}

void check_case_free(check_case *c)
{
    for (int m = 0; m < c->n_memories; m++) {
        free(c->memory[m].image);
        free(c->memory[m].range);
    }
    memset(c, 0, sizeof *c);
}

/* Stops where a case has more than there is room for. */
static void need_room(int n, int most, const char *name)
{
    if (n < most) return;
    fprintf(stderr, "gdn check: a case needs more than %s, which is %d\n", name, most);
    exit(2);
}

int check_add_memory(check_case *c, uint64_t body, uint64_t alignment, int written, check_rng *rng)
{
    need_room(c->n_memories, CHECK_MAX_MEMORIES, "CHECK_MAX_MEMORIES");
    check_memory *m = &c->memory[c->n_memories];
    const uint64_t shift = rng ? alignment * (uint64_t)check_between(rng, 0, (int)(64 / alignment) - 1) : 0;
    m->before = c->placement == CHECK_GUARD_BEFORE ? 0 : 128 + shift;
    m->body = body;
    m->bytes = m->before + body + (c->placement == CHECK_GUARD_AFTER ? 0 : 128);
    m->written = written;
    m->image = check_alloc(m->bytes + 1);
    check_poison(m->image, m->bytes, m->before & 1); /* counted from the body, so that its elements are whole poison */
    return c->n_memories++;
}

/* Sets extent, stride and given; returns the bytes that the view spans. */
static uint64_t lay_out(check_view *v, int32_t dtype, int rank, const int64_t *extent, const int *order, int gaps,
                        check_rng *rng)
{
    const int64_t unit = (int64_t)check_unit_bytes(dtype), step = (int64_t)check_alignment(dtype);
    int64_t inside, packed;
    v->dtype = dtype;
    v->rank = rank;
    for (int a = 0; a < rank; a++) v->extent[a] = extent[a];
    v->stride[rank - 1] = unit;
    inside = unit * extent[rank - 1];
    for (int n = rank - 2; n >= 0; n--) {
        const int a = order ? order[n] : n;
        if (gaps && rng) inside += step * (check_one_in(rng, 2) ? 0 : check_between(rng, 0, gaps));
        v->stride[a] = inside;
        inside *= extent[a] > 0 ? extent[a] : 1;
    }
    packed = unit * extent[rank - 1];
    for (int a = rank - 2; a >= 0; a--) {
        const int64_t rows = extent[a] > 0 ? extent[a] : 1;
        v->given[a] = v->stride[a] == packed && (!rng || check_one_in(rng, 2)) ? 0 : v->stride[a];
        packed = rows * (v->stride[a] > packed ? v->stride[a] : packed);
    }
    return (uint64_t)inside;
}

check_view *check_add_view(check_case *c, const check_view *v)
{
    need_room(c->n_views, CHECK_MAX_VIEWS, "CHECK_MAX_VIEWS");
    c->view[c->n_views] = *v;
    return &c->view[c->n_views++];
}

check_view *check_add_operand(check_case *c, check_view *v, int32_t dtype, int rank, const int64_t *extent,
                              const int *order, int gaps, int written, check_rng *rng)
{
    const uint64_t bytes = lay_out(v, dtype, rank, extent, order, gaps, rng);
    v->memory = check_add_memory(c, bytes, check_alignment(dtype), written, rng);
    v->stated = rng && check_one_in(rng, 2) ? bytes : 0;
    return check_add_view(c, v);
}

void check_add_same(check_case *c, const char *of, const char *name, size_t field)
{
    check_view v = *check_find(c, of);
    v.name = name;
    v.field = field;
    check_add_view(c, &v);
}

void check_add_map(check_case *c, const char *name, size_t field, const void *first, size_t stride, int n, int n_each,
                   check_rng *rng)
{
    check_view v = { .name = name, .field = field, .is_span = 1, .axis = { "entry" } };
    check_add_operand(c, &v, GDN_I32, 1, (int64_t[]){ (int64_t)n * n_each }, NULL, 0, 0, rng);
    const check_memory *m = &c->memory[c->n_memories - 1];
    for (int i = 0; i < n; i++)
        memcpy(m->image + m->before + 4 * (size_t)(i * n_each), (const char *)first + stride * (size_t)i,
               4 * (size_t)n_each);
}

void check_put_map(check_case *c, const char *name, const int32_t *values)
{
    const check_view *v = check_find(c, name);
    const check_memory *m = &c->memory[v->memory];
    memcpy(m->image + m->before, values, 4 * (size_t)v->extent[0]);
}

const check_view *check_find(const check_case *c, const char *name)
{
    for (int i = 0; i < c->n_views; i++) /* asked for every element; mostly the linker has made one of equal names */
        if (c->view[i].name == name) return &c->view[i];
    for (int i = 0; i < c->n_views; i++)
        if (!strcmp(c->view[i].name, name)) return &c->view[i];
    return NULL;
}

unsigned char *check_at(const check_case *c, const check_view *v, unsigned char *image, int64_t i0, int64_t i1,
                        int64_t i2, int64_t i3)
{
    const int64_t i[CHECK_MAX_AXES] = { i0, i1, i2, i3, 0 };
    int64_t at = (int64_t)c->memory[v->memory].before + v->first;
    for (int a = 0; a < v->rank; a++) at += i[a] * v->stride[a];
    return image + at;
}

void check_put_index(check_case *c, int b0, int b1, int row, int64_t value)
{
    const check_view *v = check_find(c, "index");
    check_store_index(check_at(c, v, c->memory[v->memory].image, b0, b1, row, 0), v->dtype, value);
}

void check_initial(const check_case *c, unsigned char *image[CHECK_MAX_MEMORIES])
{
    for (int m = 0; m < CHECK_MAX_MEMORIES; m++) image[m] = m < c->n_memories ? c->memory[m].image : NULL;
}

void check_bind(const check_case *c, const gdn_span *where, int use_offset, check_args *args)
{
    for (int i = 0; i < c->n_views; i++) {
        const check_view *v = &c->view[i];
        const gdn_span *base = &where[v->memory];
        void *data = base->data;
        uint64_t offset = base->offset + c->memory[v->memory].before + (uint64_t)v->first;
        if (!use_offset) {
            data = (char *)base->data + offset;
            offset = 0;
        }
        if (v->is_span) {
            gdn_span *span = (gdn_span *)(void *)((char *)args + v->field);
            *span = (gdn_span){ data, offset, v->stated };
        } else {
            gdn_tensor tensor = { .data = data, .offset = offset, .bytes = v->stated, .dtype = v->dtype };
            memcpy(tensor.stride, v->given, sizeof tensor.stride);
            check_set_tensor(args, v->field, &tensor);
        }
    }
}

static void note_range(void *user, const gdn_tensor *of, unsigned char *at, uint64_t bytes)
{
    check_case *c = user;
    check_memory *m = c->memory;
    (void)of;
    while (at < m->image || at >= m->image + m->bytes) m++; /* it lies in one of them: they are all that the call has */
    if (m->n_ranges == m->room) {
        m->room = m->room ? 2 * m->room : 64;
        m->range = realloc(m->range, (size_t)m->room * sizeof m->range[0]);
        if (!m->range) check_alloc(UINT64_MAX / 2);
    }
    m->range[m->n_ranges][0] = (uint64_t)(at - m->image);
    m->range[m->n_ranges++][1] = (uint64_t)(at - m->image) + bytes;
}

void check_note_writes(check_case *c)
{
    gdn_span images[CHECK_MAX_MEMORIES];
    check_args args = c->args;
    for (int m = 0; m < c->n_memories; m++) images[m] = (gdn_span){ .data = c->memory[m].image };
    check_bind(c, images, 0, &args);
    const char *wrong = c->kernel->writes(&args, &(check_writes){ .user = c, .may = note_range });
    if (wrong) {
        fprintf(stderr, "gdn check: a case has a bad value in %s\n", wrong);
        abort();
    }
}
