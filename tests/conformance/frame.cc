#include "conformance/frame.h"

#include <algorithm>
#include <cstring>

namespace passing::conformance {
namespace {

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kUdp = 8;
constexpr std::uint8_t kUdpProtocol = 17;

bool mapped(const Address& address) {
  static constexpr std::array<std::uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::equal(kPrefix.begin(), kPrefix.end(), address.ip.begin());
}

std::uint16_t ones_complement(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << 8 | std::to_integer<std::uint32_t>(bytes[i + 1]);
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  void u8(unsigned value) { out_.push_back(static_cast<std::byte>(value)); }
  void u16(std::size_t value) {
    u8(static_cast<unsigned>(value >> 8));
    u8(static_cast<unsigned>(value & 0xFF));
  }
  template <class Bytes>
  void all(const Bytes& bytes) {
    for (const auto each : bytes) u8(static_cast<unsigned>(each));
  }

 private:
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  unsigned u8(std::size_t at) const { return std::to_integer<unsigned>(bytes_[at]); }
  unsigned u16(std::size_t at) const { return u8(at) << 8 | u8(at + 1); }
  template <std::size_t size>
  std::array<std::uint8_t, size> all(std::size_t at) const {
    std::array<std::uint8_t, size> result;
    std::memcpy(result.data(), bytes_.data() + at, size);
    return result;
  }

 private:
  std::span<const std::byte> bytes_;
};

Address mapped_address(const std::array<std::uint8_t, 4>& four) {
  Address address;
  address.ip[10] = address.ip[11] = 0xFF;
  std::copy(four.begin(), four.end(), address.ip.begin() + 12);
  return address;
}

}  // namespace

std::vector<std::byte> write_frame(const Datagram& datagram) {
  std::vector<std::byte> frame;
  Writer out(frame);
  const std::size_t udp = kUdp + datagram.payload.size();
  out.all(datagram.to_mac);
  out.all(datagram.from_mac);
  if (mapped(datagram.from) && mapped(datagram.to)) {
    out.u16(0x0800);
    out.u16(0x4500);
    out.u16(20 + udp);
    out.u16(0);
    out.u16(0x4000);  // not to be fragmented
    out.u8(64);
    out.u8(kUdpProtocol);
    out.u16(0);
    out.all(std::span(datagram.from.ip).subspan(12));
    out.all(std::span(datagram.to.ip).subspan(12));
    const auto sum = static_cast<std::uint16_t>(~ones_complement(std::span(frame).subspan(kEthernet, 20)));
    frame[kEthernet + 10] = static_cast<std::byte>(sum >> 8);
    frame[kEthernet + 11] = static_cast<std::byte>(sum & 0xFF);
  } else {
    out.u16(0x86DD);
    out.u16(0x6000);
    out.u16(0);
    out.u16(udp);
    out.u8(kUdpProtocol);
    out.u8(64);
    out.all(datagram.from.ip);
    out.all(datagram.to.ip);
  }
  out.u16(datagram.from.port);
  out.u16(datagram.to.port);
  out.u16(udp);
  out.u16(0);
  frame.insert(frame.end(), datagram.payload.begin(), datagram.payload.end());
  return frame;
}

std::optional<Datagram> read_frame(std::span<const std::byte> frame) {
  const Reader in(frame);
  if (frame.size() < kEthernet) return std::nullopt;
  Datagram datagram;
  datagram.to_mac = in.all<6>(0);
  datagram.from_mac = in.all<6>(6);
  std::size_t udp = 0;
  std::size_t payload = 0;
  if (in.u16(12) == 0x0800) {
    udp = kEthernet + 20;
    if (frame.size() < udp || in.u8(kEthernet) != 0x45 || in.u8(kEthernet + 9) != kUdpProtocol)
      return std::nullopt;
    if ((in.u16(kEthernet + 6) & 0x3FFF) != 0) return std::nullopt;
    if (ones_complement(frame.subspan(kEthernet, 20)) != 0xFFFF) return std::nullopt;
    if (in.u16(kEthernet + 2) < 20) return std::nullopt;
    payload = in.u16(kEthernet + 2) - 20U;
    datagram.from = mapped_address(in.all<4>(kEthernet + 12));
    datagram.to = mapped_address(in.all<4>(kEthernet + 16));
  } else if (in.u16(12) == 0x86DD) {
    udp = kEthernet + 40;
    if (frame.size() < udp || in.u8(kEthernet) >> 4 != 6 || in.u8(kEthernet + 6) != kUdpProtocol)
      return std::nullopt;
    payload = in.u16(kEthernet + 4);
    datagram.from.ip = in.all<16>(kEthernet + 8);
    datagram.to.ip = in.all<16>(kEthernet + 24);
    if (mapped(datagram.from) || mapped(datagram.to)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (frame.size() < udp + kUdp) return std::nullopt;
  const std::size_t length = in.u16(udp + 4);
  if (length < kUdp || length > payload || udp + length > frame.size()) return std::nullopt;
  datagram.from.port = static_cast<std::uint16_t>(in.u16(udp));
  datagram.to.port = static_cast<std::uint16_t>(in.u16(udp + 2));
  const auto body = frame.subspan(udp + kUdp, length - kUdp);
  datagram.payload.assign(body.begin(), body.end());
  return datagram;
}

Address as_ipv4(const Address& address) {
  // The seventh byte tells strangers in the cases.
  Address four = mapped_address({10, address.ip[0], address.ip[7], address.ip[15]});
  four.port = address.port;
  return four;
}

}  // namespace passing::conformance
