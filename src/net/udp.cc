#include "net/udp.h"

#include <fmt/format.h>
#include <netinet/udp.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/shortage.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace passing::net {
namespace {

constexpr std::size_t kReceiveTrain = 65'536;
constexpr std::size_t kReceivePacket = 9216;  // without GRO: a jumbo frame
constexpr std::size_t kBatch = 32;

Expected<void> system_error(const std::string& what) {
  return system_failure(ErrorCode::invalid_argument, what, errno);
}

// Asks for a buffer; returns what the kernel granted (it counts double for its own use).
std::size_t set_buffer(int descriptor, int option, int force, std::size_t wanted) {
  const int value = static_cast<int>(wanted);
  if (setsockopt(descriptor, SOL_SOCKET, force, &value, sizeof value) != 0) {
    setsockopt(descriptor, SOL_SOCKET, option, &value, sizeof value);
  }
  int granted = 0;
  socklen_t length = sizeof granted;
  getsockopt(descriptor, SOL_SOCKET, option, &granted, &length);
  return static_cast<std::size_t>(granted) / 2;
}

}  // namespace

Expected<UdpSocket> UdpSocket::open(const SocketAddress& local, const Options& options) {
  UdpSocket socket;
  socket.descriptor_ = ::socket(local.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket.descriptor_ < 0) return tl::unexpected(system_error("cannot open a UDP socket").error());
  if (::bind(socket.descriptor_, local.get(), local.length) != 0) {
    return tl::unexpected(system_error(fmt::format("cannot listen on UDP {}", to_string(local))).error());
  }
  // Never fragment: a lost fragment would lose the packet, and reassembly is an attack surface.
  const int discover = IP_PMTUDISC_DO;
  setsockopt(socket.descriptor_, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover);
  setsockopt(socket.descriptor_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof discover);
  // A switch in the kernel sends no UDP checksums; with IPv6 that must be allowed.
  const int on = 1;
  setsockopt(socket.descriptor_, SOL_UDP, UDP_NO_CHECK6_RX, &on, sizeof on);
  socket.set_buffers(options);
  socket.detect_segmentation(options);
  socket.arena_.resize(socket.segmentation_ ? kReceiveTrain : kBatch * kReceivePacket);
  return socket;
}

UdpSocket::UdpSocket(UdpSocket&& other) noexcept { *this = std::move(other); }

UdpSocket& UdpSocket::operator=(UdpSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(segmentation_, other.segmentation_);
  std::swap(buffer_warning_, other.buffer_warning_);
  std::swap(arena_, other.arena_);
  std::swap(system_calls_, other.system_calls_);
  std::swap(send_failures_, other.send_failures_);
  std::swap(send_in_trains_, other.send_in_trains_);
  return *this;
}

UdpSocket::~UdpSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void UdpSocket::set_buffers(const Options& options) {
  const std::size_t receive = set_buffer(descriptor_, SO_RCVBUF, SO_RCVBUFFORCE, options.receive_buffer);
  const std::size_t send = set_buffer(descriptor_, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
  if (receive < options.receive_buffer) {
    buffer_warning_ = fmt::format(
        "the receive buffer is {} KB, not {} KB: packets may be lost in bursts; "
        "sysctl -w net.core.rmem_max={}",
        receive >> 10, options.receive_buffer >> 10, options.receive_buffer);
  } else if (send < options.send_buffer) {
    buffer_warning_ = fmt::format(
        "the send buffer is {} KB, not {} KB: packets may be lost in bursts; sysctl -w net.core.wmem_max={}",
        send >> 10, options.send_buffer >> 10, options.send_buffer);
  }
}

void UdpSocket::detect_segmentation(const Options& options) {
  const int on = 1;
  int size = 0;
  socklen_t length = sizeof size;
  segmentation_ = options.segmentation &&
                  getsockopt(descriptor_, SOL_UDP, UDP_SEGMENT, &size, &length) == 0 &&
                  setsockopt(descriptor_, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
}

Expected<void> UdpSocket::connect(const SocketAddress& peer) {
  if (::connect(descriptor_, peer.get(), peer.length) != 0) {
    return system_error(fmt::format("cannot reach UDP {}", to_string(peer)));
  }
  return {};
}

SocketAddress UdpSocket::local() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  getsockname(descriptor_, address.get(), &address.length);
  return address;
}

int UdpSocket::path_mtu() const {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  if (getsockopt(descriptor_, IPPROTO_IP, IP_MTU, &mtu, &length) == 0) return mtu;
  if (getsockopt(descriptor_, IPPROTO_IPV6, IPV6_MTU, &mtu, &length) == 0) return mtu;
  return 0;
}

void UdpSocket::send_train(const SocketAddress* to, std::span<const std::byte> bytes, std::size_t size) {
  if (!segmentation_ || !send_in_trains_) return send_packets(to, bytes, size);
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(std::uint16_t))] = {};
  msghdr message{};
  if (to != nullptr) {
    message.msg_name = const_cast<sockaddr*>(to->get());
    message.msg_namelen = to->length;
  }
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (bytes.size() > size) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto segment = static_cast<std::uint16_t>(size);
    std::memcpy(CMSG_DATA(header), &segment, sizeof segment);
  }
  // A stale error of an earlier packet (ICMP) is reported once and costs nothing else: try again.
  for (int attempt = 0; attempt < 2; ++attempt) {
    ++system_calls_;
    if (sendmsg(descriptor_, &message, 0) >= 0) return;
    if (errno != ECONNREFUSED) break;
  }
  if (errno == EIO || errno == EINVAL) {
    // The interface refuses what the socket accepted (no checksum offload, say): from now on packet by
    // packet.
    send_in_trains_ = false;
    return send_packets(to, bytes, size);
  }
  send_failures_ += (bytes.size() + size - 1) / size;
}

void UdpSocket::send_packets(const SocketAddress* to, std::span<const std::byte> bytes, std::size_t size) {
  mmsghdr messages[kTrainPackets] = {};
  iovec vectors[kTrainPackets];
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size() && count < kTrainPackets; at += size, ++count) {
    vectors[count] = {const_cast<std::byte*>(bytes.data() + at), std::min(size, bytes.size() - at)};
    msghdr& header = messages[count].msg_hdr;
    header.msg_iov = &vectors[count];
    header.msg_iovlen = 1;
    if (to != nullptr) {
      header.msg_name = const_cast<sockaddr*>(to->get());
      header.msg_namelen = to->length;
    }
  }
  for (std::size_t sent = 0; sent < count;) {
    ++system_calls_;
    const int done = sendmmsg(descriptor_, messages + sent, static_cast<unsigned>(count - sent), 0);
    // A refusal (buffer full, ICMP error of an earlier packet) costs one packet, not the rest.
    if (done <= 0 && errno != ECONNREFUSED) ++send_failures_;
    sent += done > 0 ? static_cast<std::size_t>(done) : 1;
  }
}

std::size_t UdpSocket::receive(std::size_t most, const Take& take) {
  return segmentation_ ? receive_trains(most, take) : receive_packets(most, take);
}

std::size_t UdpSocket::receive_trains(std::size_t most, const Take& take) {
  std::size_t packets = 0;
  for (std::size_t train = 0; train < most; ++train) {
    Source from;
    iovec vector{arena_.data(), arena_.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_name = from.socket.get();
    message.msg_namelen = sizeof from.socket.storage;
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ++system_calls_;
    const ssize_t got = recvmsg(descriptor_, &message, 0);
    if (got < 0) {
      if (errno == ECONNREFUSED || errno == EINTR) continue;  // the peer's ICMP, not an end
      break;
    }
    from.socket.length = message.msg_namelen;
    from.address = to_protocol(from.socket);
    const auto bytes = static_cast<std::size_t>(got);
    std::size_t size = bytes;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_GRO) {
        int segment = 0;
        std::memcpy(&segment, CMSG_DATA(header), sizeof segment);
        if (segment > 0) size = static_cast<std::size_t>(segment);
      }
    }
    if (bytes == 0) take(from, {});
    for (std::size_t at = 0; at < bytes; at += size, ++packets) {
      take(from, {arena_.data() + at, std::min(size, bytes - at)});
    }
  }
  return packets;
}

std::size_t UdpSocket::receive_packets(std::size_t most, const Take& take) {
  std::size_t packets = 0;
  while (packets < most * kBatch) {
    mmsghdr messages[kBatch] = {};
    iovec vectors[kBatch];
    Source from[kBatch];
    for (std::size_t i = 0; i < kBatch; ++i) {
      vectors[i] = {arena_.data() + i * kReceivePacket, kReceivePacket};
      messages[i].msg_hdr.msg_iov = &vectors[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_name = from[i].socket.get();
      messages[i].msg_hdr.msg_namelen = sizeof from[i].socket.storage;
    }
    ++system_calls_;
    const int got = recvmmsg(descriptor_, messages, kBatch, 0, nullptr);
    if (got < 0 && (errno == ECONNREFUSED || errno == EINTR)) continue;
    if (got <= 0) break;
    for (int i = 0; i < got; ++i) {
      from[i].socket.length = messages[i].msg_hdr.msg_namelen;
      from[i].address = to_protocol(from[i].socket);
      take(from[i], {arena_.data() + static_cast<std::size_t>(i) * kReceivePacket, messages[i].msg_len});
    }
    packets += static_cast<std::size_t>(got);
    if (got < static_cast<int>(kBatch)) break;
  }
  return packets;
}

}  // namespace passing::net
