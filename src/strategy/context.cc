#include "strategy/context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace passing::strategy {

void Context::narrow(std::vector<std::uint32_t> group) {
  const auto own = std::find(group.begin(), group.end(), ground_.rank);
  PASSING_ASSERT(own != group.end());
  place_ = static_cast<std::uint32_t>(own - group.begin());
  group_ = std::move(group);
}

Transit Context::follow(const net::TransferPtr& transfer) {
  Transit transit;
  if (transfer->ended()) {
    ended(*transfer, *transit.state_);
  } else {
    // The carrier keeps the transfer until it has ended, and drops what is left before the context goes.
    transfer->on_end = [this, state = transit.state_, which = transfer.get()] { ended(*which, *state); };
  }
  return transit;
}

void Context::ended(const net::Transfer& transfer, Transit::State& state) {
  const bool same =
      ((transfer.tag ^ tags::collective(number_, 0, hash_, transfer.peer)) & tags::kHashMask) == 0;
  if (transfer.status != net::Transfer::Status::done || (!transfer.sending && !same))
    return broken_transfer_(transfer);
  if (!transfer.sending) waiting_for_.erase(waiting_for_.find(transfer.peer));
  state.good = true;
  if (state.waiter) ground_.ready.push_back(state.waiter);
}

void Signature::write(Writer& out) const {
  out.put(kind).put(type).put(reduction).put(root).put(count).put(shape);
}

void Signature::read(Reader& in) { in.get(kind).get(type).get(reduction).get(root).get(count).get(shape); }

std::string Call::describe_counts() const {
  if (signature.kind != Kind::all_gather || signature.shape == 0) return "";
  constexpr std::size_t kMost = 64;
  const std::size_t shown = std::min(kMost, incoming.size());
  return fmt::format(" ({}{} of each rank)", fmt::join(incoming.begin(), incoming.begin() + shown, ", "),
                     shown < incoming.size() ? ", ..." : "");
}

std::string Call::encode() const {
  Writer out;
  signature.write(out.put(number));
  return out.take();
}

std::optional<Call> Call::decode(const std::string& data) {
  Call call;
  Reader in(data);
  call.signature.read(in.get(call.number));
  return in.whole() ? std::optional(std::move(call)) : std::nullopt;
}

std::string Signature::describe() const {
  switch (kind) {
    case Kind::all_reduce:
      return fmt::format("all_reduce of {} {} ({})", count, to_string(type), to_string(reduction));
    case Kind::broadcast: return fmt::format("broadcast of {} {} from rank {}", count, to_string(type), root);
    case Kind::reduce:
      return fmt::format("reduce of {} {} ({}) to rank {}", count, to_string(type), to_string(reduction),
                         root);
    case Kind::reduce_scatter:
      return fmt::format("reduce_scatter of {} {} per rank ({})", count, to_string(type),
                         to_string(reduction));
    case Kind::all_gather:
      return shape == 0 ? fmt::format("all_gather of {} {} per rank", count, to_string(type))
                        : fmt::format("all_gatherv of {} {} in all", count, to_string(type));
    case Kind::gather:
      return fmt::format("gather of {} {} per rank to rank {}", count, to_string(type), root);
    case Kind::scatter:
      return fmt::format("scatter of {} {} per rank from rank {}", count, to_string(type), root);
    case Kind::all_to_all:
      return shape == 0 ? fmt::format("all_to_all of {} {} per pair", count, to_string(type))
                        : fmt::format("all_to_allv of {}", to_string(type));
    case Kind::barrier: return "barrier";
    case Kind::exchange: return "split";
  }
  return "?";
}

std::uint32_t Signature::hash() const {
  std::uint64_t h = 0x9E3779B97F4A7C15;
  for (const std::uint64_t each : {std::uint64_t(kind), std::uint64_t(type), std::uint64_t(reduction),
                                   std::uint64_t{root}, count, shape}) {
    h = (h ^ each) * 0xD6E8FEB86659FD93;
    h ^= h >> 32;
  }
  return static_cast<std::uint32_t>(h);
}

}  // namespace passing::strategy
