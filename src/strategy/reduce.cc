#include "strategy/reduce.h"

#include "numeric/float_mode.h"
#include "numeric/kernels.h"

namespace passing::strategy {

void add(DataType type, const void* a, const void* b, std::size_t count, void* out) {
  const numeric::FloatMode mode;
  const numeric::Kernels& k = numeric::kernels();
  switch (type) {
    case DataType::float32: return k.sum_f32(a, b, count, out);
    case DataType::float16: return k.sum_f16(a, b, count, out);
    case DataType::bfloat16: return k.sum_bf16(a, b, count, out);
    case DataType::int32: return k.sum_i32(a, b, count, out);
  }
}

void finish(DataType type, Reduction reduction, std::uint32_t ranks, void* data, std::size_t count) {
  if (reduction != Reduction::average) return;
  const numeric::FloatMode mode;
  const numeric::Kernels& k = numeric::kernels();
  const auto divisor = static_cast<double>(ranks);
  switch (type) {
    case DataType::float32: return k.divide_f32(data, count, divisor, data);
    case DataType::float16: return k.divide_f16(data, count, divisor, data);
    case DataType::bfloat16: return k.divide_bf16(data, count, divisor, data);
    case DataType::int32: return k.divide_i32(data, count, divisor, data);
  }
}

}  // namespace passing::strategy
