// Text that somebody else has sent, as a log or a sentence may show it.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace passing {

/// Not longer than `most` characters of the text, and no bytes that a terminal would act on.
inline std::string printable(const std::string& text, std::size_t most = 128) {
  std::string shown;
  for (const char each : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(each);
    shown += byte >= 0x20 && byte < 0x7F ? std::string(1, each) : fmt::format("\\x{:02x}", byte);
  }
  return text.size() > most ? shown + "..." : shown;
}

}  // namespace passing
