// The userspace dataplane through real sockets on loopback: the same cases, byte by byte through the kernel.
#include <sys/socket.h>

#include <map>

#include "conformance/dataplane.h"
#include "dataplane/userspace/userspace.h"
#include "wire/packet.h"

namespace passing::conformance {
namespace {

// Stands between the cases' made-up addresses and sockets of 127.0.0.1.
class SocketDataplane : public Dataplane {
 public:
  explicit SocketDataplane(const dataplane::Capabilities& capabilities, bool segmentation)
      : segmentation_(segmentation) {
    auto started = dataplane::UserspaceDataplane::start(
        {.listen = loopback(), .threads = 1, .capabilities = capabilities, .segmentation = segmentation});
    PASSING_ASSERT(started);
    dataplane_ = std::move(*started);
  }

  Expected<void> install(const dataplane::JobSpec& spec) override {
    std::vector<net::SocketAddress> members;
    for (const Address& address : spec.addresses) members.push_back(socket_of(address).local());
    auto installed = dataplane_->install(spec, members);
    if (installed) {
      jobs_[spec.job] = spec;
      departed_[spec.job] = 0;
    }
    return installed;
  }

  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) override {
    dataplane_->depart(job, epoch, member);
    ++departed_[job];
  }

  std::optional<Sent> handle(const Address& from, const std::vector<std::byte>& packet) override {
    const std::uint64_t before = dataplane_->totals().counters.packets_in;
    net::UdpSocket& sender = socket_of(from);
    const net::SocketAddress to = dataplane_->lane_address(0);
    ::sendto(sender.descriptor(), packet.data(), packet.size(), 0, to.get(), to.length);
    // The worker answers within the burst that the packet came in, and this command runs between bursts.
    while (dataplane_->totals().counters.packets_in == before) {
    }
    std::optional<Sent> sent;
    std::size_t copies = 0;
    for (auto& [address, socket] : sockets_) {
      socket.receive(4, [&, &at = address](const net::UdpSocket::Source&, std::span<const std::byte> answer) {
        ++copies;
        sent = Sent{.to = member_of(at), .bytes = {answer.begin(), answer.end()}};
      });
    }
    if (sent) {
      wire::Header header;
      PASSING_ASSERT(wire::parse(sent->bytes, wire::Direction::to_member, PASSING_MAX_ELEMENTS, header) ==
                     wire::Drop::none);
      const std::size_t members = jobs_.at(header.job).members;
      const bool again = (header.flags & PASSING_FLAG_AGAIN) != 0 || header.type == wire::Type::status;
      PASSING_ASSERT(copies == (again ? 1 : members - departed_[header.job]));
      if (!again) sent->to.reset();
    }
    return sent;
  }

  bool big_endian() const override { return false; }

  std::optional<std::uint64_t> counter(const std::string& name) const override {
    return counter_by_name(dataplane_->totals().counters, name);
  }

 private:
  static net::SocketAddress loopback() { return *net::parse_address("127.0.0.1:0"); }

  net::UdpSocket& socket_of(const Address& address) {
    const auto key = std::make_pair(address.ip, address.port);
    const auto found = sockets_.find(key);
    if (found != sockets_.end()) return found->second;
    auto socket = net::UdpSocket::open(
        loopback(), {.receive_buffer = 1U << 16, .send_buffer = 1U << 16, .segmentation = segmentation_});
    PASSING_ASSERT(socket);
    return sockets_.emplace(key, std::move(*socket)).first->second;
  }

  // The cases put the member into the last byte of the address.
  static std::uint16_t member_of(const std::pair<std::array<std::uint8_t, 16>, std::uint16_t>& key) {
    return key.first[15];
  }

  bool segmentation_;
  std::unique_ptr<dataplane::UserspaceDataplane> dataplane_;
  std::map<std::uint32_t, dataplane::JobSpec> jobs_;
  std::map<std::uint32_t, std::size_t> departed_;  // members, by job
  std::map<std::pair<std::array<std::uint8_t, 16>, std::uint16_t>, net::UdpSocket> sockets_;
};

}  // namespace

std::unique_ptr<Dataplane> make_sockets(const dataplane::Capabilities& capabilities) {
  return std::make_unique<SocketDataplane>(capabilities, true);
}

std::unique_ptr<Dataplane> make_plain_sockets(const dataplane::Capabilities& capabilities) {
  return std::make_unique<SocketDataplane>(capabilities, false);
}

}  // namespace passing::conformance
