#include "dataplane/aggregator.h"

#include <bit>
#include <cstdlib>
#include <cstring>

namespace passing::dataplane {

using wire::Drop;
using wire::SlotState;
using wire::Type;
using Send = Verdict::Send;

namespace {

constexpr std::size_t kCacheLine = 64;

std::uint64_t bit(std::uint16_t member) { return std::uint64_t{1} << member; }

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  packets_in += other.packets_in;
  bytes_in += other.bytes_in;
  packets_out += other.packets_out;
  bytes_out += other.bytes_out;
  retransmissions += other.retransmissions;
  adds += other.adds;
  results += other.results;
  results_again += other.results_again;
  duplicates += other.duplicates;
  notices += other.notices;
  notices_again += other.notices_again;
  status_answers += other.status_answers;
  for (std::size_t i = 0; i < drops.size(); ++i) drops[i] += other.drops[i];
  return *this;
}

Aggregator::Aggregator(const Capabilities& capabilities, const numeric::Kernels& kernels)
    : capabilities_(capabilities),
      kernels_(&kernels),
      jobs_(capabilities),
      stride_((std::size_t{capabilities.elements} * 4 + kCacheLine - 1) / kCacheLine * kCacheLine / 4),
      versions_(2 * std::size_t{capabilities.slots}),
      sums_(static_cast<std::int32_t*>(
                std::aligned_alloc(kCacheLine, versions_.size() * stride_ * sizeof(std::int32_t))),
            std::free) {
  PASSING_ASSERT(capabilities.elements >= 1 && capabilities.elements <= PASSING_MAX_ELEMENTS);
  PASSING_ASSERT(sums_ != nullptr);
}

Verdict Aggregator::handle(const Address& from, wire::Bytes packet, std::byte* out) {
  ++counters_.packets_in;
  counters_.bytes_in += packet.size();
  Request request{.packet = packet, .out = out};
  if (const Drop reason = admit(from, request); reason != Drop::none) return drop(reason);

  const wire::Header& header = request.header;
  if (header.type == Type::status_request) return send_status(request);
  if ((header.flags & PASSING_FLAG_AGAIN) != 0) ++counters_.retransmissions;

  // Section 4.2. The order of the checks is part of the protocol.
  Version& version = *request.version;
  const JobSpec& spec = request.job->spec;
  if (version.installation != request.job->installation) {
    const std::uint32_t first_lap = (header.sequence - spec.first_sequence) / (2 * spec.slots);
    return first_lap == 0 ? open(request) : drop(Drop::wrong_sequence);
  }
  const bool poisoned = version.poison != SlotState::absent;
  const bool complete = version.bitmap == request.job->everyone;
  if (header.sequence != version.sequence) {
    const bool next_lap = header.sequence == version.sequence + 2 * spec.slots;
    return next_lap && complete && !poisoned ? open(request) : drop(Drop::wrong_sequence);
  }
  if (poisoned) {
    ++counters_.notices_again;
    return send_report(request, Type::notice, report_of(request), Send::sender);
  }
  if (complete) return send_result(request, true);
  if (header.type == Type::abort) return poison(request, SlotState::aborted);
  if (header.tag != version.tag) return poison(request, SlotState::disagreement);
  if ((version.bitmap & bit(header.member)) != 0) {
    ++counters_.duplicates;
    return {};
  }
  if (header.count != version.count) return drop(Drop::wrong_count);
  return add(request);
}

Drop Aggregator::admit(const Address& from, Request& request) {
  const Drop malformed =
      wire::parse(request.packet, wire::Direction::to_switch, capabilities_.elements, request.header);
  if (malformed != Drop::none) return malformed;
  const wire::Header& header = request.header;
  const Job* job = jobs_.find(header.job);
  if (job == nullptr) return Drop::unknown_job;
  const JobSpec& spec = job->spec;
  if (header.key != spec.key) return Drop::wrong_key;
  if (header.epoch != spec.epoch) return Drop::wrong_epoch;
  if (header.member >= spec.members) return Drop::bad_member;
  if (header.lane >= spec.lanes || !capabilities_.serves(header.lane)) return Drop::bad_lane;
  if (from != spec.addresses[std::size_t{header.member} * spec.lanes + header.lane]) {
    return Drop::wrong_source;
  }
  request.job = job;
  // Section 4.1: slot and version follow from the sequence, as 2S divides F and 2^32.
  const std::uint32_t place = header.sequence & (2 * spec.slots - 1);
  const std::size_t slot = job->first_slot + std::size_t{header.lane / capabilities_.lane_step} * spec.slots +
                           (place & (spec.slots - 1));
  const std::size_t index = 2 * slot + (place >= spec.slots ? 1 : 0);
  request.version = &versions_[index];
  request.sums = sums_.get() + index * stride_;
  return Drop::none;
}

Verdict Aggregator::drop(Drop reason) {
  ++counters_.drops[static_cast<std::size_t>(reason)];
  return {};
}

Verdict Aggregator::open(Request& request) {
  const wire::Header& header = request.header;
  const bool abort = header.type == Type::abort;
  *request.version = Version{.bitmap = abort ? 0 : bit(header.member),
                             .installation = request.job->installation,
                             .sequence = header.sequence,
                             .tag = header.tag,
                             .word = header.word,
                             .count = header.count,
                             .first = header.member};
  if (abort) return poison(request, SlotState::aborted);
  std::memcpy(request.sums, request.packet.data() + PASSING_HEADER_BYTES, 4 * std::size_t{header.count});
  ++counters_.adds;
  if (request.version->bitmap == request.job->everyone) return send_result(request, false);
  return {};
}

Verdict Aggregator::add(Request& request) {
  Version& version = *request.version;
  const wire::Header& header = request.header;
  kernels_->add_i32(request.sums, request.packet.data() + PASSING_HEADER_BYTES, header.count);
  if (header.word > version.word) version.word = header.word;
  version.bitmap |= bit(header.member);
  ++counters_.adds;
  if (version.bitmap == request.job->everyone) return send_result(request, false);
  return {};
}

Verdict Aggregator::poison(Request& request, SlotState why) {
  request.version->poison = why;
  request.version->second = request.header.member;
  ++counters_.notices;
  return send_report(request, Type::notice, report_of(request), Send::everyone);
}

Verdict Aggregator::send_result(Request& request, bool again) {
  ++(again ? counters_.results_again : counters_.results);
  if (!again) ++request.job->completed;
  const Version& version = *request.version;
  wire::Header answer = request.header;
  answer.type = Type::result;
  answer.tag = version.tag;
  answer.word = version.word;
  answer.count = version.count;
  answer.flags = again ? PASSING_FLAG_AGAIN : 0;
  wire::write_header(answer, request.out);
  std::memcpy(request.out + PASSING_HEADER_BYTES, request.sums, 4 * std::size_t{version.count});
  return sent(request, again ? Send::sender : Send::everyone, wire::packet_bytes(version.count));
}

Verdict Aggregator::send_report(Request& request, Type type, const wire::Report& report, Send to) {
  wire::Header answer = request.header;
  answer.type = type;
  answer.tag = report.tag;
  answer.word = PASSING_WORD_NONE;
  answer.count = PASSING_REPORT_WORDS;
  answer.flags = type == Type::notice && to == Send::sender ? PASSING_FLAG_AGAIN : 0;
  wire::write_header(answer, request.out);
  wire::write_report(report, request.out + PASSING_HEADER_BYTES);
  return sent(request, to, wire::packet_bytes(PASSING_REPORT_WORDS));
}

Verdict Aggregator::send_status(Request& request) {
  ++counters_.status_answers;
  const Version& version = *request.version;
  const bool held =
      version.installation == request.job->installation && version.sequence == request.header.sequence;
  return send_report(request, Type::status, held ? report_of(request) : wire::Report{}, Send::sender);
}

Verdict Aggregator::sent(const Request& request, Send to, std::size_t bytes) {
  const std::uint64_t copies = to == Send::everyone ? request.job->spec.members : 1;
  counters_.packets_out += copies;
  counters_.bytes_out += copies * bytes;
  return {.send = to, .bytes = bytes, .job = request.job};
}

wire::Report Aggregator::report_of(const Request& request) {
  const Version& version = *request.version;
  SlotState state = version.poison;
  if (state == SlotState::absent) {
    state = version.bitmap == request.job->everyone ? SlotState::complete : SlotState::filling;
  }
  return {.bitmap = version.bitmap,
          .tag = version.tag,
          .state = state,
          .first = version.first,
          .second = version.second};
}

void ProgressOfSlots::add(std::uint32_t installation, std::uint32_t sequence, std::uint64_t bitmap,
                          bool poisoned) {
  if (installation != job_.installation) return;
  ++result_.slots_in_use;
  if (poisoned || bitmap == job_.everyone) return;
  const std::uint64_t missing = job_.everyone & ~bitmap;
  for (std::uint16_t m = 0; m < job_.spec.members; ++m) result_.lag[m] += missing >> m & 1;
  // Numbers wrap: a difference decides which is older.
  if (result_.missing != 0 && static_cast<std::int32_t>(sequence - result_.oldest) >= 0) return;
  result_.oldest = sequence;
  result_.missing = missing;
}

JobProgress Aggregator::progress(const Job& job) const {
  ProgressOfSlots sum(job);
  const std::size_t begin = 2 * std::size_t{job.first_slot};
  for (std::size_t i = begin; i < begin + 2 * std::size_t{job.slot_count}; ++i) {
    const Version& version = versions_[i];
    sum.add(version.installation, version.sequence, version.bitmap, version.poison != SlotState::absent);
  }
  JobProgress result = sum.take();
  result.completed = job.completed;
  return result;
}

}  // namespace passing::dataplane
