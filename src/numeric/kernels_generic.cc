#define PASSING_KERNELS generic
#define PASSING_KERNELS_NAME "generic"
#include "numeric/kernels.inc"
