#define PASSING_KERNELS avx512
#define PASSING_KERNELS_NAME "avx512"
#include "numeric/kernels.inc"
