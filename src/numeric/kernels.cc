#include "numeric/kernels.h"

#include <array>

namespace passing::numeric {

namespace generic {
extern const Kernels table;
}
#ifdef PASSING_KERNELS_X86
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

namespace {

struct Available {
  std::array<const Kernels*, 3> tables{&generic::table};
  std::size_t count = 1;

  Available() {
#ifdef PASSING_KERNELS_X86
    if (__builtin_cpu_supports("avx2")) tables[count++] = &avx2::table;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      tables[count++] = &avx512::table;
    }
#endif
  }
};

const Available& available() {
  static const Available instance;
  return instance;
}

}  // namespace

const Kernels& kernels() { return *available().tables[available().count - 1]; }

std::span<const Kernels* const> all_kernels() { return {available().tables.data(), available().count}; }

}  // namespace passing::numeric
