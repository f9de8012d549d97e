// One lane of one member: a stream of chunks, docs/protocol.md sections 5 to 8.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/error.h"
#include "base/time.h"
#include "endpoint/config.h"
#include "endpoint/lookahead.h"
#include "endpoint/operation.h"
#include "endpoint/retransmit.h"
#include "endpoint/round_trip.h"
#include "endpoint/window.h"
#include "numeric/codec.h"
#include "wire/packet.h"

namespace passing::endpoint {

/// Plain integers of one lane.
struct LaneCounters {
  std::uint64_t packets_in = 0;
  std::uint64_t packets_out = 0;
  std::uint64_t chunks = 0;  ///< sent for the first time
  std::uint64_t results = 0;
  std::uint64_t duplicates = 0;       ///< results and notices that came again or too late
  std::uint64_t retransmissions = 0;  ///< on evidence of loss
  std::uint64_t timeouts = 0;
  std::uint64_t notices = 0;
  std::uint64_t exponent_chunks = 0;
  std::uint64_t class_chunks = 0;
  std::array<std::uint64_t, wire::kDropReasons> drops{};
};

/// The last completed chunk of a slot (section 5.7).
struct Retained {
  std::uint64_t chunk = 0;
  std::uint32_t tag = 0;
  std::uint16_t word = 0;
  std::uint16_t count = 0;
  bool valid = false;
};

/// Why a lane cannot go on, and from which operation.
struct Failure {
  std::uint64_t operation = 0;  ///< index in the stream
  Error error;
};

/// The member's protocol on one lane. No I/O, no clock, no thread: one thread at a time.
class Lane {
 public:
  /// `config` and `codec` outlive the lane; config is valid.
  Lane(const Config& config, std::uint32_t lane, const numeric::Codec& codec);

  /// The next operation of the stream.
  void submit(const Operation& operation);
  void receive(Time now, const Address& from, wire::Bytes packet);
  /// Writes the next packet to send and returns its size; 0: nothing to send now. `out` has
  /// room for packet_bytes(max(E, 5)).
  std::size_t next_packet(Time now, std::byte* out);
  /// When next_packet will have something even if nothing arrives.
  std::optional<Time> next_timer() const;

  /// Operations of the stream that have all their results, from the first on.
  std::uint64_t completed() const { return first_part_; }
  const std::optional<Failure>& failure() const { return failure_; }
  /// Gives up the operations from `index` on; earlier ones go on (section 8.2).
  void limit(std::uint64_t index);
  /// Gives up everything at once (section 8.5).
  void halt() { stop_from(base_); }
  /// Nothing more will be sent for the operations below the limit.
  bool quiet() const;
  /// Aborts all incomplete operations up to `index` (section 8.3).
  void abort_through(Time now, std::uint64_t index);
  bool aborting() const { return first_part_ < abort_end_ && !quiet(); }

  /// The members that the oldest chunk waited for when the switch was last asked.
  const std::vector<std::uint16_t>& missing() const { return missing_; }
  /// What section 5.7 keeps: `sums` points to the int32 values.
  const Retained& retained(std::uint32_t slot, const std::int32_t** sums) const;

  const LaneCounters& counters() const { return counters_; }
  std::uint32_t window() const { return window_.size(); }

 private:
  enum class State : std::uint8_t { unsent, in_flight, done };

  // A chunk that has a number (section 5.4). Ring: chunk k is at k mod S.
  struct Chunk {
    std::uint64_t part = 0;   // index of its operation
    std::uint64_t block = 0;  // which of the part's blocks
    std::uint32_t tag = 0;
    std::uint16_t packet = 0;
    std::uint16_t count = 0;
    std::uint16_t carries = 0;  // the word in its header
    std::uint16_t scale = 0;    // the block's word; NONFINITE: see nonfinite_
    wire::ChunkKind kind = wire::ChunkKind::data;
    State state = State::done;
  };

  // A block with NaN or Inf: results are kept here until class and sum of a packet are both in,
  // since an output that is the input must not be overwritten before (section 5.6).
  struct Nonfinite {
    std::vector<std::int32_t> classes;
    std::vector<std::int32_t> sums;
    std::vector<std::uint8_t> have;  // per packet: bit 0 class, bit 1 sum
    std::uint32_t finished = 0;
    std::uint16_t scale = 0;
    bool scaled = false;  // the first class result is in
  };

  // Where in the stream the next number goes (section 5.2).
  enum class Stage : std::uint8_t { begin, exponents, classes, data };
  struct Cursor {
    std::uint64_t part = 0;
    std::uint64_t block = 0;
    std::uint32_t packet = 0;  // or block of the burst
    std::uint32_t burst = 0;   // blocks of the burst
    std::uint16_t word = 0;
    Stage stage = Stage::begin;
  };

  Chunk& chunk(std::uint64_t k) { return chunks_[k & (config_.slots - 1)]; }
  std::uint32_t place(std::uint64_t k) const { return static_cast<std::uint32_t>(k & (config_.slots - 1)); }
  Part& part(std::uint64_t index) { return parts_[index - first_part_]; }
  std::uint64_t submitted() const { return first_part_ + parts_.size(); }

  // lane_send.cc
  bool allocate();
  bool begin_block(Part& current);
  void number(Part& current, wire::ChunkKind kind, std::uint64_t block, std::uint32_t packet,
              std::uint16_t carries);
  bool sendable(std::uint64_t k);
  void next_block(Part& current);
  std::uint16_t own_word(std::uint64_t stream_block);
  std::size_t transmit(Time now, std::uint64_t k, bool again, std::byte* out);
  std::size_t control(wire::Type type, std::byte* out);
  std::size_t abort_packet(Time now, std::byte* out);
  void write_payload(const Chunk& which, std::byte* out);
  wire::Header header_of(std::uint64_t k) const;
  void start_timer(Time now);
  std::optional<Time> loss_time() const;
  std::uint64_t chunk_at(std::uint32_t place) const;
  std::optional<std::uint64_t> highest_in_flight() const;

  // lane_receive.cc
  wire::Drop admit(const Address& from, wire::Bytes packet, wire::Header& header) const;
  void drop(wire::Drop reason);
  void on_result(Time now, std::uint64_t k, const wire::Header& header, const std::byte* payload);
  void take_data(Part& owner, const Chunk& which, const std::int32_t* sums);
  void take_classes(Part& owner, std::uint64_t k, std::uint16_t word, const std::int32_t* sums);
  void finish_nonfinite(Part& owner, std::uint64_t block, std::uint32_t packet, std::uint8_t got,
                        const std::int32_t* values);
  void learn_timing(Time now, std::uint64_t k, bool last_contributor);
  void settle(std::uint64_t k);
  void advance();

  // lane_end.cc
  void on_notice(std::uint64_t k, const wire::Report& report);
  void on_status(std::uint64_t k, const wire::Report& report);
  void give_up(std::uint64_t k, std::uint64_t operation, Error error);
  void stop_from(std::uint64_t k);
  void abandon(std::uint64_t k);
  void forget_abandoned();
  std::vector<std::uint16_t> absent_from(std::uint64_t bitmap) const;

  const Config& config_;
  const std::uint32_t lane_;
  const numeric::Codec& codec_;

  std::deque<Part> parts_;  // submitted and not complete
  std::uint64_t first_part_ = 0;
  std::uint64_t stream_blocks_ = 0;  // blocks of all submitted operations
  Cursor cursor_;
  Lookahead lookahead_;
  std::map<std::uint64_t, Nonfinite> nonfinite_;  // by stream block

  std::vector<Chunk> chunks_;
  std::uint64_t base_ = 0;                // lowest chunk without a result
  std::uint64_t next_ = 0;                // first chunk without a number
  std::deque<std::uint64_t> undeferred_;  // numbered before they could be sent; now they can

  std::vector<Retained> retained_;
  std::vector<std::int32_t> retained_sums_;

  RetransmitList in_flight_;
  RoundTrip round_trip_;
  Window window_;
  // What results tell of chunks without one: everyone has sent all chunks before the highest that has
  // a result, so those last sent before a transmission that has its result are lost, or late.
  struct Evidence {
    std::uint64_t chunk = 0;
    std::uint64_t order = 0;  // of that transmission
    Duration took = 0;
  };
  Evidence evidence_;
  std::optional<Time> timer_;
  unsigned expiries_ = 0;
  bool found_by_timer_ = false;  // results came only after the timer had expired twice
  std::uint64_t timer_end_ = 0;  // next_ at that time
  bool probe_tail_ = false;
  bool ask_status_ = false;
  bool contribute_again_ = false;  // while aborting: the base chunk is complete

  std::uint64_t limit_ = UINT64_MAX;  // operations from here on are given up
  std::uint64_t stop_ = UINT64_MAX;   // chunks from here on are given up
  std::uint64_t abort_end_ = 0;       // operations before this are being aborted
  Time abort_progress_ = 0;           // when an abort was last answered (or begun)
  std::optional<Failure> failure_;
  std::vector<std::uint16_t> missing_;
  LaneCounters counters_;
};

}  // namespace passing::endpoint
