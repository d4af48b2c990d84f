/* The kernel table of an instruction set, made of the functions in the *.inc.h files. */
const rt_kernels RT_TABLE = {
    RT_ISA, quantize, product, rms_norm, add, swiglu, sigmoid_gate, rope, softmax, exponentials, &RT_SCORES,
};
