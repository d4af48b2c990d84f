// Exchanges between the eight lanes of gated_delta_net that share C value channels of a head, and dot32's tree over
// them. gated_delta_net.comp includes it after the layout of its workgroups.
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
vec4 gather_values(float x, uint turn)
{
    uint first = gl_SubgroupInvocationID & ~7u;
    vec4 all = vec4(0);
    EACH_VALUE(c)
        all[c] = subgroupShuffle(x, first + uint(8 / C * c));
    return all;
}
#else
// Exchanges between lanes through shared memory. There are three areas ("boards"), used in turn. A lane that writes to
// a board has passed the barrier of a later exchange, and every lane has read the board before that barrier. So an
// exchange costs one barrier instead of two, if consecutive exchanges use different boards.
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
vec4 gather_values(float x, uint turn)
{
    uint first = gl_LocalInvocationIndex & ~7u;
    board[word_of(turn, gl_LocalInvocationIndex)].x = x;
    barrier();
    vec4 all = vec4(0);
    EACH_VALUE(c)
        all[c] = board[word_of(turn, first + uint(8 / C * c))].x;
    return all;
}
#endif

// The steps h = 8, 4, 2, 1 of the tree. x: this lane's partial sums; given: those with which the lane l^2 continues.
float fold_rest(vec4 x, vec4 given, uint t1, uint t2)
{
    precise vec4 c = x + exchange(given, 2, t1);
    precise vec4 s = c + exchange(c, 1, t2);
    precise vec2 pair = s.xy + s.zw;
    precise float sum = pair.x + pair.y;
    return sum;
}

// The tree over C value channels. The highest bits of the lane tell which channel's sum it gets. t0, t1, t2: boards of
// the exchanges. Where a step pairs lanes and there are several channels, each lane continues with half of them.
float fold(vec4 partial[4], uint lane, uint t0, uint t1, uint t2)
{
    bool upper = (lane & 4) != 0, right = (lane & 2) != 0;
    if (C < 4) { // h = 16
        vec4 given = C == 2 && !upper ? partial[1] : partial[0], own = C == 2 && upper ? partial[1] : partial[0];
        precise vec4 x = own + exchange(given, 4, t0);
        return fold_rest(x, x, t1, t2);
    }
    // h = 16: of four channels each half of the lanes keeps two
    vec4 from0 = upper ? partial[0] : partial[2], from1 = upper ? partial[1] : partial[3];
    exchange_two(from0, from1, 4, t0);
    precise vec4 a = (upper ? partial[2] : partial[0]) + from0;
    precise vec4 b = (upper ? partial[3] : partial[1]) + from1;
    // h = 8: of two channels, one
    return fold_rest(right ? b : a, right ? a : b, t1, t2);
}
