// Everyone's blob to rank 0, and all of them back. Not for speed: communicators are made with it.
#include <cstring>
#include <vector>

#include "strategy/strategy.h"

namespace passing::strategy {

Task exchange(Context& context, Call& call) {
  const std::uint32_t size = context.size();
  call.blobs.assign(size, "");
  std::vector<std::uint64_t> lengths(size, 0);
  std::string all;
  if (context.rank() == 0) {
    call.blobs[0] = call.blob;
    std::vector<Transit> got;
    for (std::uint32_t r = 1; r < size; ++r) got.push_back(context.recv(r, &lengths[r], sizeof lengths[r]));
    for (Transit& each : got) co_await each;
    got.clear();
    for (std::uint32_t r = 1; r < size; ++r) {
      call.blobs[r].resize(lengths[r]);
      got.push_back(context.recv(r, call.blobs[r].data(), lengths[r]));
    }
    for (Transit& each : got) co_await each;
    lengths[0] = call.blob.size();
    for (const std::string& blob : call.blobs) all += blob;
    std::vector<Transit> sent;
    for (std::uint32_t r = 1; r < size; ++r) {
      sent.push_back(context.send(r, lengths.data(), size * sizeof lengths[0]));
      sent.push_back(context.send(r, all.data(), all.size()));
    }
    for (Transit& each : sent) co_await each;
    co_return;
  }
  const std::uint64_t length = call.blob.size();
  Transit told = context.send(0, &length, sizeof length);
  Transit gave = context.send(0, call.blob.data(), call.blob.size());
  Transit heard = context.recv(0, lengths.data(), size * sizeof lengths[0]);
  co_await told;
  co_await gave;
  co_await heard;
  std::size_t total = 0;
  for (const std::uint64_t each : lengths) total += each;
  all.resize(total);
  Transit got = context.recv(0, all.data(), total);
  co_await got;
  std::size_t at = 0;
  for (std::uint32_t r = 0; r < size; ++r) {
    call.blobs[r] = all.substr(at, lengths[r]);
    at += lengths[r];
  }
}

}  // namespace passing::strategy
