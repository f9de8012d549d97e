// What a lane sends, and in which order: docs/protocol.md sections 5.2, 6 and 7.
#include <algorithm>
#include <utility>

#include "endpoint/lane.h"

namespace passing::endpoint {

using wire::ChunkKind;
using wire::OperationKind;

std::size_t Lane::next_packet(Time now, std::byte* out) {
  if (aborting()) return abort_packet(now, out);

  if (!undeferred_.empty()) {
    const std::uint64_t k = undeferred_.front();
    undeferred_.pop_front();
    return transmit(now, k, false, out);
  }
  // Evidence of loss first: everything else waits for these chunks anyway.
  if (const auto lost_at = loss_time(); lost_at && now >= *lost_at) {
    window_.on_loss(now, round_trip_.smoothed(), std::exchange(found_by_timer_, false));
    ++counters_.retransmissions;
    return transmit(now, chunk_at(in_flight_.front()), true, out);
  }
  if (timer_ && now >= *timer_) {
    ++counters_.timeouts;
    ++expiries_;
    ask_status_ = expiries_ >= 3;
    probe_tail_ = true;
    timer_end_ = next_;
    start_timer(now);
    return transmit(now, base_, true, out);
  }
  if (std::exchange(probe_tail_, false)) {
    // The result of the last chunk would be evidence for all before it.
    if (const auto tail = highest_in_flight(); tail && *tail != base_) return transmit(now, *tail, true, out);
  }
  if (ask_status_) {
    ask_status_ = false;
    return control(wire::Type::status_request, out);
  }
  while (next_ < base_ + window_.size() && allocate()) {
    if (sendable(next_ - 1)) return transmit(now, next_ - 1, false, out);
  }
  return 0;
}

// Gives chunk `next_` its place in the stream, or returns false if the stream cannot go on yet.
bool Lane::allocate() {
  if (next_ >= stop_ || cursor_.part >= std::min(submitted(), limit_)) return false;
  Part& current = part(cursor_.part);
  const bool close = current.operation.kind == OperationKind::close;
  if (close && base_ != next_) return false;
  if (cursor_.stage == Stage::begin && !begin_block(current)) return false;

  const std::uint64_t stream_block = current.first_stream + cursor_.block;
  switch (cursor_.stage) {
    case Stage::begin: PASSING_ASSERT(false); break;
    case Stage::exponents: {
      const std::uint64_t block = cursor_.block + cursor_.packet;
      number(current, ChunkKind::exponent, block, 0, own_word(current.first_stream + block));
      // Then the block waits for its own word like any other.
      if (++cursor_.packet == cursor_.burst) cursor_.stage = Stage::begin;
      break;
    }
    case Stage::classes: {
      const std::uint16_t carries =
          cursor_.packet == 0
              ? codec_.finite_word(current.operation.input_type(), current.input(config_, cursor_.block, 0),
                                   current.block_size(config_, cursor_.block))
              : std::uint16_t{PASSING_WORD_NONE};
      number(current, ChunkKind::classes, cursor_.block, cursor_.packet, carries);
      if (++cursor_.packet == current.packets(config_, cursor_.block)) {
        cursor_.packet = 0;
        cursor_.stage = Stage::data;
      }
      break;
    }
    case Stage::data: {
      std::uint16_t carries = PASSING_WORD_NONE;
      if (cursor_.packet == 0 && lookahead_.ahead() > 0) {
        carries = own_word(stream_block + lookahead_.ahead());
        lookahead_.carry(stream_block + lookahead_.ahead());
      }
      number(current, ChunkKind::data, cursor_.block, cursor_.packet, carries);
      if (++cursor_.packet == current.packets(config_, cursor_.block)) next_block(current);
      break;
    }
  }
  return true;
}

// Decides what the block at the cursor begins with (section 5.2). False: its word is not here yet.
bool Lane::begin_block(Part& current) {
  const std::uint64_t stream_block = current.first_stream + cursor_.block;
  cursor_.packet = 0;
  if (!current.has_word(config_, cursor_.block)) {
    cursor_.word = PASSING_WORD_NONE;
    cursor_.stage = Stage::data;
    return true;
  }
  if (!lookahead_.resolved(stream_block)) return false;
  cursor_.word = lookahead_.word(stream_block);
  if (cursor_.word == PASSING_WORD_UNKNOWN) {
    const std::uint64_t ahead = std::max<std::uint32_t>(1, lookahead_.ahead());
    cursor_.burst = static_cast<std::uint32_t>(std::min(ahead, current.blocks - cursor_.block));
    lookahead_.burst(stream_block, stream_block + cursor_.burst);
    cursor_.stage = Stage::exponents;
  } else if (cursor_.word == PASSING_WORD_NONFINITE) {
    const std::uint32_t size = current.block_size(config_, cursor_.block);
    Nonfinite& kept = nonfinite_[stream_block];
    kept.classes.resize(size);
    kept.sums.resize(size);
    kept.have.assign(current.packets(config_, cursor_.block), 0);
    cursor_.stage = Stage::classes;
  } else {
    cursor_.stage = Stage::data;
  }
  return true;
}

void Lane::number(Part& current, ChunkKind kind, std::uint64_t block, std::uint32_t packet,
                  std::uint16_t carries) {
  const std::uint64_t in_operation = current.first_block + block;
  chunk(next_) = Chunk{.part = current.index,
                       .block = block,
                       .tag = wire::chunk_tag(current.hash, kind, in_operation, packet),
                       .packet = static_cast<std::uint16_t>(packet),
                       .count = kind == ChunkKind::exponent
                                    ? std::uint16_t{0}
                                    : static_cast<std::uint16_t>(current.packet_size(config_, block, packet)),
                       .carries = carries,
                       .scale = cursor_.word,
                       .kind = kind,
                       .state = State::unsent};
  ++current.outstanding;
  ++next_;
  if (kind == ChunkKind::exponent) ++counters_.exponent_chunks;
  if (kind == ChunkKind::classes) ++counters_.class_chunks;
}

// Data of a NONFINITE block waits for the result of the block's first class chunk (section 7.4).
bool Lane::sendable(std::uint64_t k) {
  const Chunk& which = chunk(k);
  return which.kind != ChunkKind::data || which.scale != PASSING_WORD_NONFINITE ||
         nonfinite_.at(part(which.part).first_stream + which.block).scaled;
}

void Lane::next_block(Part& current) {
  lookahead_.pass(current.first_stream + cursor_.block);
  cursor_.stage = Stage::begin;
  cursor_.packet = 0;
  if (++cursor_.block < current.blocks) return;
  current.allocated = true;
  cursor_.block = 0;
  ++cursor_.part;
}

// This member's word for a block of the stream: UNKNOWN if its operation is not there (7.1).
std::uint16_t Lane::own_word(std::uint64_t stream_block) {
  const std::uint64_t end = std::min(submitted(), limit_);
  for (std::uint64_t index = cursor_.part; index < end; ++index) {
    const Part& owner = part(index);
    if (stream_block >= owner.first_stream + owner.blocks) continue;
    const std::uint64_t block = stream_block - owner.first_stream;
    if (!owner.has_word(config_, block)) return PASSING_WORD_NONE;
    return codec_.block_word(owner.operation.input_type(), owner.input(config_, block, 0),
                             owner.block_size(config_, block));
  }
  return PASSING_WORD_UNKNOWN;
}

std::size_t Lane::transmit(Time now, std::uint64_t k, bool again, std::byte* out) {
  Chunk& which = chunk(k);
  wire::Header header = header_of(k);
  header.flags = again ? PASSING_FLAG_AGAIN : 0;
  wire::write_header(header, out);
  write_payload(which, out + PASSING_HEADER_BYTES);
  if (again) {
    in_flight_.sent_again(place(k), now);
  } else {
    if (in_flight_.empty()) start_timer(now);
    in_flight_.first_sent(place(k), now);
    which.state = State::in_flight;
    ++counters_.chunks;
  }
  ++counters_.packets_out;
  return wire::packet_bytes(which.count);
}

wire::Header Lane::header_of(std::uint64_t k) const {
  const Chunk& which = chunks_[place(k)];
  return {.type = wire::Type::contribution,
          .job = config_.job,
          .key = config_.key,
          .epoch = config_.epoch,
          .sequence = config_.first_sequence + static_cast<std::uint32_t>(k),
          .tag = which.tag,
          .word = which.carries,
          .count = which.count,
          .member = config_.member,
          .lane = static_cast<std::uint8_t>(lane_),
          .flags = 0};
}

void Lane::write_payload(const Chunk& which, std::byte* out) {
  if (which.count == 0) return;
  Part& owner = part(which.part);
  const auto type = owner.operation.input_type();
  const std::byte* in = owner.input(config_, which.block, which.packet);
  if (which.kind == ChunkKind::classes) {
    std::array<std::int32_t, PASSING_MAX_ELEMENTS> classes;  // NOLINT: filled by classify
    numeric::Codec::classify(type, in, which.count, classes.data());
    std::copy_n(reinterpret_cast<const std::byte*>(classes.data()), 4 * which.count, out);
  } else if (which.scale == PASSING_WORD_NONFINITE) {
    const Nonfinite& kept = nonfinite_.at(owner.first_stream + which.block);
    codec_.quantise_finite(type, in, which.count, kept.scale, out);
  } else {
    codec_.quantise(type, in, which.count, which.scale, out);
  }
  if (config_.order == PayloadOrder::big) codec_.kernels().swap_i32(out, which.count, out);
}

std::size_t Lane::control(wire::Type type, std::byte* out) {
  wire::Header header = header_of(base_);
  const bool request = type == wire::Type::status_request;
  header.type = type;
  header.word = PASSING_WORD_NONE;
  header.count = request ? PASSING_REPORT_WORDS : 0;
  wire::write_header(header, out);
  std::fill_n(out + PASSING_HEADER_BYTES, 4 * header.count, std::byte{0});
  ++counters_.packets_out;
  return wire::packet_bytes(header.count);
}

// When the chunk sent longest ago counts as lost, if a later one sent later has its result already.
std::optional<Time> Lane::loss_time() const {
  if (in_flight_.empty()) return std::nullopt;
  const std::uint32_t front = in_flight_.front();
  if (in_flight_.order(front) > evidence_.order || chunk_at(front) > evidence_.chunk) return std::nullopt;
  return in_flight_.sent_at(front) + evidence_.took + round_trip_.reordering_allowance();
}

std::uint64_t Lane::chunk_at(std::uint32_t at) const {
  return base_ + ((at - place(base_)) & (config_.slots - 1));
}

std::optional<std::uint64_t> Lane::highest_in_flight() const {
  for (std::uint64_t k = next_; k > base_; --k) {
    if (chunks_[place(k - 1)].state == State::in_flight) return k - 1;
  }
  return std::nullopt;
}

void Lane::start_timer(Time now) { timer_ = now + round_trip_.timeout(expiries_); }

}  // namespace passing::endpoint
