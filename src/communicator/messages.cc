#include "communicator/messages.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace passing {
std::string ControlMessage::encode() const {
  Writer out;
  out.put(type).put(number);
  if (type == Type::announce) {
    signature.write(out);
    out.put(counts);
  }
  if (type == Type::news) out.put(text);
  return out.take();
}

std::optional<ControlMessage> ControlMessage::decode(const std::string& data) {
  ControlMessage control;
  Reader in(data);
  in.get(control.type).get(control.number);
  if (control.type == Type::announce) {
    control.signature.read(in);
    in.get(control.counts);
  }
  if (control.type == Type::news) in.get(control.text);
  const bool known = control.type >= Type::announce && control.type <= Type::ready;
  return known && in.whole() ? std::optional(std::move(control)) : std::nullopt;
}

std::string Introduction::encode() const {
  Writer out;
  out.put(version)
      .put(trouble)
      .put(strategy)
      .put(host)
      .put(address)
      .put(control)
      .put(place)
      .put(rack)
      .put(local_domain)
      .put(carrier);
  out.put(process).put(rank).put(size).put(lanes).put(link_rate).put(switch_rate).put(has_switch);
  return out.take();
}

std::optional<Introduction> Introduction::decode(const std::string& data) {
  Introduction i;
  Reader in(data);
  in.get(i.version)
      .get(i.trouble)
      .get(i.strategy)
      .get(i.host)
      .get(i.address)
      .get(i.control)
      .get(i.place)
      .get(i.rack);
  in.get(i.local_domain).get(i.carrier);
  in.get(i.process)
      .get(i.rank)
      .get(i.size)
      .get(i.lanes)
      .get(i.link_rate)
      .get(i.switch_rate)
      .get(i.has_switch);
  return in.whole() ? std::optional(std::move(i)) : std::nullopt;
}

std::string Introduction::name() const {
  return fmt::format("rank {} at {} (host {}, process {})", rank, address, host, process);
}

}  // namespace passing
