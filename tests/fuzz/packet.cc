// The packet parser: any bytes, both directions. What is accepted must survive being written again.
#include "wire/packet.h"

#include <cstring>
#include <vector>

#include "base/error.h"

using namespace passing;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const wire::Bytes packet{reinterpret_cast<const std::byte*>(data), size};
  for (const auto direction : {wire::Direction::to_switch, wire::Direction::to_member}) {
    wire::Header header;
    if (wire::parse(packet, direction, 352, header) != wire::Drop::none) continue;
    PASSING_ASSERT(size == wire::packet_bytes(header.count));
    std::vector<std::byte> again(size);
    wire::write_header(header, again.data());
    PASSING_ASSERT(std::memcmp(again.data(), data, PASSING_HEADER_BYTES) == 0);
    static_cast<void>(wire::to_string(header));
    wire::Report report;
    if (header.count >= PASSING_REPORT_WORDS) {
      static_cast<void>(wire::read_report(packet.data() + PASSING_HEADER_BYTES, report));
    }
  }
  return 0;
}
