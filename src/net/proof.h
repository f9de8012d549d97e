// How two ends of a connection show each other that they know the key of their group, without saying it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace passing::net {

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// The key of those who share a token. Nobody can tell the token from it.
Key key_of(const std::string& token);

/// A number that nobody can foresee.
Nonce new_nonce();

/// What a proof is about. It fits one connection, between these two, in this group, and nothing else.
struct Meeting {
  Nonce of_acceptor{};
  Nonce of_dialler{};
  std::uint32_t acceptor = 0;
  std::uint32_t dialler = 0;
  std::uint64_t group = 0;
  std::uint32_t purpose = 0;  ///< the type of the dialler's first frame
};

/// The two sides prove different things: neither can hand back the other's proof as its own.
enum class Side : std::uint8_t { dialler = 1, acceptor };

Proof prove(const Key& key, const Meeting& meeting, Side side);
/// In the same time whatever differs.
bool is_same(const Proof& one, const Proof& other);

}  // namespace passing::net
