/* gated_delta_net: random cases and the fixed list. */
#include "specs.h"

#include "families.h"

static void random_case(check_spec *spec, check_rng *rng)
{
    delta_random(&spec->gated_delta_net, rng, check_one_in(rng, 20) ? 1500000 : 200000);
}

static void begin(check_spec *spec)
{
    delta_spec *const d = &spec->gated_delta_net, of = *d;
    const int sized = of.n_heads_k > 0;
    delta_defaults(d, sized ? of.n_heads_k : 1, sized ? of.n_heads_v : 1, sized ? of.dim_k : 1, sized ? of.dim_v : 1);
    if (!sized) return;
    d->n_slots = of.n_slots;
    d->n_slots_out = of.n_slots_out;
    d->n_snapshots = of.n_snapshots;
    delta_batch(d, of.n_seqs, 1);
}

#define ONE(member)       CHECK_MEMBER(#member, delta_spec, member, 0)
#define EACH(member)      CHECK_MEMBER(#member, delta_spec, seq[0].member, sizeof(delta_seq))
#define OF(name, operand) CHECK_MEMBER("values_" #name, delta_spec, values[DELTA_##operand], 0)

static const check_member members[] = { { ONE(n_seqs) },
                                        { ONE(n_heads_k) },
                                        { ONE(n_heads_v) },
                                        { ONE(dim_k) },
                                        { ONE(dim_v) },
                                        { ONE(head_map) },
                                        { ONE(gate) },
                                        { ONE(layout) },
                                        { ONE(n_rows) },
                                        { ONE(n_slots) },
                                        { ONE(n_rows_out) },
                                        { ONE(n_slots_out) },
                                        { ONE(n_snapshots) },
                                        { ONE(where) },
                                        { ONE(scale) },
                                        { ONE(dtype) },
                                        { ONE(dtype_g) },
                                        { ONE(dtype_beta) },
                                        { ONE(dtype_a) },
                                        { ONE(dtype_bias) },
                                        { ONE(dtype_out) },
                                        { ONE(qk_norm) },
                                        { ONE(g_form) },
                                        { ONE(beta_form) },
                                        { ONE(has_bias) },
                                        { ONE(read_key) },
                                        { ONE(dtype_read) },
                                        { ONE(eps) },
                                        { ONE(beta_factor) },
                                        { ONE(lower_bound) },
                                        { ONE(no_a) },
                                        { ONE(lead) },
                                        { ONE(tail) },
                                        { ONE(map_start) },
                                        { ONE(map_src) },
                                        { ONE(map_dst) },
                                        { ONE(map_position) },
                                        { ONE(interval) },
                                        { ONE(n_checkpoints) },
                                        { ONE(log_rows) },
                                        { ONE(log_slots) },
                                        { ONE(map_log_row) },
                                        { ONE(map_base_position) },
                                        { ONE(map_commit) },
                                        { ONE(tree) },
                                        { ONE(map_parent) },
                                        { ONE(dtype_state) },
                                        { ONE(state_interval) },
                                        { ONE(strided) },
                                        { ONE(same_keys) },
                                        { OF(q, Q) },
                                        { OF(k, K) },
                                        { OF(v, V) },
                                        { OF(g, G) },
                                        { OF(beta, BETA) },
                                        { OF(state, STATE) },
                                        { OF(a, A) },
                                        { EACH(length) },
                                        { EACH(src) },
                                        { EACH(dst) },
                                        { EACH(position) },
                                        { EACH(checkpoint) },
                                        { EACH(log_row) },
                                        { EACH(n_replayed) },
                                        { EACH(commit) },
                                        { EACH(parent) },
                                        { NULL, 0, 0, 0, 0 } };

#define GATE   "{gate:scalar|channel}"
#define LAYOUT "{layout:vk|kv}"
#define WAYS   GATE "_" LAYOUT
#define TYPES  "f32|f16|bf16"
#define HALVES "f16|bf16"
#define WHERE  "{where:in_place|same|apart}"
#define MODEL  "n_heads_k=16 n_heads_v=32 dim_k=dim_v=128 "
#define SHAPES "parent=has(comb)?i<2?none:i-2:has(star)?none:drawn "

/* Calls that each need something of their own. */
#define EDGE(name, set) name "/" WAYS " n_heads_v=2 dim_k=32 dim_v=40 " set
#define RAGGED          "n_seqs=8 length=0,5,0,0,1,12,0,2 map_start=1 "
#define STRIDED         "n_slots=n_slots_out=n_snapshots=3 n_seqs=3 length=5 strided=1 "

/* Values of one operand. */
#define OF_VALUES "_" WAYS " n_heads_k=n_heads_v=2 dim_k=48 dim_v=32 n_seqs=2 length=5 "
#define OPERANDS(values, operands)                                                                                     \
    "values/{v:" values "}{o:" operands "}" OF_VALUES                                                                  \
    "values_q=has(_q)?v:small values_k=has(_k)?v:small values_v=has(_v)?v:normal values_state=has(_state)?v:normal"

/* Two sequences, each of which has a tree and a row of the log; m mixes the ways. */
#define TREE                                                                                                           \
    "n_snapshots=0 n_seqs=2 n_rows=n_rows_out=4 where=m%3 values_g=gate_slow log_rows=3 log_slots=length+3 tree=1 "    \
    "map_parent=map_src=map_position=map_base_position=map_log_row=map_commit=1 log_row=2-s n_replayed=(m+s)%4 "       \
    "position=(3+s)*log_slots+s-2 commit=(m+s)%2?m%4==1?s:2+s:none src=m%5==4&&s?none:src "

static const char *const lines[] = {
    "sizes/k{dim_k,dim_v:16_v16|16_v64|17_v17|17_v128|24_v24|24_v16|31_v31|31_v33|32_v32|32_v100|33_v33|33_v255|"
    "48_v48|48_v31|64_v64|64_v65|65_v65|65_v129|96_v96|96_v17|100_v100|100_v48|127_v127|127_v127|128_v128|128_v256|"
    "129_v129|129_v32|192_v192|192_v96|255_v255|255_v192|256_v256|256_v24"
    "}_" WAYS " n_heads_v=2 n_seqs=2 length=3",
    "heads/{n_heads_k,n_heads_v:1_of_1|1_of_4|2_of_4|3_of_3|3_of_9|16_of_32|1_of_17}_{head_map:grouped|tiled}_" GATE
    " dim_k=dim_v=32 n_seqs=2 length=2",
    "tokens/{length:1|2|3|4|5|7|8|9|15|16|17|31|32|33|63|64|65|100|127|128|129|200|256}_" WAYS
    " n_heads_v=2 dim_k=128 dim_v=64 values_g=gate_slow",
    /* Long calls at sizes that leave remainders: implementations cut tokens into chunks and columns into blocks. */
    "chunks/k{dim_k,dim_v:16_v16|33_v17|64_v40|32_v100|100_v72}_T{length:75|150|300}_" WAYS
    " n_slots=n_slots_out=n_snapshots=2 values_g=gate_slow",
    "types/q_{a:" TYPES "}_k_{b:" TYPES "}_v_{c:" TYPES "}"
    " n_heads_k=n_heads_v=2 dim_k=48 dim_v=40 n_seqs=2 length=3 dtype=a,b,c",

    /* One token, which implementations treat apart: lines of the state that lie differently where they are read and
     * where they are written, snapshots in place, elsewhere and nowhere, and every type of q, k and v. */
    "decode/k{dim_k,dim_v:64_v64|128_v128|128_v40|256_v64}_" GATE "_" WHERE "_{dtype:" TYPES "}_{strided:packed|gaps}"
    " n_heads_k=2 n_heads_v=4 n_slots=n_slots_out=2 n_seqs=3 map_src=map_dst=1 dst=0,3,none",

    "snapshots/K{n_slots:1|2|3|4|8|16}_T{length:0|1|2|3|4|5|8|9|17}_" WHERE
    " n_heads_v=2 dim_k=24 dim_v=16 n_slots_out=n_snapshots=n_slots n_seqs=2 layout=(#n_slots+#length)%2",
    "snapshots/ring_at_{p:0|1|2|3|4|5|6|7|8}" /* each sequence in another row of five slots */
    " n_heads_v=2 dim_k=dim_v=32 n_slots=n_slots_out=n_snapshots=5 n_seqs=3 length=4 map_src=map_dst=1 "
    "src=p+s?10-5*s+(p+s)%5:none dst=i<4?10-5*s+(p+s+4-i)%5:none",

    EDGE("no_sequences", "n_seqs=0"),
    EDGE("no_tokens", "n_seqs=3 length=0"),
    EDGE("no_tokens_maps", "n_seqs=3 length=0 map_start=map_src=map_dst=1 lead=2"),
    EDGE("ragged", RAGGED),
    EDGE("ragged_windows", RAGGED "lead=3 tail=4 strided=1"),
    EDGE("all_skipped", "n_seqs=4 length=3 map_src=map_dst=1 src=skip"),
    EDGE("some_skipped", "n_seqs=6 length=3 map_src=map_dst=1 src=s%2?src:skip"),
    /* Padding in both maps, while row 0 belongs to a live sequence: a peer clamped -1 to 0 and overwrote it. */
    EDGE("padding_beside_row_0", "n_seqs=4 length=2 map_src=map_dst=1 src=0,skip,none,none dst=0,none,none,none"),
    EDGE("from_zero", "n_seqs=4 length=2 map_src=1 src=none"),
    EDGE("nothing_kept", "n_seqs=4 length=2 map_dst=1 dst=none"),
    EDGE("shared_source", "n_seqs=4 length=2 n_rows=n_rows_out=5 map_src=map_dst=1 src=2 dst=0,1,3,4"),
    EDGE("permuted_rows", "n_seqs=6 map_src=map_dst=1 src=dst=(s*5+3)%6"),
    EDGE("other_slot", "n_slots=n_slots_out=3 n_seqs=3 length=4 map_src=map_dst=1 src=s*3+1 dst=s*3+2"),
    EDGE("only_older_snapshot", "n_slots=n_slots_out=n_snapshots=4 n_seqs=2 length=6 map_dst=1 dst=i==2?dst:none"),
    EDGE("strided", STRIDED),
    EDGE("strided_half", STRIDED "dtype=f16 dim_k=33 dim_v=47"),
    EDGE("same_keys", "n_seqs=2 length=3 same_keys=1"),
    EDGE("long_memory", "length=300 values_g=gate_slow"),
    EDGE("tiny_scale", "length=3 scale=-1e-41"),
    OPERANDS("subnormal", "_state|_q|_k|_v"),
    OPERANDS("huge", "_state|_v|_k"),
    OPERANDS("wide", "_q"),
    OPERANDS("zeros", "_k|_state"),
    "values/{values_g:gate_edge|gate_under|gate_zero}" OF_VALUES,
    "values/gate_{values_g:wide|special}" OF_VALUES,
    OPERANDS("nan", "_q|_v"),
    OPERANDS("special", "_k|_state"),
    "values/beta_{values_beta:wide}" OF_VALUES,

    "threads/{kind:library|pool|reverse}_{threads:1|2|3|4|5|6|7|8} n_heads_k=2 n_heads_v=4 dim_k=dim_v=64 "
    "n_slots=n_slots_out=n_snapshots=2 n_seqs=3 length=3",
    /* Every other sequence is empty and names as its source the slot that the next one writes: allowed, since it
     * reads nothing. Who reads all the same races with that writer, which ThreadSanitizer sees. */
    "threads/empty_source_{threads:2|3|4|5|6|7|8} kind=pool n_heads_k=2 n_heads_v=4 dim_k=dim_v=64 n_seqs=12 "
    "map_start=map_src=map_dst=1 length=s%2*2 src=s%2?none:s+1 dst=s%2?dst:none",
    "mode/{environment:0|1|2|3|4|5|6}_{kind:library|pool}_{v:normal|subnormal} threads=2 n_heads_k=n_heads_v=2 "
    "dim_k=33 dim_v=40 n_seqs=2 length=4 values_state=values_v=v",
    /* Numbers that are compared and computed outside of the kernels. */
    "mode/{environment:0|1|2|3|4|5|6}_{w:scale|norm} n_heads_v=2 dim_k=20 dim_v=31 length=6 scale=w?0:-1e-41 "
    "qk_norm=2*w eps=w*3e-7",

    /* The cases of ggml's own operator tests (version 0.21, tests/test-backend-ops.cpp), as calls of ours. ggml passes
     * the initial states apart from the K snapshots that it returns, newest first, and maps heads as h % n_heads_k. Its
     * tests allow an error; these compare bits. Each is there twice: "_slow" has gates near 0, with which the state is
     * not forgotten and errors would add up. */
    "ggml/gdn/S{dim_k}{z:|_slow} {dim_k,n_heads_k,length,n_seqs:128_H32_T1_B1|16_H32_T1_B1|16_H32_T1_B1_kda|"
    "16_H32_T1_B1_perm_kda|64_H16_T1_B2|64_H4_T4_B1|64_H4_T4_B2|32_H8_T4_B2_rep2|64_H4_T4_B1_perm|64_H4_T4_B2_perm|"
    "64_H4_T1_B1_kda|64_H4_T1_B2_kda|16_H4_T1_B2_kda|32_H4_T4_B1_kda|64_H4_T4_B2_kda|32_H8_T4_B2_rep2_kda|"
    "64_H4_T4_B2_perm_kda|16_H4_T4_B2_perm_kda|64_H4_T64_B1|64_H4_T65_B1|64_H4_T100_B1|64_H4_T127_B1|64_H4_T200_B1|"
    "64_H4_T256_B1|64_H4_T127_B2|64_H4_T33_B1_kda|64_H4_T64_B1_kda|64_H4_T100_B1_kda|16_H4_T2_B1_K2|32_H4_T4_B1_K4|"
    "64_H4_T4_B2_K4|128_H8_T4_B1_K4|64_H4_T4_B2_kda_K4|32_H8_T4_B2_rep2_kda_K4|32_H4_T8_B1_K3|64_H4_T16_B2_K4} "
    "dim_v=dim_k n_heads_v=n_heads_k*(1+has(_rep2)) head_map=tiled gate=has(_kda) strided=has(_perm) where=apart "
    "n_slots_out=n_snapshots=has(_K4)?4:has(_K3)?3:1+has(_K2) values_g=z?gate_slow:gate_ggml",

    /* Every form of q and k, g and beta, for one token of the usual head, a few tokens, and more than a chunk. */
    "forms/T{length:1|5|40|20}_{qk_norm:plain|add|clamp}_{g_form:log|linear|raw|a_log|bounded}_"
    "{beta_form:beta|logit}_" WAYS
    " n_heads_k=2 n_heads_v=4 dim_k=#length%2?33:128 dim_v=pick(#length,64,40,48,40) n_seqs=2 eps=(qk_norm>0)*1e-6 "
    "lower_bound=g_form==bounded?-5:0 no_a=g_form==bounded&&qk_norm beta_factor=2*beta_form has_bias=g_form>1 "
    "values_q=values_k=qk_norm?normal:small values_g=pick(g_form,gate_model,unit,normal,normal,normal) "
    "values_a=g_form==raw?gate_model:normal values_beta=beta_form?normal:unit",
    /* A norm of what has none, or too much of it. */
    "norms/{n:add|clamp}_{v:zeros|subnormal|huge|wide|special}_eps{e:0|1|2}_T{length:1|4} n_heads_v=2 dim_k=128 "
    "dim_v=32 n_seqs=2 qk_norm=1+n eps=pick(e,0,1e-40,1e-6) values_q=values_k=v",
    /* g, beta, ssm_a, dt_bias and out in each type. */
    "types/gates_{g:" TYPES "}_out_{dtype_out:" TYPES "}_T{length:1|3|40}_" WAYS
    " n_heads_v=2 dim_k=#length?48:128 dim_v=72 n_seqs=2 g_form=raw has_bias=1 "
    "dtype_g=dtype_beta=dtype_a=dtype_bias=g values_a=gate_model values_g=normal",
    /* One thing that is not as by default, and nothing else: a backend may choose a kernel by it. */
    "forms/alone_{w:norm|linear|logit|factor|g_f16|beta_f16|out_f16}_" GATE "_T{length:1|40}"
    " n_heads_v=2 dim_k=128 dim_v=32 n_seqs=2 qk_norm=has(norm) g_form=has(linear) beta_form=has(logit) "
    "values_g=has(linear)?unit:gate_model beta_factor=2*has(factor) dtype_g=has(g_f16) dtype_beta=has(beta_f16) "
    "dtype_out=has(out_f16)",
    /* A read key: every order of loops, with everything else that a call may have. With a log each sequence replays at
     * least one token, and 16-bit states have even base positions. l: a log, m: prefill and decode in one batch. A norm
     * does not change the read key. */
    "read_key/{w:plain|log|tree|half|half_log|half_tree}_T{length:1|5|20|40}_k{dim_k:128|33|64}_" WAYS
    " l=has(log)||has(tree) m=w+#length+#dim_k+gate+layout n_heads_k=2 n_heads_v=4 dim_v=pick(#dim_k,64,40,48) "
    "n_seqs=2 read_key=1 dtype_read=m%3 dtype_state=has(half)*(1+m%2) state_interval=has(half)*(1+l) "
    "n_snapshots=!has(tree) log_rows=2*l log_slots=l*(length+4) map_position=map_base_position=map_commit=l "
    "map_dst=has(log) log_row=l*s n_replayed=l*(2*s+2) position=(l*(3*length+14+s))/2*2 commit=has(tree)?src:none "
    "dst=state_interval>1&&(position+length-i)%2?none:dst tree=map_parent=has(tree) qk_norm=m%2 eps=m%2*1e-6 "
    "values_q=values_k=m%2?normal:small",

    /* Two sequences at positions that are apart, each with a few checkpoints behind all rows of the batch: short and
     * long ones, so that every order of loops and every way to cut the tokens meets them, at the first token, the last,
     * on the way, and where a snapshot is; more of them than there are entries, and fewer. */
    "checkpoints/T{length:1|3|6|16|17|33|70}_N{interval:1|2|3|16|32|64}_k{dim_k:128|33}_" LAYOUT
    " a=#length b=#interval n_heads_v=2 dim_v=dim_k==33?40:64 n_slots=n_slots_out=n_snapshots=1+b%2 n_seqs=2 "
    "n_rows=n_rows_out=6 where=(a+b+layout)%3 gate=(a+b+#dim_k)%2 values_g=gate_slow n_checkpoints=2*n_slots "
    "map_position=(a+b)%3!=0 position=map_position*(2+29*s+a) checkpoint=i==1&&a==2?none:(4-2*s)*n_slots+i",

    /* Two sequences, of which one has a state that commits in place, elsewhere or not at all, and both begin where the
     * ring is about to wrap; with tokens for every order of loops and without any, with nothing to repeat and with as
     * much as fits. Where a, b and others are added up, it is to meet everything with everything in few cases. */
    "log/T{length:0|1|2|4|5|16|17|40}_R{n_replayed:0|1|3|8}_k{dim_k,dim_v:128_v64|33_v40|128_v128}_" LAYOUT
    " a=#length b=#n_replayed d=#dim_k m=a+b+d+layout n_heads_v=2 n_slots=n_slots_out=2 n_snapshots=map_dst=m%3==2 "
    "n_seqs=2 n_rows=n_rows_out=4 where=(a+layout)%3 gate=(a+b)%2 head_map=d%2 values_g=gate_slow log_rows=3 "
    "log_slots=length+n_replayed+m%2+!(length+n_replayed) "
    "map_src=map_position=map_base_position=map_log_row=map_commit=1 "
    "log_row=2-s position=(3+s)*log_slots+n_replayed/2+s commit=pick(a+b+s,src,4+2*s,none) dst=5+2*s "
    "src=s&&d==1?none:src",
    /* What a server has in one call: prompts that nothing is taken back of, which have no row of the log; drafts of
     * others, that are verified; one that has many tokens and a row, or is committed as well; and one that is only
     * committed. Devices may take each kind another way. With the types and forms of models, and without. */
    "log/prompts_k{dim_k,dim_v:64_v40|128_v64|128_v44}_" GATE "_{w:plain|model}"
    " m=#w n_heads_v=2 n_seqs=6 n_rows=n_rows_out=7 map_start=map_position=map_base_position=map_log_row=map_commit=1 "
    "n_snapshots=map_dst=!gate layout=(#dim_k+m)%2 log_rows=5 log_slots=14 length=50,4,2,20,12,0 "
    "log_row=none,0,1,none,2,3 position=20+s n_replayed=0,2,0,0,1,2 commit=none,src,none,6,none,src dst=s%2?none:src "
    "dtype=dtype_g=dtype_beta=dtype_out=m?bf16:f32 qk_norm=m eps=m*1e-6 g_form=m?raw:0 beta_form=has_bias=m "
    "values_g=m?normal:gate_slow values_a=m?gate_model:normal",
    "log/model_" GATE "_{head_map:grouped|tiled}" /* the usual head counts, verifying */
    " " MODEL "length=4 n_snapshots=0 log_rows=1 log_slots=8 map_position=map_base_position=map_commit=1 position=14 "
    "n_replayed=3 commit=src",

    /* Trees of a few and of many tokens, of every shape, for every order of loops, and longer than what is kept of
     * keys. A comb has two branches side by side, whose tokens take turns; the tokens of a star all follow the state.
     */
    "tree/{h}_T{length:2|3|8|17|40|70}_k{dim_k,dim_v:128_v64|33_v40|128_v128}_{gate?scalar|channel}_" LAYOUT
    " {h:random|comb|star} m=#length+#dim_k+layout+h n_heads_v=2 gate=(#length+#dim_k+h)%2 head_map=#dim_k%2 "
    "dtype=(#length+h)%3 " TREE SHAPES,
    "tree/{h}_T310_k16_v16_" GATE "_vk"
    " {h:random|comb} m=h dim_k=dim_v=16 length=310 " TREE SHAPES,
    "tree/model_" GATE " " MODEL "m=1 length=8 " TREE "n_seqs=1",

    /* States of 16 bits: every order of loops, from a state and from zeros, with a snapshot of every token, in place
     * and in another slot. Their decays are close to 1, so that roundings stay visible. */
    "state16/{dtype_state:" HALVES "}_T{length:1|2|4|5|16|17|40}_k{dim_k,dim_v:128_v64|33_v40|64_v24|128_v128}_" LAYOUT
    " a=#length d=#dim_k n_heads_v=2 n_slots=n_slots_out=n_snapshots=(a+d)%3+1 n_seqs=2 where=(a+layout)%3 "
    "gate=(a+d+dtype_state)%2 values_g=gate_slow map_src=d==2 src=s&&d==2?none:src",
    /* Sums halfway between two neighbours: from zeros and with a beta of 1, the state is a product with a power of two.
     * And values that are too large, too small, zero or special. */
    "state16/{dtype_state:" HALVES "}_{v:ties|wide|huge|subnormal|zeros|special}_T{length:1|3|20}_" LAYOUT
    " n_heads_v=2 dim_k=#length?48:128 dim_v=32 n_slots=n_slots_out=n_snapshots=2 n_seqs=2 state_interval=map_src=1 "
    "src=none,src beta_form=1 beta_factor=2 values_beta=values_g=gate_zero values_k=powers "
    "values_state=v==ties?normal:v values_v=v",
    /* With a log, rounded after every so many tokens: of three sequences the first has a row, begins between two
     * roundings, repeats and commits; the second begins at one, and has no row; the third has nothing but what it
     * commits. */
    "state16/{dtype_state:" HALVES "}_every{n}_T{t:1|3|8|17|40}_{layout}"
    " {n:1|2|4|5|16} " LAYOUT " a=#t b=#n d=(a+b+dtype_state)%2 n_heads_v=2 dim_k=d?33:128 dim_v=d?40:64 n_seqs=3 "
    "n_rows=n_rows_out=8 map_start=map_src=map_dst=map_position=map_base_position=map_log_row=map_commit=1 "
    "where=(a+layout)%3 gate=(a+b)%2 values_g=gate_slow state_interval=n interval=n*(1+(a+b)%2) n_checkpoints=1 "
    "log_rows=3 log_slots=t+2*n+3 length=t,t,0 position=(7+s)*n+(s==1?0:(a+s)%n) "
    "n_replayed=s==1?0:position%n+(a+s)%2*n log_row=2,none,0 commit=s==2||(a+layout)%2?src:none checkpoint=3+s "
    "dst=(position+length)%n?none:s==1?7:6",
    /* Trees, whose tokens are counted along their branches. Long branches from a trunk of 30 tokens repeat 18 to 24
     * ancestors each. And the usual head counts. */
    "state16/{dtype_state:" HALVES "}_tree_every{n}_T{length:3|8|40}_{layout}"
    " {n:1|2|5} " LAYOUT " a=#length b=#n n_heads_v=2 dim_k=a==1?33:128 dim_v=a==2?40:64 n_snapshots=0 n_seqs=2 "
    "gate=(a+b)%2 values_g=gate_slow state_interval=n tree=map_parent=map_position=map_base_position=map_commit=1 "
    "log_rows=2 log_slots=length+2*n log_row=s position=4*n+(a+s)%n n_replayed=position%n+s*n commit=s?src:none "
    "parent=a==2&&s?i<30?i-1:17+i%7:drawn",
    "state16/{dtype_state:" HALVES "}_model_" GATE "_T{length:1|4}"
    " " MODEL,

    /* Many tokens per sequence at the sizes of models, which devices may treat apart: sequences of different lengths
     * that begin with a state, with none, or are padding, and values that are no whole number of anything. The last,
     * since some runs take every nth. */
    "prefill/k{dim_k:64|128|256}_" GATE "_{dtype:" TYPES "}"
    " n_heads_v=2 dim_v=44 n_slots=n_slots_out=n_snapshots=3 n_seqs=4 length=11,1,30,9 map_start=map_src=map_dst=1 "
    "src=none,src,src,skip layout=(#dim_k+gate+#dtype)%2 strided=#dtype%2",
    NULL,
};

const check_suite check_suite_gated_delta_net = { &check_kernel_gated_delta_net, random_case, begin, members, lines,
                                                  check_families_gated_delta_net };
