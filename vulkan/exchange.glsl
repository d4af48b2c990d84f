// Exchanges between the eight lanes of gated_delta_net that hold C columns of a head, and the part of dot32's tree
// that goes through them. Included by gated_delta_net.comp behind the layout of its workgroups.
#ifdef GDN_SUBGROUP
uint lane_of_workgroup()
{
    return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
}
vec4 exchange(vec4 x, uint mask, uint turn)
{
    return subgroupShuffleXor(x, mask);
}
float exchange(float x, uint mask, uint turn)
{
    return subgroupShuffleXor(x, mask);
}
void exchange_two(inout vec4 x, inout vec4 y, uint mask, uint turn)
{
    x = subgroupShuffleXor(x, mask);
    y = subgroupShuffleXor(y, mask);
}
vec4 gather_columns(float x, uint turn)
{
    uint first = gl_SubgroupInvocationID & ~7u;
    vec4 all = vec4(0);
    EACH_COLUMN(c)
        all[c] = subgroupShuffle(x, first + uint(8 / C * c));
    return all;
}
#else
// Exchanges between lanes through shared memory, in three areas ("boards") that are used one after the other: a lane
// that writes to one has passed the barrier of a later exchange, before which every lane has read it. So an exchange
// costs one barrier instead of two, as long as two exchanges in a row never use the same area.
shared vec4 board[6 * gl_WorkGroupSize.x];
uint lane_of_workgroup()
{
    return gl_LocalInvocationIndex;
}
uint word_of(uint turn, uint lane)
{
    return 2 * (turn * gl_WorkGroupSize.x + lane);
}
void exchange_two(inout vec4 x, inout vec4 y, uint mask, uint turn)
{
    board[word_of(turn, gl_LocalInvocationIndex)] = x;
    board[word_of(turn, gl_LocalInvocationIndex) + 1] = y;
    barrier();
    x = board[word_of(turn, gl_LocalInvocationIndex ^ mask)];
    y = board[word_of(turn, gl_LocalInvocationIndex ^ mask) + 1];
}
vec4 exchange(vec4 x, uint mask, uint turn)
{
    board[word_of(turn, gl_LocalInvocationIndex)] = x;
    barrier();
    return board[word_of(turn, gl_LocalInvocationIndex ^ mask)];
}
float exchange(float x, uint mask, uint turn)
{
    board[word_of(turn, gl_LocalInvocationIndex)].x = x;
    barrier();
    return board[word_of(turn, gl_LocalInvocationIndex ^ mask)].x;
}
vec4 gather_columns(float x, uint turn)
{
    uint first = gl_LocalInvocationIndex & ~7u;
    board[word_of(turn, gl_LocalInvocationIndex)].x = x;
    barrier();
    vec4 all = vec4(0);
    EACH_COLUMN(c)
        all[c] = board[word_of(turn, first + uint(8 / C * c))].x;
    return all;
}
#endif

// The steps h = 8, 4, 2, 1 of the tree. x: this lane's partial sums; given: those that the lane l^2 goes on with.
float fold_rest(vec4 x, vec4 given, uint t1, uint t2)
{
    precise vec4 c = x + exchange(given, 2, t1);
    precise vec4 s = c + exchange(c, 1, t2);
    precise vec2 pair = s.xy + s.zw;
    precise float sum = pair.x + pair.y;
    return sum;
}

// Columns of a lane group after fold(): the highest bits of the lane, as many as there are. t0, t1, t2: boards of the
// exchanges. Where a step pairs lanes, each keeps half of the columns while there are several.
float fold(vec4 partial[4], uint lane, uint t0, uint t1, uint t2)
{
    bool upper = (lane & 4) != 0, right = (lane & 2) != 0;
    if (C < 4) { // h = 16
        vec4 given = C == 2 && !upper ? partial[1] : partial[0], own = C == 2 && upper ? partial[1] : partial[0];
        precise vec4 x = own + exchange(given, 4, t0);
        return fold_rest(x, x, t1, t2);
    }
    // h = 16: of four columns each half of the lanes keeps two
    vec4 from0 = upper ? partial[0] : partial[2], from1 = upper ? partial[1] : partial[3];
    exchange_two(from0, from1, 4, t0);
    precise vec4 a = (upper ? partial[2] : partial[0]) + from0;
    precise vec4 b = (upper ? partial[3] : partial[1]) + from1;
    // h = 8: of two columns, one
    return fold_rest(right ? b : a, right ? a : b, t1, t2);
}
