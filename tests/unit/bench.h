// Members and an aggregator wired by hand: each test decides which packet arrives, and when.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dataplane/aggregator.h"
#include "endpoint/endpoint.h"

namespace passing::test {

using Packet = std::vector<std::byte>;

inline Address switch_address() {
  Address address;
  address.port = 9000;
  return address;
}

inline Address member_address(std::uint16_t member, std::uint32_t lane) {
  Address address;
  address.ip[15] = static_cast<std::uint8_t>(member + 1);
  address.port = static_cast<std::uint16_t>(lane);
  return address;
}

inline wire::Header header_of(const Packet& packet) {
  wire::Header header;
  for (const auto direction : {wire::Direction::to_switch, wire::Direction::to_member}) {
    if (wire::parse(packet, direction, PASSING_MAX_ELEMENTS, header) == wire::Drop::none) break;
  }
  return header;
}

/// Small geometry: 2 elements per packet, 4 per block.
inline endpoint::Config small_config(std::uint16_t members = 2) {
  endpoint::Config config;
  config.job = 1;
  config.epoch = 1;
  config.key = 42;
  config.members = members;
  config.slots = 8;
  config.elements = 2;
  config.block_elements = 4;
  config.lookahead = 2;
  return config;
}

class Bench {
 public:
  explicit Bench(endpoint::Config config)
      : aggregator(
            {.elements = static_cast<std::uint16_t>(config.elements), .slots = config.lanes * config.slots}) {
    dataplane::JobSpec spec{.job = config.job,
                            .epoch = config.epoch,
                            .key = config.key,
                            .members = config.members,
                            .lanes = static_cast<std::uint8_t>(config.lanes),
                            .slots = config.slots,
                            .first_sequence = config.first_sequence,
                            .addresses = {}};
    config.switch_addresses.assign(config.lanes, switch_address());
    for (std::uint16_t m = 0; m < config.members; ++m) {
      for (std::uint32_t l = 0; l < config.lanes; ++l) spec.addresses.push_back(member_address(m, l));
      config.member = m;
      members.push_back(std::move(*endpoint::Endpoint::create(config)));
    }
    EXPECT_TRUE(aggregator.jobs().install(spec));
  }

  endpoint::Endpoint& operator[](std::size_t m) { return *members[m]; }

  /// Everything member m wants to send on a lane now.
  std::vector<Packet> sends(std::uint16_t m, std::uint32_t lane = 0) {
    std::vector<Packet> packets;
    std::byte out[wire::packet_bytes(PASSING_MAX_ELEMENTS)];
    while (const std::size_t size = members[m]->next_packet(now, lane, out)) {
      packets.emplace_back(out, out + size);
    }
    return packets;
  }

  /// The switch's answer to a packet; empty if none. `everyone` says to whom.
  Packet at_switch(const Packet& packet, bool* everyone = nullptr) {
    const wire::Header header = header_of(packet);
    std::byte out[wire::packet_bytes(PASSING_MAX_ELEMENTS)];
    const auto verdict = aggregator.handle(member_address(header.member, header.lane), packet, out);
    if (everyone != nullptr) *everyone = verdict.send == dataplane::Verdict::Send::everyone;
    return verdict.send == dataplane::Verdict::Send::nothing ? Packet{} : Packet(out, out + verdict.bytes);
  }

  void at_member(std::uint16_t m, const Packet& packet) {
    members[m]->receive(now, header_of(packet).lane, switch_address(), packet);
  }

  /// Carries one packet to the switch and its answer to whom it is for.
  void carry(const Packet& packet) {
    bool everyone = false;
    const Packet answer = at_switch(packet, &everyone);
    if (answer.empty()) return;
    for (std::uint16_t m = 0; m < members.size(); ++m) {
      if (everyone || m == header_of(packet).member) at_member(m, answer);
    }
  }

  /// A perfect network until nothing moves any more.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint16_t m = 0; m < members.size(); ++m) {
        for (std::uint32_t l = 0; l < members[m]->config().lanes; ++l) {
          for (const Packet& packet : sends(m, l)) {
            carry(packet);
            moved = true;
          }
        }
      }
    }
  }

  Expected<std::uint64_t> submit(std::uint16_t m, std::vector<float>& data, Time deadline = 100 * kSecond) {
    return members[m]->submit(
        {.elements = data.size(), .input = data.data(), .output = data.data(), .deadline = deadline});
  }

  dataplane::Aggregator aggregator;
  std::vector<std::unique_ptr<endpoint::Endpoint>> members;
  Time now = 0;
};

}  // namespace passing::test
