/* The automaton: what a byte does to the stacks. See schema_internal.h. */
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/schema/schema_internal.h"

/* Phases of a frame. A value that is on the stack above has already changed its parent's phase. */
enum {
    BEGIN,
    FIRST,
    KEY,
    COLON,
    VALUE,
    NEXT,
    SPACED,
    AFTER,
    ESCAPE,
    HEX,
    MINUS,
    ZERO,
    WHOLE,
    POINT,
    FRACTION,
    POWER,
    SIGN,
    EXPONENT,
    THINK,
    FREE
};
enum { DIGITS = 18, POWER_DIGITS = 2 };

typedef struct out {
    int32_t *top, n;
} out;

static void feed(machine *m, int32_t top, unsigned char byte, out *to);

/* ---- Stacks ---- */

static void keep(const machine *m, int32_t top, out *to)
{
    for (int32_t i = 0; i < to->n; i++)
        if (to->top[i] == top || !memcmp(&m->frame[to->top[i]], &m->frame[top], sizeof *m->frame)) return;
    if (to->n < SCHEMA_TOPS) to->top[to->n++] = top;
}

/* Adds a frame; -1: there is no room, and the stack is given up. */
static int32_t push(machine *m, const frame *f)
{
    if (m->n == m->room) return -1;
    m->frame[m->n] = *f;
    return m->n++;
}

static void keep_new(machine *m, const frame *f, out *to)
{
    const int32_t top = push(m, f);
    if (top >= 0) keep(m, top, to);
}

static int fits(const machine *m, int32_t of, int32_t depth)
{
    return of >= 0 && depth + m->schema->rule[of].height <= SCHEMA_DEPTH;
}

/* Begins a value of the rule above the frame, with its first byte. */
static void open_rule(machine *m, int32_t rule_at, int32_t parent, int32_t depth, unsigned char byte, out *to)
{
    const rule *const r = &m->schema->rule[rule_at];
    if (m->tried++ > SCHEMA_TRIED || !fits(m, rule_at, depth)) return;
    for (int32_t i = 0; r->kind == RULE_UNION && i < r->n; i++)
        open_rule(m, m->schema->part[r->part + i].rule, parent, depth, byte, to);
    if (r->kind == RULE_UNION) return;
    const int32_t before = m->n, kept = to->n;
    const int32_t top = push(m, &(frame){ .parent = parent, .rule = rule_at, .depth = depth });
    if (top >= 0) feed(m, top, byte, to);
    if (to->n == kept) m->n = before;
}

/* Replaces the frame by `after` and begins a value above it. */
static void open_value(machine *m, const frame *after, int32_t rule_at, unsigned char byte, out *to)
{
    const int32_t before = m->n, kept = to->n, parent = push(m, after);
    if (parent >= 0) open_rule(m, rule_at, parent, after->depth + 1, byte, to);
    if (to->n == kept) m->n = before;
}

/* ---- Literals and names ---- */

/* The first of the parts from `from` on that has the k bytes of part `like`, and then the byte; -1: none. */
static int32_t next_match(const machine *m, const rule *r, int32_t like, int32_t k, int byte)
{
    const rule_part *const part = m->schema->part + r->part;
    for (int32_t i = like; i >= 0 && i < r->n; i++)
        if (part[i].text.bytes > (uint64_t)k && (unsigned char)part[i].text.text[k] == byte &&
            !memcmp(part[i].text.text, part[like].text.text, (size_t)k))
            return i;
    return -1;
}

/* The part that is exactly the k bytes of part `like`; -1: none. */
static int32_t exact_match(const machine *m, const rule *r, int32_t like, int32_t k)
{
    const rule_part *const part = m->schema->part + r->part;
    for (int32_t i = like; i >= 0 && i < r->n; i++)
        if (part[i].text.bytes == (uint64_t)k && !memcmp(part[i].text.text, part[like].text.text, (size_t)k)) return i;
    return -1;
}

static int literal(machine *m, frame f, const rule *r, unsigned char byte, out *to)
{
    f.candidate = r->n ? next_match(m, r, f.candidate, f.k, byte) : -1;
    f.k++;
    if (f.candidate < 0) return 0;
    keep_new(m, &f, to);
    return 1;
}

/* ---- Strings ---- */

/* The state of a UTF-8 character after a byte: 0 complete, 1 to 3 as many continuation bytes are missing, 4 to 7 the
 * next one has a smaller range. -1: not valid. */
static int continues(int utf8, unsigned char c)
{
    static const struct {
        unsigned char low, high;
        signed char then;
    } of[] = { { 0, 0, 0 },       { 0x80, 0xbf, 0 }, { 0x80, 0xbf, 1 }, { 0x80, 0xbf, 2 },
               { 0xa0, 0xbf, 1 }, { 0x80, 0x9f, 1 }, { 0x90, 0xbf, 2 }, { 0x80, 0x8f, 2 } };
    if (utf8) return c >= of[utf8].low && c <= of[utf8].high ? of[utf8].then : -1;
    if (c < 0x80) return c < 0x20 ? -1 : 0;
    if (c < 0xc2 || c > 0xf4) return -1;
    return c < 0xe0 ? 1 : c == 0xe0 ? 4 : c == 0xed ? 5 : c < 0xf0 ? 2 : c == 0xf0 ? 6 : c == 0xf4 ? 7 : 3;
}

static int hex_digit(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static void string(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    if (f.phase == BEGIN) {
        f.phase = WHOLE;
        if (c == '"') keep_new(m, &f, to);
    } else if (f.phase == ESCAPE) {
        if (c != 'u' && !(c && strchr("\"\\/bfnrt", c))) return;
        f.phase = c == 'u' ? HEX : WHOLE;
        f.k = 0;
        keep_new(m, &f, to);
    } else if (f.phase == HEX) { /* no surrogates: what is beyond 16 bits is written as it is */
        if (!hex_digit(c) || (f.k == 1 && f.escaped && c >= '8')) return;
        f.escaped = f.k == 0 && (c | 32) == 'd';
        if (++f.k == 4) f.phase = WHOLE;
        keep_new(m, &f, to);
    } else if (c == '"' && !f.utf8) {
        if (f.at >= r->least) keep(m, f.parent, to);
    } else {
        const int then = continues(f.utf8, c), begins = !f.utf8;
        const int ends_tag = m->schema->in_tags && f.minus && c == '/'; /* of "</", which may be written as "<\\/" */
        if (then < 0 || (begins && f.at >= r->most) || ends_tag) return;
        f.utf8 = (uint8_t)then;
        f.at += begins;
        f.escaped = 0;
        f.minus = c == '<';
        if (c == '\\' && begins) f.phase = ESCAPE;
        keep_new(m, &f, to);
    }
}

/* Text as it is. It may end before each character. k: bytes of the text that must not be in it. */
static void plain_text(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    const char *const not_in = r->text.text;
    if (f.at >= r->least && !f.utf8) feed(m, f.parent, c, to);
    const int begins = !f.utf8, then = begins && c && c < ' ' ? 0 : continues(f.utf8, c);
    if (then < 0 || (begins && f.at >= r->most)) return;
    f.utf8 = (uint8_t)then;
    f.at += begins;
    f.k = c == (unsigned char)not_in[f.k] ? f.k + 1 : c == (unsigned char)not_in[0];
    if ((uint64_t)f.k < r->text.bytes) keep_new(m, &f, to);
}

/* ---- Numbers ---- */

/* True if the magnitude, continued by any digits, can be in the range. */
static int reaches(const rule *r, const frame *f, int whole)
{
    const int64_t low = f->minus ? -r->most : r->least, high = f->minus ? -r->least : r->most;
    int64_t first = f->at, last = f->at;
    if (whole || !f->at) return first >= low && first <= high;
    for (int32_t k = f->k;; k++, first *= 10, last = last * 10 + 9) {
        if (last >= low && first <= high) return 1;
        if (k == DIGITS) return 0;
    }
}

static int integer(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    if (f.phase == BEGIN && c == '-') {
        f.phase = MINUS;
        f.minus = 1;
        if (r->least < 0) keep_new(m, &f, to);
        return 1;
    }
    if (c < '0' || c > '9' || f.phase == ZERO || f.k == DIGITS || (f.phase == MINUS && c == '0')) return 0;
    f.phase = f.phase != WHOLE && c == '0' ? ZERO : WHOLE;
    f.at = f.at * 10 + (c - '0');
    f.k++;
    if (reaches(r, &f, 0)) keep_new(m, &f, to);
    return 1;
}

static int number(machine *m, frame f, unsigned char c, out *to)
{
    const int digit = c >= '0' && c <= '9', before = f.phase;
    const int most = before == EXPONENT ? POWER_DIGITS : DIGITS;
    if (c == '-' && before == BEGIN) f.phase = MINUS;
    else if (digit && before <= MINUS) f.phase = c == '0' ? ZERO : WHOLE;
    else if (c == '.' && (before == ZERO || before == WHOLE)) f.phase = POINT;
    else if ((c | 32) == 'e' && (before == ZERO || before == WHOLE || before == FRACTION)) f.phase = POWER;
    else if ((c == '-' || c == '+') && before == POWER) f.phase = SIGN;
    else if (digit && before == POINT) f.phase = FRACTION;
    else if (digit && (before == POWER || before == SIGN)) f.phase = EXPONENT;
    else if (!digit || before == ZERO || f.k == most) return 0;
    f.k = f.phase == before ? f.k + 1 : 1;
    keep_new(m, &f, to);
    return 1;
}

/* The first part from f->at on that is required; r->n: none is. */
static int32_t first_required(const machine *m, const rule *r, const frame *f)
{
    int32_t i = (int32_t)f->at;
    while (i < r->n && !m->schema->part[r->part + i].required) i++;
    return i;
}

/* True if the value of the frame is complete, though it may go on. */
static int may_end(const machine *m, const frame *f)
{
    const rule *const r = &m->schema->rule[f->rule];
    if (r->kind == RULE_CASES) return f->phase == BEGIN && f->at && !f->k && first_required(m, r, f) == r->n;
    if (r->kind == RULE_LITERALS) return exact_match(m, r, f->candidate, f->k) >= 0;
    if (r->kind == RULE_INTEGER) return f->k && reaches(r, f, 1);
    return r->kind == RULE_NUMBER &&
           (f->phase == ZERO || f->phase == WHOLE || f->phase == FRACTION || f->phase == EXPONENT);
}

/* ---- Arrays ---- */

static int32_t item_rule(const machine *m, const rule *r, const frame *f)
{
    const int32_t of = f->at < r->n ? m->schema->part[r->part + f->at].rule : r->more;
    return f->at < r->most && fits(m, of, f->depth + 1) ? of : -1;
}

static void array(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    const int32_t item = item_rule(m, r, &f);
    if (f.phase == BEGIN) {
        f.phase = FIRST;
        if (c == '[') keep_new(m, &f, to);
    } else if (c == ']' && f.phase != NEXT && f.phase != VALUE) {
        if (f.at >= r->least) keep(m, f.parent, to);
    } else if (f.phase == AFTER) {
        f.phase = NEXT;
        if (c == ',' && item >= 0) keep_new(m, &f, to);
    } else if (f.phase == NEXT && c == ' ') {
        f.phase = VALUE;
        keep_new(m, &f, to);
    } else if (item >= 0) {
        f.phase = AFTER;
        f.at++;
        open_value(m, &f, item, c, to);
    }
}

/* ---- Objects ---- */

/* True if property i can come next: none that is required is left out. i = n: further properties. */
static int may_come(const machine *m, const rule *r, const frame *f, int32_t i)
{
    const int32_t of = i < r->n ? m->schema->part[r->part + i].rule : r->more;
    return i >= f->at && first_required(m, r, f) >= i && fits(m, of, f->depth + 1);
}

static int may_have_more(const machine *m, const rule *r, const frame *f)
{
    int any = may_come(m, r, f, r->n);
    for (int32_t i = (int32_t)f->at; !any && i < r->n; i++) any = may_come(m, r, f, i);
    return any;
}

/* The end of a name: that of a property, or of a further one. */
static void end_name(machine *m, frame f, const rule *r, out *to)
{
    const int32_t exact = exact_match(m, r, f.candidate, f.k);
    const int32_t is = exact >= 0 ? exact : r->n;
    if (f.utf8 || (exact < 0 && f.escaped) || !may_come(m, r, &f, is)) return;
    f.candidate = is;
    f.phase = COLON;
    keep_new(m, &f, to);
}

/* A byte of a name. Further properties have no escapes, so that none has the name of another property. */
static void name(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    const rule_part *const part = m->schema->part + r->part;
    const int32_t match = next_match(m, r, f.candidate, f.k, c);
    if (c == '"' && match < 0) {
        end_name(m, f, r, to);
        return;
    }
    const int then = f.escaped || c == '\\' ? 0 : continues(f.utf8, c);
    f.escaped |= c == '\\';
    int any = then >= 0 && !f.escaped && may_come(m, r, &f, r->n);
    for (int32_t i = match; !any && i >= 0 && i < r->n; i++)
        any = part[i].text.bytes > (uint64_t)f.k &&
              !memcmp(part[i].text.text, part[match].text.text, (size_t)f.k + 1) && may_come(m, r, &f, i);
    if (!any || then < 0) return;
    f.utf8 = (uint8_t)then;
    f.candidate = match;
    f.k++;
    keep_new(m, &f, to);
}

static void object(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    if (f.phase == BEGIN) {
        f.phase = FIRST;
        if (c == '{') keep_new(m, &f, to);
    } else if (c == '}' && (f.phase == FIRST || f.phase == AFTER)) {
        if (first_required(m, r, &f) == r->n) keep(m, f.parent, to);
    } else if (f.phase == AFTER) {
        f.phase = NEXT;
        if (c == ',' && may_have_more(m, r, &f)) keep_new(m, &f, to);
    } else if (f.phase == NEXT && c == ' ') {
        f.phase = SPACED;
        keep_new(m, &f, to);
    } else if (f.phase == KEY) {
        name(m, f, r, c, to);
    } else if (f.phase == COLON) {
        f.phase = VALUE;
        f.k = 0;
        if (c == ':') keep_new(m, &f, to);
    } else if (f.phase == VALUE && c == ' ' && !f.k) {
        f.k = 1;
        keep_new(m, &f, to);
    } else if (f.phase == VALUE) {
        const int32_t is = f.candidate, of = is < r->n ? m->schema->part[r->part + is].rule : r->more;
        f = (frame){
            .parent = f.parent, .rule = f.rule, .depth = f.depth, .phase = AFTER, .at = is < r->n ? is + 1 : is
        };
        open_value(m, &f, of, c, to);
    } else if (c == '"' && may_have_more(m, r, &f)) {
        f = (frame){ .parent = f.parent, .rule = f.rule, .depth = f.depth, .phase = KEY, .at = f.at };
        f.candidate = r->n ? 0 : -1;
        keep_new(m, &f, to);
    }
}

/* ---- Cases ---- */

/* The rule's text, after a part's value. */
static void case_end(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    if (c != (unsigned char)r->text.text[f.k++]) return;
    if ((uint64_t)f.k < r->text.bytes) {
        keep_new(m, &f, to);
    } else if (f.at == r->n) {
        keep(m, f.parent, to);
    } else {
        f.phase = BEGIN;
        f.k = 0;
        keep_new(m, &f, to);
    }
}

/* A byte of a part's text, or the first one of its value. No part's text begins with another's. */
static int cases(machine *m, frame f, const rule *r, unsigned char c, out *to)
{
    const rule_part *const part = m->schema->part + r->part;
    if (f.phase == AFTER) {
        case_end(m, f, r, c, to);
    } else if (f.phase == VALUE) {
        const frame after = {
            .parent = f.parent, .rule = f.rule, .depth = f.depth, .phase = AFTER, .at = part[f.candidate].next
        };
        open_value(m, &after, part[f.candidate].rule, c, to);
    } else {
        const int32_t i = next_match(m, r, f.k ? f.candidate : (int32_t)f.at, f.k, c);
        if (i < 0 || i > first_required(m, r, &f)) return 0;
        f.candidate = i;
        f.k++;
        if (part[i].text.bytes == (uint64_t)f.k) f.phase = VALUE;
        if (f.phase == VALUE && part[i].rule < 0) keep(m, f.parent, to);
        else keep_new(m, &f, to);
    }
    return 1;
}

/* ---- A byte ---- */

/* Thinking before the text. k: bytes of </think> that have come. Then k is the number of newlines that may come. */
static void think(machine *m, frame f, unsigned char c, out *to)
{
    static const char end[] = "</think>";
    f.k = c == (unsigned char)end[f.k] ? f.k + 1 : c == '<';
    if (!end[f.k]) {
        f.k = m->schema->is_free ? 0 : 2;
        f.phase = m->schema->is_free ? FREE : BEGIN;
    }
    keep_new(m, &f, to);
}

/* Any text, where a call may begin. k: bytes of its mark that have come. */
static void free_text(machine *m, frame f, unsigned char c, out *to)
{
    static const char mark[] = TOOL_MARK;
    f.k = c == (unsigned char)mark[f.k] ? f.k + 1 : c == '<';
    if (mark[f.k]) keep_new(m, &f, to);
    f.k = 0;
    if (c == '<') open_value(m, &f, m->schema->root, c, to);
}

/* Below the value: thinking and newlines before it, nothing after it. */
static void whole(machine *m, frame f, unsigned char c, out *to)
{
    if (f.phase == THINK) think(m, f, c, to);
    if (f.phase == FREE) free_text(m, f, c, to);
    if (f.phase != BEGIN) return;
    f.phase = AFTER;
    if (c == '\n' && f.k) {
        f.phase = BEGIN;
        f.k--;
        keep_new(m, &f, to);
    } else open_value(m, &f, m->schema->root, c, to);
}

static void feed(machine *m, int32_t top, unsigned char c, out *to)
{
    const frame f = m->frame[top];
    if (f.parent < 0) {
        whole(m, f, c, to);
        return;
    }
    const rule *const r = &m->schema->rule[f.rule];
    int taken = 1;
    if (r->kind == RULE_STRING) string(m, f, r, c, to);
    else if (r->kind == RULE_ARRAY) array(m, f, r, c, to);
    else if (r->kind == RULE_OBJECT) object(m, f, r, c, to);
    else if (r->kind == RULE_TEXT) plain_text(m, f, r, c, to);
    else if (r->kind == RULE_CASES) taken = cases(m, f, r, c, to);
    else if (r->kind == RULE_LITERALS) taken = literal(m, f, r, c, to);
    else taken = r->kind == RULE_INTEGER ? integer(m, f, r, c, to) : number(m, f, c, to);
    if (!taken && may_end(m, &f)) feed(m, f.parent, c, to);
}

int32_t schema_step(machine *m, const int32_t *top, int32_t n, unsigned char byte, int32_t *to)
{
    out o = { to, 0 };
    m->tried = 0;
    for (int32_t i = 0; i < n; i++) feed(m, top[i], byte, &o);
    return o.n;
}

/* ---- States ---- */

/* Keeps the frames of the stacks only. A parent has a lower index, so they move down in order. */
static void compact(rt_schema_state *s)
{
    machine *const m = &s->machine;
    int32_t n = 0, *const moved = s->moved;
    memset(moved, 0, (size_t)m->n * sizeof *moved);
    for (int32_t i = 0; i < s->n_tops; i++) moved[s->top[i]] = 1;
    for (int32_t i = m->n - 1; i >= 0; i--)
        if (moved[i] && m->frame[i].parent >= 0) moved[m->frame[i].parent] = 1;
    for (int32_t i = 0; i < m->n; i++) {
        if (!moved[i]) continue;
        m->frame[n] = m->frame[i];
        if (m->frame[n].parent >= 0) m->frame[n].parent = moved[m->frame[n].parent];
        moved[i] = n++;
    }
    for (int32_t i = 0; i < s->n_tops; i++) s->top[i] = moved[s->top[i]];
    m->n = n;
}

rt_schema_state *rt_schema_begin(const rt_schema *schema, int thinks)
{
    rt_schema_state *const s = rt_calloc(1, sizeof *s, "the state of a schema");
    if (!s) return NULL;
    s->machine = (machine){ .schema = schema, .frame = s->frame, .n = 1, .room = SCHEMA_FRAMES };
    s->frame[0] = (frame){ .parent = -1, .depth = -1, .phase = thinks ? THINK : schema->is_free ? FREE : BEGIN };
    s->n_tops = 1;
    return s;
}

void rt_schema_end(rt_schema_state *state) { rt_free(state); }

uint64_t rt_schema_feed(rt_schema_state *s, const char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int32_t top[SCHEMA_TOPS];
        const int32_t n_tops = schema_step(&s->machine, s->top, s->n_tops, (unsigned char)bytes[i], top);
        if (!n_tops) {
            compact(s);
            return i;
        }
        s->n_tops = n_tops;
        memcpy(s->top, top, sizeof top);
        compact(s);
    }
    return n;
}

static int has_phase(const rt_schema_state *s, int phase)
{
    for (int32_t i = 0; i < s->n_tops; i++)
        if (s->frame[s->top[i]].parent < 0 && s->frame[s->top[i]].phase == phase) return 1;
    return 0;
}

int rt_schema_thinks(const rt_schema_state *s) { return has_phase(s, THINK); }
int rt_schema_is_free(const rt_schema_state *s) { return has_phase(s, FREE); }

int rt_schema_complete(const rt_schema_state *s)
{
    for (int32_t i = 0; i < s->n_tops; i++) {
        const frame *f = &s->frame[s->top[i]];
        while (f->parent >= 0 && may_end(&s->machine, f)) f = &s->frame[f->parent];
        if (f->parent < 0 && (f->phase == AFTER || f->phase == FREE)) return 1;
    }
    return 0;
}
