// The aggregator against a model: packets that are nearly right, in any order, from two jobs on few
// slots. The model keeps who contributed what; every RESULT must be its exact sum.
#include "dataplane/aggregator.h"

#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "input.h"

using namespace passing;

namespace {

constexpr std::uint16_t kMembers = 3;
constexpr std::uint32_t kSlots = 2;

// job, epoch, sequence
using ChunkId = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
struct Model {
  std::map<std::uint16_t, std::int32_t> contributions;
  std::uint32_t tag = 0;
  bool poisoned = false;
};

Address address_of(std::uint32_t job, std::uint16_t member) {
  Address address;
  address.ip[0] = static_cast<std::uint8_t>(job);
  address.port = member;
  return address;
}

// Most fit; some have the key, the epoch or the tag of another.
wire::Header header_from(fuzz::Input& input, std::uint8_t choice, std::uint16_t member, std::uint32_t epoch) {
  constexpr wire::Type kTypes[] = {wire::Type::contribution, wire::Type::contribution,
                                   wire::Type::contribution, wire::Type::abort, wire::Type::status_request};
  wire::Header header{.type = kTypes[(choice >> 1) % 5],
                      .job = choice & 1U,
                      .key = choice == 249 ? 6U : 5U,
                      .epoch = epoch - (choice == 248 ? 1 : 0),
                      .sequence = input.byte() % 16U,
                      .tag = choice == 247 ? 2U : 1U,
                      .word = 0,
                      .count = 1,
                      .member = member,
                      .lane = 0,
                      .flags = 0};
  if (header.type == wire::Type::abort) header.count = 0;
  if (header.type == wire::Type::status_request) header.count = PASSING_REPORT_WORDS;
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  dataplane::Aggregator aggregator({.elements = 1, .slots = 2 * kSlots});
  std::array<std::uint32_t, 2> epochs = {1, 1};
  const auto install = [&](std::uint32_t job) {
    dataplane::JobSpec spec{.job = job,
                            .epoch = epochs[job],
                            .key = 5,
                            .members = kMembers,
                            .lanes = 1,
                            .slots = kSlots,
                            .first_sequence = 0,
                            .addresses = {}};
    for (std::uint16_t m = 0; m < kMembers; ++m) spec.addresses.push_back(address_of(job, m));
    PASSING_ASSERT(aggregator.jobs().install(spec));
  };
  install(0);
  install(1);
  std::map<ChunkId, Model> model;
  while (!input.empty()) {
    const std::uint8_t choice = input.byte();
    const std::uint32_t job = choice & 1;
    const auto member = static_cast<std::uint16_t>(input.below(kMembers));
    if (choice >= 250) {  // everyone departs, a new epoch begins
      for (std::uint16_t m = 0; m < kMembers; ++m) aggregator.jobs().depart(job, epochs[job], m);
      ++epochs[job];
      install(job);
      continue;
    }
    const wire::Header header = header_from(input, choice, member, epochs[job]);
    const std::int32_t value = input.byte() + 1;
    std::vector<std::byte> packet(wire::packet_bytes(header.count));
    wire::write_header(header, packet.data());
    if (header.count == 1) std::memcpy(packet.data() + PASSING_HEADER_BYTES, &value, 4);
    if (choice == 246) packet.resize(input.below(static_cast<std::uint32_t>(packet.size()) + 8));

    const auto before = aggregator.counters();
    std::byte out[wire::packet_bytes(PASSING_REPORT_WORDS)];
    const auto verdict = aggregator.handle(address_of(job, member), packet, out);
    const bool added = aggregator.counters().adds != before.adds;
    const bool poisoned = aggregator.counters().notices != before.notices;
    Model& chunk = model[{job, header.epoch, header.sequence}];
    if (added) {
      PASSING_ASSERT(!chunk.poisoned && header.key == 5 && header.epoch == epochs[job]);
      PASSING_ASSERT(chunk.contributions.empty() || chunk.tag == header.tag);
      PASSING_ASSERT(chunk.contributions.emplace(member, value).second);
      chunk.tag = header.tag;
    }
    if (poisoned) {
      PASSING_ASSERT(chunk.contributions.size() < kMembers);
      chunk.poisoned = true;
    }
    if (verdict.send == dataplane::Verdict::Send::nothing) continue;
    wire::Header answer;
    PASSING_ASSERT(wire::parse({out, verdict.bytes}, wire::Direction::to_member, 1, answer) ==
                   wire::Drop::none);
    PASSING_ASSERT(answer.sequence == header.sequence && answer.job == job);
    if (answer.type != wire::Type::result) continue;
    PASSING_ASSERT(!chunk.poisoned && chunk.contributions.size() == kMembers);
    std::int32_t sum = 0;
    for (const auto& each : chunk.contributions) sum += each.second;
    std::int32_t got = 0;
    std::memcpy(&got, out + PASSING_HEADER_BYTES, 4);
    PASSING_ASSERT(got == sum);
  }
  return 0;
}
