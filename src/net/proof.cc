#include "net/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"

namespace passing::net {
namespace {

Proof hmac(const void* key, std::size_t key_bytes, const std::string& text) {
  Proof result;
  unsigned int bytes = 0;
  const auto* made = HMAC(EVP_sha256(), key, static_cast<int>(key_bytes),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(result.data()), &bytes);
  PASSING_ASSERT(made != nullptr && bytes == result.size());
  return result;
}

}  // namespace

Key key_of(const std::string& token) { return hmac(token.data(), token.size(), "passing: key of a group"); }

Nonce new_nonce() {
  Nonce nonce;
  // So few bytes come whole, or not at all.
  ssize_t got = 0;
  do {
    got = getrandom(nonce.data(), nonce.size(), 0);
  } while (got < 0 && errno == EINTR);
  PASSING_ASSERT(got == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

Proof prove(const Key& key, const Meeting& meeting, Side side) {
  Writer text;
  text.put(std::string("passing: proof of a member"))
      .put(side)
      .put(meeting.purpose)
      .put(meeting.of_acceptor)
      .put(meeting.of_dialler)
      .put(meeting.acceptor)
      .put(meeting.dialler)
      .put(meeting.group);
  return hmac(key.data(), key.size(), text.take());
}

bool is_same(const Proof& one, const Proof& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace passing::net
