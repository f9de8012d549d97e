#define PASSING_KERNELS avx2
#define PASSING_KERNELS_NAME "avx2"
#include "numeric/kernels.inc"
