#include "rehearse/network.h"

#include <utility>

#include "wire/wire.h"

namespace passing::rehearse {
const char* to_string(Fate fate) {
  switch (fate) {
    case Fate::sent: return "";
    case Fate::lost: return "LOST";
    case Fate::duplicated: return "DUPLICATED";
    case Fate::corrupted: return "CORRUPTED";
    case Fate::truncated: return "TRUNCATED";
    case Fate::forged: return "and a FORGED copy";
    case Fate::late: return "LATE";
  }
  return "?";
}

Fate Network::send(Time now, std::uint32_t to, const Address& from, const std::byte* bytes,
                   std::size_t size) {
  if (random_.chance(plan_.loss)) return Fate::lost;
  Delivery delivery{.at = arrival(now), .to = to, .from = from, .bytes = {bytes, bytes + size}};
  Fate fate = Fate::sent;
  if (random_.chance(plan_.straggling)) {
    delivery.at += random_.between(0, plan_.straggle);
    fate = Fate::late;
  }
  if (random_.chance(plan_.forgery)) {
    Delivery copy = delivery;
    copy.at = arrival(now);
    forge(copy);
    push(std::move(copy));
    fate = Fate::forged;
  }
  if (random_.chance(plan_.duplication)) {
    Delivery copy = delivery;
    copy.at = arrival(now) + random_.between(0, plan_.straggle);
    push(std::move(copy));
    fate = Fate::duplicated;
  }
  if (random_.chance(plan_.truncation)) {
    delivery.bytes.resize(random_.below(size));
    fate = Fate::truncated;
  }
  if (random_.chance(plan_.corruption)) {
    delivery.damaged = true;
    fate = Fate::corrupted;
  }
  push(std::move(delivery));
  return fate;
}

Delivery Network::take() {
  // The queue's top is const only to protect its order; it is removed at once.
  Delivery delivery = std::move(const_cast<Delivery&>(queue_.top()));
  queue_.pop();
  return delivery;
}

void Network::postpone(Delivery delivery, Time until) {
  delivery.at = until;
  delivery.serial = serial_++;
  queue_.push(std::move(delivery));
}

Time Network::arrival(Time now) { return now + plan_.delay + random_.between(0, plan_.jitter); }

void Network::push(Delivery delivery) {
  delivery.serial = serial_++;
  queue_.push(std::move(delivery));
}

// A packet that someone else made up: right in all but one field.
void Network::forge(Delivery& delivery) {
  const auto flip = [&](std::size_t offset) {
    delivery.bytes[offset] ^= static_cast<std::byte>(random_.between(1, 255));
  };
  switch (random_.below(10)) {
    case 0: flip(0); break;                                                              // magic
    case 1: flip(2); break;                                                              // version
    case 2: delivery.bytes[3] = static_cast<std::byte>(random_.between(7, 255)); break;  // type
    case 3: flip(4 + random_.below(4)); break;                                           // job
    case 4: flip(8 + random_.below(8)); break;                                           // key
    case 5: flip(16 + random_.below(4)); break;                                          // epoch
    case 6: delivery.bytes[32] = std::byte{0x7F}; break;                                 // member
    case 7: delivery.bytes[34] = std::byte{PASSING_MAX_LANES}; break;                    // lane
    case 8: flip(30 + random_.below(2)); break;                                          // count
    default: delivery.from.port ^= 0x4000; break;                                        // source
  }
}

}  // namespace passing::rehearse
