// The carriers there are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "net/address.h"
#include "net/carrier.h"

namespace passing::net {

/// The values of the setting `carrier`.
std::span<const char* const> carriers();

/// One of them, for `rank` of `size` ranks and servers. One with sockets is reached at `local`.
Expected<std::unique_ptr<Carrier>> make_carrier(const std::string& kind, std::uint32_t rank,
                                                std::uint32_t size, const SocketAddress& local);

}  // namespace passing::net
