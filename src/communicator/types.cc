#include "passing/types.h"

#include <array>

namespace passing {
namespace {

struct Named {
  const char* name;
  std::size_t size;
};

// By the values of the enumerations.
constexpr std::array<Named, kDataTypes + 1> kTypes = {{{"?", 0},
                                                       {"float32", 4},
                                                       {"float16", 2},
                                                       {"bfloat16", 2},
                                                       {"int32", 4},
                                                       {"float64", 8},
                                                       {"int8", 1},
                                                       {"uint8", 1},
                                                       {"int16", 2},
                                                       {"uint16", 2},
                                                       {"uint32", 4},
                                                       {"int64", 8},
                                                       {"uint64", 8},
                                                       {"bool", 1}}};
constexpr std::array<const char*, kReductions + 1> kNames = {"?",   "sum",     "average", "product", "min",
                                                             "max", "bit_and", "bit_or",  "bit_xor"};

}  // namespace

const char* to_string(DataType type) {
  const auto code = static_cast<std::size_t>(type);
  return kTypes[code < kTypes.size() ? code : 0].name;
}

const char* to_string(Reduction reduction) {
  const auto code = static_cast<std::size_t>(reduction);
  return code < kNames.size() ? kNames[code] : kNames[0];
}

std::size_t size_of(DataType type) {
  const auto code = static_cast<std::size_t>(type);
  return kTypes[code < kTypes.size() ? code : 0].size;
}

}  // namespace passing
