// What a lane accepts and does with it: docs/protocol.md sections 5.4 to 5.7.
#include <algorithm>
#include <cstring>

#include "endpoint/lane.h"

namespace passing::endpoint {

using wire::ChunkKind;
using wire::Drop;
using wire::Type;

void Lane::receive(Time now, const Address& from, wire::Bytes packet) {
  ++counters_.packets_in;
  wire::Header header;
  if (const Drop reason = admit(from, packet, header); reason != Drop::none) return drop(reason);
  const std::byte* payload = packet.data() + PASSING_HEADER_BYTES;
  wire::Report report;
  if (header.type != Type::result && !wire::read_report(payload, report)) return drop(Drop::bad_type);

  // The distance from the base, not a comparison of numbers: they wrap.
  const std::uint32_t distance =
      header.sequence - (config_.first_sequence + static_cast<std::uint32_t>(base_));
  const std::uint64_t k = base_ + distance;
  if (k >= next_ || chunk(k).state != State::in_flight) {
    ++counters_.duplicates;
    return;
  }
  switch (header.type) {
    case Type::result:
      if (header.tag != chunk(k).tag) return drop(Drop::wrong_sequence);
      if (header.count != chunk(k).count) return drop(Drop::wrong_count);
      on_result(now, k, header, payload);
      break;
    case Type::notice: on_notice(k, report); break;
    default: on_status(k, report); break;
  }
}

void Lane::drop(Drop reason) { ++counters_.drops[static_cast<std::size_t>(reason)]; }

Drop Lane::admit(const Address& from, wire::Bytes packet, wire::Header& header) const {
  const Drop malformed =
      wire::parse(packet, wire::Direction::to_member, static_cast<std::uint16_t>(config_.elements), header);
  if (malformed != Drop::none) return malformed;
  if (header.job != config_.job) return Drop::unknown_job;
  if (header.key != config_.key) return Drop::wrong_key;
  if (header.epoch != config_.epoch) return Drop::wrong_epoch;
  if (header.member >= config_.members) return Drop::bad_member;
  if (header.lane != lane_) return Drop::bad_lane;
  if (from != config_.switch_addresses[lane_]) return Drop::wrong_source;
  return Drop::none;
}

void Lane::on_result(Time now, std::uint64_t k, const wire::Header& header, const std::byte* payload) {
  ++counters_.results;
  const Chunk& which = chunk(k);
  // Keep it (section 5.7), and work from the copy: packets give no alignment.
  std::int32_t* sums = retained_sums_.data() + std::size_t{place(k)} * config_.elements;
  if (config_.order == PayloadOrder::big) {
    codec_.kernels().swap_i32(payload, header.count, sums);
  } else {
    std::memcpy(sums, payload, 4 * std::size_t{header.count});
  }
  retained_[place(k)] = {
      .chunk = k, .tag = header.tag, .word = header.word, .count = header.count, .valid = true};

  const bool last = header.member == config_.member && (header.flags & PASSING_FLAG_AGAIN) == 0;
  learn_timing(now, k, last);
  Part& owner = part(which.part);
  const std::uint64_t stream_block = owner.first_stream + which.block;
  switch (which.kind) {
    case ChunkKind::exponent: lookahead_.burst_result(stream_block, header.word); break;
    case ChunkKind::classes: take_classes(owner, k, header.word, sums); break;
    case ChunkKind::data:
      if (which.packet == 0 && lookahead_.ahead() > 0) {
        lookahead_.carried(stream_block + lookahead_.ahead(), header.word);
      }
      take_data(owner, which, sums);
      if (owner.operation.kind == wire::OperationKind::close) {
        // Everyone has everything (section 8.4).
        for (Retained& kept : retained_) kept.valid = false;
      }
      break;
  }
  settle(k);
  advance();
  if (aborting()) {
    abort_progress_ = now;
    timer_ = now;  // ask for the next chunk at once
  } else {
    start_timer(now);
    if (in_flight_.empty()) timer_.reset();
  }
}

void Lane::take_data(Part& owner, const Chunk& which, const std::int32_t* sums) {
  if (which.scale == PASSING_WORD_NONFINITE) {
    finish_nonfinite(owner, which.block, which.packet, 2, sums);
    return;
  }
  const Operation& op = owner.operation;
  codec_.dequantise(op.type, op.reduction, op.divisor, sums, which.count, which.scale,
                    owner.output(config_, which.block, which.packet));
}

void Lane::take_classes(Part& owner, std::uint64_t k, std::uint16_t word, const std::int32_t* sums) {
  const Chunk& which = chunk(k);
  if (which.packet == 0) {
    Nonfinite& kept = nonfinite_.at(owner.first_stream + which.block);
    kept.scale = word;
    kept.scaled = true;
    for (std::uint64_t later = k + 1; later < next_; ++later) {
      const Chunk& waiting = chunk(later);
      if (waiting.state == State::unsent && waiting.part == which.part && waiting.block == which.block &&
          waiting.kind == ChunkKind::data) {
        undeferred_.push_back(later);
      }
    }
  }
  finish_nonfinite(owner, which.block, which.packet, 1, sums);
}

// `got` is 1 for classes, 2 for sums. Writes the output once both are there.
void Lane::finish_nonfinite(Part& owner, std::uint64_t block, std::uint32_t packet, std::uint8_t got,
                            const std::int32_t* values) {
  const std::uint64_t stream_block = owner.first_stream + block;
  Nonfinite& kept = nonfinite_.at(stream_block);
  const std::size_t begin = std::size_t{packet} * config_.elements;
  const std::uint32_t count = owner.packet_size(config_, block, packet);
  std::copy_n(values, count, (got == 1 ? kept.classes : kept.sums).begin() + begin);
  kept.have[packet] |= got;
  if (kept.have[packet] != 3) return;

  const Operation& op = owner.operation;
  std::byte* out = owner.output(config_, block, packet);
  codec_.dequantise(op.type, op.reduction, op.divisor, kept.sums.data() + begin, count, kept.scale, out);
  numeric::Codec::apply_classes(op.type, kept.classes.data() + begin, count, out);
  if (++kept.finished == kept.have.size()) nonfinite_.erase(stream_block);
}

void Lane::learn_timing(Time now, std::uint64_t k, bool last_contributor) {
  const Duration took = now - in_flight_.sent_at(place(k));
  const bool once = in_flight_.transmissions(place(k)) == 1;
  if (once) round_trip_.sample(took, last_contributor);
  const std::uint64_t order = in_flight_.order(place(k));
  // Sooner than any round trip: this answers an earlier transmission.
  const bool answers_this = once || took >= round_trip_.smallest();
  evidence_.chunk = std::max(evidence_.chunk, k);
  if (order > evidence_.order && answers_this) {
    evidence_.order = order;
    evidence_.took = took;
  }
  if (expiries_ >= 2) found_by_timer_ = true;
  expiries_ = 0;
  ask_status_ = false;
  probe_tail_ = false;
  missing_.clear();
  window_.on_result();
}

void Lane::settle(std::uint64_t k) {
  Chunk& which = chunk(k);
  which.state = State::done;
  in_flight_.remove(place(k));
  --part(which.part).outstanding;
}

void Lane::advance() {
  while (base_ < next_ && chunk(base_).state == State::done) ++base_;
  if (base_ >= timer_end_) found_by_timer_ = false;  // whatever was lost then has been found
  while (!parts_.empty() && parts_.front().allocated && parts_.front().outstanding == 0) {
    parts_.pop_front();
    ++first_part_;
  }
}

}  // namespace passing::endpoint
