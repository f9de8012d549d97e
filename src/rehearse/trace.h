// A readable line per packet, for replaying a seed.
#pragma once

#include <functional>
#include <string>

#include "base/time.h"
#include "rehearse/network.h"
#include "wire/packet.h"

namespace passing::rehearse {

using TraceSink = std::function<void(const std::string&)>;

/// "   1.234567 ms  job 1 member 3 > switch    CONTRIBUTION ...  LOST"
std::string trace_packet(Time at, const std::string& from, const std::string& to, const std::byte* bytes,
                         std::size_t size, Fate fate);
std::string trace_event(Time at, const std::string& what);

}  // namespace passing::rehearse
