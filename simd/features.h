/* What this processor and its operating system can run. Compiled into the library and into the runtime. */
#ifndef GDN_SIMD_FEATURES_H
#define GDN_SIMD_FEATURES_H

#include <stddef.h>

void gdn_simd_name(char *name, size_t size); /* the processor's own name, where it has one */
int gdn_simd_has_fma(void);                  /* FMA, and so AVX; cheap, because it is called often */
int gdn_simd_has_avx2(void);                 /* AVX2, FMA, F16C           */
int gdn_simd_has_avx2_vnni(void);            /* and AVX-VNNI              */
int gdn_simd_has_avx512(void);               /* AVX2 and AVX-512 F, BW, DQ, VL */
int gdn_simd_has_avx512_bf16(void);          /* and conversions to BF16  */
int gdn_simd_has_avx512_vnni(void);          /* and VNNI                  */
int gdn_simd_has_avx512_amx(void);           /* and AMX-INT8, which it asks the system for */

#endif
