#include "endpoint/lane.h"

#include <algorithm>

namespace passing::endpoint {

Lane::Lane(const Config& config, std::uint32_t lane, const numeric::Codec& codec)
    : config_(config),
      lane_(lane),
      codec_(codec),
      lookahead_(config.blocks_ahead()),
      chunks_(config.slots),
      retained_(config.slots),
      retained_sums_(std::size_t{config.slots} * config.elements),
      in_flight_(config.slots),
      round_trip_(config),
      window_(config.slots) {}

void Lane::submit(const Operation& operation) {
  PASSING_ASSERT(limit_ == UINT64_MAX);
  parts_.emplace_back(config_, lane_, operation, submitted(), stream_blocks_);
  stream_blocks_ += parts_.back().blocks;
}

std::optional<Time> Lane::next_timer() const {
  const auto lost_at = aborting() ? std::nullopt : loss_time();
  if (!timer_ || !lost_at) return timer_ ? timer_ : lost_at;
  return std::min(*timer_, *lost_at);
}

const Retained& Lane::retained(std::uint32_t slot, const std::int32_t** sums) const {
  *sums = retained_sums_.data() + std::size_t{slot} * config_.elements;
  return retained_[slot];
}

}  // namespace passing::endpoint
