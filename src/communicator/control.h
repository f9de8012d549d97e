// Control between ranks: what goes on in the group, over connections with neighbours alone (docs/faults.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/messages.h"
#include "net/mesh.h"

namespace passing {

/// Always TCP, apart from the data: so it never waits behind data, and what explains a failure still gets
/// through after the connections for data are gone. Owned by one thread at a time.
class Control {
 public:
  struct Heard {
    std::uint32_t from = 0;
    ControlMessage message;
  };

  static Expected<std::unique_ptr<Control>> create(std::uint32_t rank, std::uint32_t size,
                                                   const net::SocketAddress& local);

  std::string address() const { return mesh_->address(); }
  Expected<void> introduce(const std::vector<std::string>& addresses, std::uint64_t group,
                           const net::Key& key) {
    return mesh_->introduce(addresses, group, key);
  }

  void tell(std::uint32_t neighbour, const ControlMessage& message);
  /// What has come, in order; what makes no sense is passed over.
  std::optional<Heard> next();

  void progress() { mesh_->progress(); }
  void flush() { mesh_->flush(); }
  int descriptor() const { return mesh_->descriptor(); }
  bool has_lost() const { return mesh_->has_lost(); }
  std::vector<net::LostPeer> take_lost() { return mesh_->take_lost(); }
  const std::optional<Error>& fault() const { return mesh_->fault(); }
  const net::Refused& refused() const { return mesh_->refused(); }
  /// Nothing that was told waits to be sent.
  bool all_sent() const { return mesh_->sends_pending() == 0; }

 private:
  Control(std::unique_ptr<net::Mesh> mesh, std::uint32_t rank, std::uint32_t size)
      : mesh_(std::move(mesh)), rank_(rank), size_(size) {}

  std::unique_ptr<net::Mesh> mesh_;
  std::uint32_t rank_;
  std::uint32_t size_;
};

}  // namespace passing
