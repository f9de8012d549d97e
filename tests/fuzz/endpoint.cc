// The endpoint against a hostile switch that knows the key: any answer, any time, any clock. It may
// fail operations, but must not crash, write outside its output, or send nonsense.
#include "endpoint/endpoint.h"

#include <cstring>
#include <vector>

#include "base/error.h"
#include "input.h"

using namespace passing;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  endpoint::Config config;
  config.job = 1;
  config.epoch = 1;
  config.key = 5;
  config.members = 3;
  config.lanes = 1 + input.below(2);
  config.slots = 1U << input.below(4);
  config.elements = 2;
  config.block_elements = 2 * (1 + input.below(3));
  config.lookahead = input.below(4);
  config.switch_addresses.resize(config.lanes);
  auto member = std::move(*endpoint::Endpoint::create(config));

  std::vector<std::vector<float>> tensors;
  tensors.reserve(16);
  std::vector<std::byte> last(wire::packet_bytes(2));
  std::byte out[wire::packet_bytes(PASSING_REPORT_WORDS)];
  Time now = 0;
  while (!input.empty()) {
    const std::uint32_t lane = input.below(config.lanes);
    switch (input.below(8)) {
      case 0:
        if (tensors.size() < 16) {
          tensors.emplace_back(input.below(30), input.below(9) == 0 ? 1.0F / 0.0F : 1.5F);
          constexpr numeric::DataType kTypes[] = {numeric::DataType::float32, numeric::DataType::float16,
                                                  numeric::DataType::bfloat16, numeric::DataType::int32};
          static_cast<void>(member->submit(
              {.type = kTypes[input.below(4)],
               .reduction = input.below(2) == 0 ? numeric::Reduction::sum : numeric::Reduction::average,
               .elements = tensors.back().size(),
               .divisor = 1 + input.below(9),
               .input = tensors.back().data(),
               .output = tensors.back().data(),
               .deadline = now + input.byte() * kMillisecond}));
        }
        break;
      case 1: now += input.byte() * kMillisecond; break;
      case 2:
        if (input.below(20) == 0) static_cast<void>(member->leave(now + kSecond));
        break;
      case 3: {  // raw bytes
        std::vector<std::byte> packet(input.below(64));
        for (auto& b : packet) b = static_cast<std::byte>(input.byte());
        member->receive(now, lane, {}, packet);
        break;
      }
      default: {  // an answer to the last packet, changed here and there
        std::vector<std::byte> packet = last;
        constexpr int kAnswers[] = {PASSING_RESULT, PASSING_RESULT, PASSING_RESULT, PASSING_NOTICE,
                                    PASSING_STATUS};
        packet[3] = static_cast<std::byte>(kAnswers[input.below(5)]);
        if (packet[3] != std::byte{PASSING_RESULT}) {
          packet.resize(wire::packet_bytes(PASSING_REPORT_WORDS));
          packet[31] = std::byte{PASSING_REPORT_WORDS};
          packet[PASSING_HEADER_BYTES + 15] = static_cast<std::byte>(input.below(6));
        }
        if (input.below(3) == 0) packet[20 + input.below(16)] ^= static_cast<std::byte>(input.byte());
        if (input.below(3) == 0) packet[28] = packet[29] = std::byte{0xFF};
        member->receive(now, lane, {}, packet);
        break;
      }
    }
    while (const std::size_t bytes = member->next_packet(now, lane, out)) {
      wire::Header header;
      PASSING_ASSERT(wire::parse({out, bytes}, wire::Direction::to_switch, 2, header) == wire::Drop::none);
      PASSING_ASSERT(header.job == 1 && header.key == 5 && header.epoch == 1 && header.lane == lane);
      if (header.type == wire::Type::contribution) last.assign(out, out + bytes);
    }
    while (member->next_completion()) {
    }
  }
  return 0;
}
