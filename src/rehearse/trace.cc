#include "rehearse/trace.h"

#include <fmt/format.h>

namespace passing::rehearse {
namespace {

std::string stamp(Time at) { return fmt::format("{:14.6f} ms", static_cast<double>(at) / kMillisecond); }

std::string contents(const std::byte* bytes, std::size_t size) {
  wire::Header header;
  for (const auto direction : {wire::Direction::to_switch, wire::Direction::to_member}) {
    if (wire::parse({bytes, size}, direction, PASSING_MAX_ELEMENTS, header) != wire::Drop::none) {
      continue;
    }
    std::string text = wire::to_string(header);
    wire::Report report;
    if ((header.type == wire::Type::notice || header.type == wire::Type::status) &&
        wire::read_report(bytes + PASSING_HEADER_BYTES, report)) {
      text += fmt::format(" [{} bitmap={:x} first={} second={}]", wire::to_string(report.state),
                          report.bitmap, report.first, report.second);
    }
    return text;
  }
  return fmt::format("malformed, {} bytes", size);
}

}  // namespace

std::string trace_packet(Time at, const std::string& from, const std::string& to, const std::byte* bytes,
                         std::size_t size, Fate fate) {
  return fmt::format("{}  {:<16} > {:<16} {} {}", stamp(at), from, to, contents(bytes, size),
                     to_string(fate));
}

std::string trace_event(Time at, const std::string& what) { return fmt::format("{}  {}", stamp(at), what); }

}  // namespace passing::rehearse
