// UDP with batching: trains of equal packets through one system call (UDP_SEGMENT, UDP_GRO), or
// sendmmsg and recvmmsg where the kernel cannot do that. Chosen at run time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/address.h"

namespace passing::net {

/// Largest train. One IP packet could carry 64 KB; by measurement two thirds to nine tenths of that are
/// best here, and half is a tenth slower.
constexpr std::size_t kTrainBytes = 48'000;
/// Segments that every kernel with UDP_SEGMENT takes in one train.
constexpr std::size_t kTrainPackets = 64;

/// A non-blocking UDP socket. Owns its descriptor; one thread.
class UdpSocket {
 public:
  struct Options {
    std::size_t receive_buffer = 4U << 20;
    std::size_t send_buffer = 4U << 20;
    bool segmentation = true;  ///< false: as on a kernel without UDP_SEGMENT
  };

  static Expected<UdpSocket> open(const SocketAddress& local, const Options& options);
  UdpSocket(UdpSocket&& other) noexcept;
  UdpSocket& operator=(UdpSocket&& other) noexcept;
  ~UdpSocket();

  /// Sends and receives with this peer only.
  Expected<void> connect(const SocketAddress& peer);

  int descriptor() const { return descriptor_; }
  SocketAddress local() const;
  bool segmentation() const { return segmentation_; }
  /// The MTU of the path to the connected peer; 0: unknown.
  int path_mtu() const;
  /// Empty, or one sentence that names the sysctl to raise.
  const std::string& buffer_warning() const { return buffer_warning_; }

  /// Sends `bytes` as packets of `size` (the last may be shorter). `to` is empty when connected.
  /// Packets that the kernel has no room for are lost, as on any network.
  void send_train(const SocketAddress* to, std::span<const std::byte> bytes, std::size_t size);

  /// Where a packet came from, for answers and for the protocol.
  struct Source {
    SocketAddress socket;
    Address address;
  };
  /// Calls `take` for every packet that is there, up to about `most` trains; returns how many packets.
  using Take = std::function<void(const Source& from, std::span<const std::byte> packet)>;
  std::size_t receive(std::size_t most, const Take& take);

  std::uint64_t system_calls() const { return system_calls_; }
  std::uint64_t send_failures() const { return send_failures_; }  ///< packets that the kernel refused

 private:
  UdpSocket() = default;
  void set_buffers(const Options& options);
  void detect_segmentation(const Options& options);
  std::size_t receive_trains(std::size_t most, const Take& take);
  std::size_t receive_packets(std::size_t most, const Take& take);
  void send_packets(const SocketAddress* to, std::span<const std::byte> bytes, std::size_t size);

  int descriptor_ = -1;
  bool segmentation_ = false;
  bool send_in_trains_ = true;
  std::string buffer_warning_;
  std::vector<std::byte> arena_;  // for receiving
  std::uint64_t system_calls_ = 0;
  std::uint64_t send_failures_ = 0;
};

/// Collects packets for one destination and hands them on as trains.
class Train {
 public:
  Train() : bytes_(kTrainBytes) {}

  /// Room for one more packet of at most `most` bytes, or null: send first.
  std::byte* room(std::size_t most) {
    const bool fits = ended_ == false && packets_ < kTrainPackets && used_ + most <= bytes_.size();
    return fits ? bytes_.data() + used_ : nullptr;
  }
  /// A packet of `size` bytes was written to room(). Returns false if it does not belong to this
  /// train: then it is still at room(), and goes first into the next one.
  bool add(std::size_t size) {
    if (packets_ == 0) size_ = size;
    if (size > size_) return false;
    used_ += size;
    ++packets_;
    if (size < size_) ended_ = true;  // only the last may be shorter
    return true;
  }
  bool empty() const { return packets_ == 0; }
  std::size_t packet_size() const { return size_; }
  std::span<const std::byte> bytes() const { return {bytes_.data(), used_}; }
  void clear() {
    used_ = packets_ = size_ = 0;
    ended_ = false;
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
  std::size_t packets_ = 0;
  std::size_t size_ = 0;
  bool ended_ = false;
};

}  // namespace passing::net
