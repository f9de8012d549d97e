#include "conformance/bpf_dataplane.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "wire/packet.h"

namespace passing::conformance {

Address switch_address(Family family) {
  Address address;
  if (family == Family::four) {
    address.ip[10] = address.ip[11] = 0xFF;
    address.ip[12] = 10;
    address.ip[13] = 255;
  } else {
    address.ip[0] = 0xFD;
  }
  address.ip[15] = 1;
  address.port = 9000;
  return address;
}

net::SocketAddress socket_address(const Address& address) {
  net::SocketAddress socket;
  if (address.ip[10] == 0xFF && address.ip[11] == 0xFF) {
    auto* four = reinterpret_cast<sockaddr_in*>(&socket.storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(address.port);
    std::memcpy(&four->sin_addr, address.ip.data() + 12, 4);
    socket.length = sizeof *four;
  } else {
    auto* six = reinterpret_cast<sockaddr_in6*>(&socket.storage);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
    std::memcpy(&six->sin6_addr, address.ip.data(), 16);
    socket.length = sizeof *six;
  }
  return socket;
}

Mac mac_of(const Address& address) { return {2, 0x50, 0x53, 1, address.ip[0], address.ip[15]}; }

void enter_own_network() {
  static const bool entered = [] {
    PASSING_ASSERT(unshare(CLONE_NEWNET) == 0);
    const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    PASSING_ASSERT(ioctl(socket, SIOCSIFFLAGS, &request) == 0);
    ::close(socket);
    return true;
  }();
  static_cast<void>(entered);
}

BpfRunner::BpfRunner(dataplane::Hook hook, Family family, const dataplane::Capabilities& capabilities,
                     unsigned ports)
    : hook_(hook) {
  enter_own_network();  // clones that tc makes go to its loopback, where nobody wants them
  auto started = dataplane::BpfDataplane::start({.hook = hook,
                                                 .listen = socket_address(switch_address(family)),
                                                 .ports = ports,
                                                 .interfaces = {},
                                                 .capabilities = capabilities});
  if (!started) std::fprintf(stderr, "%s\n", started.error().message.c_str());
  PASSING_ASSERT(started);
  dataplane_ = std::move(*started);
}

Expected<void> BpfRunner::install(const dataplane::JobSpec& spec) {
  std::vector<net::SocketAddress> members;
  for (const Address& address : spec.addresses) members.push_back(socket_address(address));
  return dataplane_->install(spec, members);
}

Run BpfRunner::run(std::span<const std::byte> frame) const {
  Run run;
  run.frame.resize(65536);
  bpf_test_run_opts options{};
  options.sz = sizeof options;
  options.data_in = frame.data();
  options.data_size_in = static_cast<__u32>(frame.size());
  options.data_out = run.frame.data();
  options.data_size_out = static_cast<__u32>(run.frame.size());
  const int status = bpf_prog_test_run_opts(dataplane_->program(), &options);
  if (status != 0) std::fprintf(stderr, "test run: %s\n", std::strerror(-status));
  PASSING_ASSERT(status == 0);
  run.frame.resize(options.data_size_out);
  const auto code = static_cast<int>(options.retval);
  const bool xdp = hook_ == dataplane::Hook::xdp;
  if (code == (xdp ? static_cast<int>(XDP_PASS) : TC_ACT_UNSPEC)) return run;
  if (code == (xdp ? static_cast<int>(XDP_DROP) : TC_ACT_SHOT)) {
    run.did = Run::Did::dropped;
    return run;
  }
  PASSING_ASSERT(code == (xdp ? static_cast<int>(XDP_REDIRECT) : TC_ACT_REDIRECT));
  // What is for one member says so: a status, or something sent again.
  const auto sent = read_frame(run.frame);
  PASSING_ASSERT(sent);
  wire::Header header;
  PASSING_ASSERT(wire::parse(sent->payload, wire::Direction::to_member, PASSING_MAX_ELEMENTS, header) ==
                 wire::Drop::none);
  const bool one = header.type == wire::Type::status || (header.flags & PASSING_FLAG_AGAIN) != 0;
  run.did = one ? Run::Did::to_sender : Run::Did::to_everyone;
  return run;
}

namespace {

class BpfConformance : public Dataplane {
 public:
  BpfConformance(dataplane::Hook hook, Family family, const dataplane::Capabilities& capabilities)
      : family_(family), runner_(hook, family, capabilities) {}

  Expected<void> install(const dataplane::JobSpec& spec) override {
    dataplane::JobSpec moved = spec;
    for (Address& address : moved.addresses) address = moved_to_family(address);
    return runner_.install(moved);
  }

  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) override {
    runner_.dataplane().depart(job, epoch, member);
  }

  std::optional<Sent> handle(const Address& from, const std::vector<std::byte>& packet) override {
    const Datagram datagram{.from_mac = mac_of(from),
                            .to_mac = kSwitchMac,
                            .from = moved_to_family(from),
                            .to = switch_address(family_),
                            .payload = packet};
    const Run run = runner_.run(write_frame(datagram));
    PASSING_ASSERT(run.did != Run::Did::passed);
    if (run.did == Run::Did::dropped) return std::nullopt;
    const auto sent = read_frame(run.frame);
    PASSING_ASSERT(sent && sent->from_mac == kSwitchMac && sent->from == datagram.to);
    if (run.did == Run::Did::to_everyone) return Sent{.to = std::nullopt, .bytes = sent->payload};
    PASSING_ASSERT(sent->to == datagram.from && sent->to_mac == datagram.from_mac);
    return Sent{.to = from.ip[15], .bytes = sent->payload};
  }

  bool big_endian() const override { return false; }

  std::optional<std::uint64_t> counter(const std::string& name) const override {
    return counter_by_name(runner_.dataplane().totals().counters, name);
  }

 private:
  Address moved_to_family(const Address& address) const {
    return family_ == Family::four ? as_ipv4(address) : address;
  }

  Family family_;
  BpfRunner runner_;
};

template <dataplane::Hook hook, Family family>
std::unique_ptr<Dataplane> make(const dataplane::Capabilities& capabilities) {
  return std::make_unique<BpfConformance>(hook, family, capabilities);
}

template <dataplane::Hook hook>
std::unique_ptr<Dataplane> live(const dataplane::Capabilities& capabilities) {
  return make_live(hook, capabilities);
}

}  // namespace

std::vector<Candidate> bpf_candidates() {
  using dataplane::Hook;
  return {{"xdp_ipv4", make<Hook::xdp, Family::four>, true},
          {"xdp_ipv6", make<Hook::xdp, Family::six>, true},
          {"tc_ipv4", make<Hook::tc, Family::four>, true},
          {"tc_ipv6", make<Hook::tc, Family::six>, true},
          {"xdp_veth", live<Hook::xdp>, true},
          {"tc_veth", live<Hook::tc>, true}};
}

}  // namespace passing::conformance
