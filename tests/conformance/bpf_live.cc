// The switch in the kernel as it runs: programs on veth ports, frames through them. Members share ports, so
// that several copies of a result leave by one.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "conformance/bpf_dataplane.h"
#include "wire/packet.h"

namespace passing::conformance {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr unsigned kPorts = 3;

void make_ports() {
  static const bool made = [] {
    enter_own_network();
    std::string script = "set -e; ip addr add 10.255.0.1/32 dev lo\n";
    for (unsigned p = 0; p < kPorts; ++p) {
      const std::string n = std::to_string(p);
      script += "ip link add port" + n + " type veth peer name end" + n + "\n";
      for (const std::string& device : {"port" + n, "end" + n})
        script += "ip link set " + device + " addrgenmode none\nip link set " + device + " up\n";
      script += "ethtool -K end" + n + " gro on\n";  // or frames that XDP redirects vanish
    }
    PASSING_ASSERT(std::system(("{ " + script + "} >/dev/null").c_str()) == 0);
    return true;
  }();
  static_cast<void>(made);
}

// The far end of a port, where members are.
class End {
 public:
  explicit End(unsigned port) : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    address_.sll_family = AF_PACKET;
    address_.sll_protocol = htons(ETH_P_ALL);
    address_.sll_ifindex = static_cast<int>(if_nametoindex(("end" + std::to_string(port)).c_str()));
    PASSING_ASSERT(::bind(socket_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0);
  }
  ~End() { ::close(socket_); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void send(std::span<const std::byte> frame) const {
    PASSING_ASSERT(::send(socket_, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
  }

  // A datagram that came from the switch, if there is one.
  std::optional<Datagram> receive() const {
    for (;;) {
      std::byte frame[65536];
      sockaddr_ll from{};
      socklen_t length = sizeof from;
      const ssize_t got =
          ::recvfrom(socket_, frame, sizeof frame, 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (got < 0) return std::nullopt;
      if (from.sll_pkttype == PACKET_OUTGOING) continue;
      auto datagram = read_frame({frame, static_cast<std::size_t>(got)});
      if (datagram && datagram->from == switch_address(Family::four)) return datagram;
    }
  }

 private:
  int socket_;
  sockaddr_ll address_{};
};

class LiveDataplane : public Dataplane {
 public:
  LiveDataplane(dataplane::Hook hook, const dataplane::Capabilities& capabilities) {
    make_ports();
    dataplane::BpfDataplane::Options options{.hook = hook,
                                             .listen = socket_address(switch_address(Family::four)),
                                             .interfaces = {},
                                             .capabilities = capabilities};
    for (unsigned p = 0; p < kPorts; ++p) {
      options.interfaces.push_back("port" + std::to_string(p));
      ends_.push_back(std::make_unique<End>(p));
    }
    auto started = dataplane::BpfDataplane::start(options);
    if (!started) std::fprintf(stderr, "%s\n", started.error().message.c_str());
    PASSING_ASSERT(started);
    dataplane_ = std::move(*started);
  }

  Expected<void> install(const dataplane::JobSpec& spec) override {
    std::vector<net::SocketAddress> members;
    for (const Address& address : spec.addresses) members.push_back(socket_address(as_ipv4(address)));
    auto installed = dataplane_->install(spec, members);
    if (installed) {
      departed_.erase(spec.job);
    }
    return installed;
  }

  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) override {
    dataplane_->depart(job, epoch, member);
    departed_[job].insert(member);
  }

  std::optional<Sent> handle(const Address& from, const std::vector<std::byte>& packet) override {
    const auto before = dataplane_->totals().counters;
    const Datagram datagram{.from_mac = mac_of(from),
                            .to_mac = kSwitchMac,
                            .from = as_ipv4(from),
                            .to = switch_address(Family::four),
                            .payload = packet};
    end_of(from).send(write_frame(datagram));
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (dataplane_->totals().counters.packets_in == before.packets_in)
      PASSING_ASSERT(Clock::now() < deadline);
    const auto after = dataplane_->totals().counters;
    return collect(from, after.packets_out - before.packets_out);
  }

  bool big_endian() const override { return false; }

  std::optional<std::uint64_t> counter(const std::string& name) const override {
    return counter_by_name(dataplane_->totals().counters, name);
  }

 private:
  const End& end_of(const Address& member) const { return *ends_[member.ip[15] % kPorts]; }

  // Up to `expected` copies, each on its member's port and addressed to it.
  std::optional<Sent> collect(const Address& sender, std::uint64_t expected) {
    std::optional<Sent> sent;
    std::map<std::uint8_t, unsigned> copies;  // by member
    std::uint64_t arrived = 0;
    auto deadline = Clock::now() + milliseconds(expected == 0 ? 2 : 5000);
    while (arrived < std::max<std::uint64_t>(expected, 1) && Clock::now() < deadline) {
      for (unsigned p = 0; p < kPorts; ++p) {
        while (auto got = ends_[p]->receive()) {
          ++arrived;
          const std::uint8_t member = got->to.ip[15];
          ++copies[member];
          Address to = sender;
          to.ip[15] = member;
          PASSING_ASSERT(member % kPorts == p && got->to == as_ipv4(to));
          PASSING_ASSERT(got->to_mac == mac_of(to) && got->from_mac == kSwitchMac);
          PASSING_ASSERT(!sent || sent->bytes == got->payload);
          const auto gone = departed_.find(header_of({.to = {}, .bytes = got->payload}).job);
          PASSING_ASSERT(gone == departed_.end() || gone->second.count(member) == 0);
          sent = Sent{.to = member, .bytes = std::move(got->payload)};
          // Who has left, or has not been heard yet, gets none: the rest comes at once.
          if (wants_fewer(*sent)) deadline = std::min(deadline, Clock::now() + milliseconds(30));
        }
      }
    }
    PASSING_ASSERT((expected == 0) == !sent);
    if (!sent) return sent;
    for (const auto& [member, number] : copies) PASSING_ASSERT(number == 1);
    const wire::Header header = header_of(*sent);
    PASSING_ASSERT(arrived == expected || wants_fewer(*sent));
    const bool again = (header.flags & PASSING_FLAG_AGAIN) != 0 || header.type == wire::Type::status;
    if (!again) sent->to.reset();
    return sent;
  }

  static wire::Header header_of(const Sent& sent) {
    wire::Header header;
    PASSING_ASSERT(wire::parse(sent.bytes, wire::Direction::to_member, PASSING_MAX_ELEMENTS, header) ==
                   wire::Drop::none);
    return header;
  }

  bool wants_fewer(const Sent& sent) const {
    const wire::Header header = header_of(sent);
    return header.type == wire::Type::notice || departed_.count(header.job) != 0;
  }

  std::unique_ptr<dataplane::BpfDataplane> dataplane_;
  std::vector<std::unique_ptr<End>> ends_;
  std::map<std::uint32_t, std::set<std::uint16_t>> departed_;  // by job
};

}  // namespace

std::unique_ptr<Dataplane> make_live(dataplane::Hook hook, const dataplane::Capabilities& capabilities) {
  return std::make_unique<LiveDataplane>(hook, capabilities);
}

}  // namespace passing::conformance
