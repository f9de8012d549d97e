#include "passing/types.h"

namespace passing {

const char* to_string(DataType type) {
  switch (type) {
    case DataType::float32: return "float32";
    case DataType::float16: return "float16";
    case DataType::bfloat16: return "bfloat16";
    case DataType::int32: return "int32";
  }
  return "?";
}

const char* to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return "sum";
    case Reduction::average: return "average";
  }
  return "?";
}

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::float32:
    case DataType::int32: return 4;
    case DataType::float16:
    case DataType::bfloat16: return 2;
  }
  return 0;
}

}  // namespace passing
