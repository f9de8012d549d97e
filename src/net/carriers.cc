#include "net/carriers.h"

#include "net/memory_carrier.h"
#include "net/mesh.h"

namespace passing::net {

std::span<const char* const> carriers() {
  static constexpr const char* all[] = {"tcp", "memory"};
  return all;
}

Expected<std::unique_ptr<Carrier>> make_carrier(const std::string& kind, std::uint32_t rank,
                                                std::uint32_t size, const SocketAddress& local) {
  if (kind == "memory") return MemoryCarrier::create(rank, size);
  PASSING_ASSERT(kind == "tcp");
  return Mesh::create(rank, size, local);
}

}  // namespace passing::net
