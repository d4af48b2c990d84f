/* For kernels that include it: what the emulator has of it is in cuda_shim.h. */
